"""Objects in a cloud whose store refuses, hangs, breaks off or gives another version."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.error_codes import lookup
from tallgrass.evidence.cloud_objects import CloudObjects, Patience
from tallgrass.evidence.object_store import ObjectBytes, RangeUnread
from tallgrass.evidence.readers import ObjectEvidenceReader
from tallgrass.evidence.reading import Evidence, ReadFailure
from tests.evidence.cloud_scene import CONTENT, TAIL, giving, s3
from tests.support.builders import units
from tests.support.odd_store import Answer, OddStore, Request, part

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.aws import AwsServer


def test_a_small_object_is_one_request_and_a_large_one_two() -> None:
    """Nothing is asked for twice; the second request is bound to the version of the first."""
    for content, ranges in (
        (CONTENT[:65_536], ["bytes=0-65535"]),
        (CONTENT, ["bytes=0-65535", "bytes=198976-199999"]),
        (CONTENT[:65_600], ["bytes=0-65535", "bytes=65536-65599"]),
    ):
        with OddStore(giving(content)) as store:
            answer = s3(store).read("s3://bucket/a b", TAIL)
        assert answer == ObjectBytes(
            head=content[:4096], tail=content[-1024:], size=len(content), etag="one"
        )
        assert [each.headers["range"] for each in store.requests] == ranges
        assert [each.headers.get("if-match") for each in store.requests] == [None, '"one"'][
            : len(ranges)
        ]
        assert {each.path for each in store.requests} == {"/bucket/a%20b"}
        assert not any("authorization" in each.headers for each in store.requests)


@pytest.mark.parametrize(
    ("status", "code", "requests"),
    [
        (400, "io_error", 1),
        (401, "access_denied", 1),
        (403, "access_denied", 1),
        (404, "missing_object", 1),
        (301, "io_error", 1),
        (408, "transient_network_error", 2),
        (429, "transient_network_error", 2),
        (500, "transient_network_error", 2),
        (503, "transient_network_error", 2),
    ],
)
def test_every_refusal_has_a_code(status: int, code: str, requests: int) -> None:
    """What the store refuses is told at once; what may pass is asked again, but not for ever."""
    secret = b"<Error><Code>Odd</Code><Message>at 10.1.2.3</Message></Error>"
    with OddStore(lambda *_: Answer(status=status, body=secret)) as store:
        answer = s3(store).read("s3://bucket/key", TAIL)
        address = store.url
    assert isinstance(answer, ReadFailure)
    assert answer.code == code
    assert lookup(code).retried
    assert len(store.requests) == requests
    assert answer.message.startswith("s3://bucket/key ")
    assert address.removeprefix("http://") not in answer.message
    assert "10.1.2.3" not in answer.message
    assert "\n" not in answer.message


@pytest.mark.parametrize("status", [503, 0])
def test_a_fault_that_passes_is_not_noticed(status: int) -> None:
    """One refusal, or one connection cut off, is repeated and then forgotten."""

    def script(number: int, request: Request) -> Answer:
        return Answer(status=status) if number == 1 else part(CONTENT, request, "one")

    with OddStore(script) as store:
        answer = s3(store).read("s3://bucket/key", TAIL)
    assert isinstance(answer, ObjectBytes)
    assert answer.tail == CONTENT[-1024:]


def overwritten_like_s3(request: Request) -> Answer:
    """Refuse a request for the version that is gone, as S3 does."""
    return Answer(status=412)


def overwritten_silently(request: Request) -> Answer:
    """Give bytes of the new version, as a store does that does not know `If-Match`."""
    return part(CONTENT[::-1], request, "two")


@pytest.mark.parametrize("then", [overwritten_like_s3, overwritten_silently])
def test_an_object_overwritten_between_head_and_tail(then: Callable[[Request], Answer]) -> None:
    """A head of one version and a tail of another are no object."""

    def script(number: int, request: Request) -> Answer:
        return part(CONTENT, request, "one") if number == 1 else then(request)

    with OddStore(script) as store:
        answer = s3(store).read("s3://bucket/key", TAIL)
    assert answer == ReadFailure(
        code="io_error", message="s3://bucket/key changed while it was read"
    )


def test_an_object_really_overwritten_between_head_and_tail(
    ministack: AwsServer, put: Callable[[str, bytes], str]
) -> None:
    """The emulator of S3 refuses the second request too."""
    uri = put("key", CONTENT)
    objects = s3(ministack)
    store = objects.store(*uri.removesuffix("/key").split("://"))

    class Overwriting:
        def get(self, key: str, options: dict[str, Any]) -> Any:
            if "if_match" in options:
                put("key", CONTENT[::-1])
            return store.get(key, options=options)  # type: ignore[arg-type]

    objects._stores = dict.fromkeys(objects._stores, Overwriting())  # type: ignore[arg-type]
    assert objects.read(uri, TAIL) == ReadFailure(
        code="io_error", message=f"{uri} changed while it was read"
    )
    assert isinstance(s3(ministack).read(uri, TAIL), ObjectBytes)


def test_further_bytes_are_of_the_same_version(
    ministack: AwsServer, put: Callable[[str, bytes], str]
) -> None:
    """More of an object can be read while it is the same; of another one nothing is."""
    content = bytes(range(250)) * 1000
    uri = put("key", content)
    answer = s3(ministack).read(uri, TAIL)
    assert isinstance(answer, ObjectBytes)
    assert not answer.near
    assert answer.more is not None
    assert answer.more(100_003, 4) == content[100_003:100_007]
    assert answer.more(len(content) - 2, 10) == content[-2:]
    put("key", bytes(len(content)))
    with pytest.raises(RangeUnread) as caught:
        answer.more(100_003, 4)
    assert caught.value.failure.code == "io_error"


def test_an_object_that_was_empty_and_is_not_any_more() -> None:
    """A refused range says "no bytes", and then there are some: it is read another time."""

    def script(number: int, request: Request) -> Answer:
        if number == 1:
            return Answer(status=416)
        assert request.method == "HEAD"
        return Answer(status=200, headers={"ETag": '"two"'}, cut=5)

    with OddStore(script) as store:
        answer = s3(store).read("s3://bucket/key", TAIL)
    assert answer == ReadFailure(
        code="io_error", message="s3://bucket/key changed while it was read"
    )


def test_a_body_cut_off_is_taken_up_again_in_the_same_version() -> None:
    """A short body is completed; with bytes of another version it is none."""

    def script(number: int, request: Request, etag: str) -> Answer:
        return part(CONTENT, request, "one" if number == 1 else etag, cut=10 * (number == 1))

    with OddStore(lambda number, request: script(number, request, "one")) as store:
        answer = s3(store).read("s3://bucket/key", TAIL)
    assert isinstance(answer, ObjectBytes)
    assert (answer.head, answer.tail) == (CONTENT[:4096], CONTENT[-1024:])
    assert len(store.requests) == 3
    with OddStore(lambda number, request: script(number, request, "two")) as store:
        answer = s3(store).read("s3://bucket/key", TAIL)
    assert isinstance(answer, ReadFailure)
    assert answer.code == "transient_network_error"


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Range": "bytes 0-9/200000"},
        {"Content-Range": "bytes 100-65635/200000"},
        {"Content-Range": "nonsense"},
        {"ETag": ""},
        {"ETag": '""'},
    ],
)
def test_an_answer_that_is_not_what_was_asked_for(headers: dict[str, str]) -> None:
    """Another part than the one asked for, or a version without a name, is not believed."""
    with OddStore(lambda _, request: part(CONTENT, request, "one", headers=headers)) as store:
        answer = s3(store).read("s3://bucket/key", TAIL)
    assert isinstance(answer, ReadFailure)
    assert answer.code == "io_error"


def test_a_store_that_ignores_ranges_is_told() -> None:
    """A whole object for an answer is refused: it may have hundreds of megabytes."""
    with OddStore(lambda *_: Answer(status=200, body=b"x", headers={"ETag": '"one"'})) as store:
        answer = s3(store).read("s3://bucket/key", TAIL)
    assert isinstance(answer, ReadFailure)
    assert answer.code == "io_error"


@pytest.mark.parametrize("after", [0, 206])
def test_a_store_that_hangs_ends_by_the_time_limit(after: int) -> None:
    """No answer, or half of one and then nothing: the read fails by itself, and may be retried."""

    def script(_: int, request: Request) -> Answer:
        if not after:
            return Answer(status=0, hang=True)
        return part(CONTENT, request, "one", cut=10, hang=True)

    patience = Patience(request_s=0.3, repeats=1, first_pause_s=0.01)
    with OddStore(script) as store:
        answer = s3(store, patience=patience).read("s3://bucket/key", TAIL)
    assert isinstance(answer, ReadFailure)
    assert answer.code == "transient_network_error"
    assert len(store.requests) <= 2


def test_a_store_that_is_down() -> None:
    """A port where nobody listens is told as a matter of the network."""
    with OddStore(lambda *_: Answer()) as store:
        pass
    answer = s3(store).read("s3://bucket/key", TAIL)
    assert answer == ReadFailure(
        code="transient_network_error",
        message="s3://bucket/key could not be read: the store does not answer",
    )


def test_a_hung_store_does_not_hold_a_batch() -> None:
    """After the batch's deadline nothing more is asked; what was not read may be retried."""
    seconds = iter(range(1000))
    lock = threading.Lock()

    def monotonic() -> float:
        with lock:
            return float(next(seconds))

    class Slow:
        asked = 0

        def read(self, object_uri: str, tail_bytes: int) -> ReadFailure:
            self.asked += 1
            return ReadFailure(code="transient_network_error", message="slow")

    slow = Slow()
    reader = ObjectEvidenceReader(
        slow, lambda _: None, threads=1, deadline_s=10, monotonic=monotonic
    )
    answers = reader.read(units(30))
    # The clock was read at 0, then once a unit: the tenth is asked at 10, the next is too late.
    assert slow.asked == 10
    late = answers[10]
    assert isinstance(late, ReadFailure)
    assert late.code == "transient_network_error"
    assert late.message == (
        f"{units(30)[10].object_uri} was not asked for: other reads of its batch took 10 s"
    )
    assert len(answers) == 30
    # The next batch has a deadline of its own.
    assert reader.read(units(1)) == [ReadFailure(code="transient_network_error", message="slow")]


def test_reads_of_a_batch_go_on_at_the_same_time() -> None:
    """Several reads are under way together, and the answers stand in the order of the units."""
    meeting = threading.Barrier(4)

    def script(_: int, request: Request) -> Answer:
        return part(request.path.encode(), request, "one")

    class Meeting:
        def __init__(self, objects: CloudObjects) -> None:
            self._objects = objects

        def read(self, object_uri: str, tail_bytes: int) -> ObjectBytes | ReadFailure:
            meeting.wait(30)
            return self._objects.read(object_uri, tail_bytes)

    with OddStore(script) as store:
        reader = ObjectEvidenceReader(Meeting(s3(store)), lambda _: None, threads=4)
        answers = reader.read(units(8))
        reader.close()
    assert [each.size for each in answers if isinstance(each, Evidence)] == [
        len(each.object_uri) - len("s3:/") for each in units(8)
    ]
    assert len(store.requests) == 8
