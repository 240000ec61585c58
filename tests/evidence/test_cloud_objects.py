"""Objects in a cloud: the same answers as from a folder, whatever the store does."""

from __future__ import annotations

import hashlib
import os
import random
import threading
import uuid
from typing import TYPE_CHECKING, Any

import pytest
from obstore.store import AzureStore, GCSStore

from tallgrass.bootstrap.workers import open_reader
from tallgrass.config import load_config
from tallgrass.datasets.catalogue import default_catalogue
from tallgrass.datasets.definition import FileFormat
from tallgrass.error_codes import lookup
from tallgrass.errors import ConfigError
from tallgrass.evidence.cloud_objects import CloudObjects, Patience, standard_s3_credentials
from tallgrass.evidence.object_store import LocalObjects, ObjectBytes, RangeUnread
from tallgrass.evidence.readers import ObjectEvidenceReader
from tallgrass.evidence.reading import Evidence, ReadFailure
from tests.evidence.samples import grib2, hdf5, nexrad
from tests.support.builders import unit, units
from tests.support.odd_store import Answer, OddStore, Request, part

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.support.aws import AwsServer

TAIL = 1024
#: One repeat, at once.
HASTE = Patience(
    connect_s=30, request_s=30, repeats=1, repeat_within_s=60,
    first_pause_s=0.01, longest_pause_s=0.01,
)  # fmt: skip
CONTENT = random.Random(4).randbytes(200_000)


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what the environment says of proxies and AWS away from loopback."""
    for name in list(os.environ):
        if name.upper().endswith("_PROXY") or name.startswith("AWS_"):
            monkeypatch.delenv(name)


@pytest.fixture
def bucket(ministack: AwsServer) -> str:
    """Return an empty bucket of the test's own."""
    name = f"noaa-{uuid.uuid4().hex[:12]}"
    ministack.client("s3").create_bucket(Bucket=name)
    return name


@pytest.fixture
def put(ministack: AwsServer, bucket: str) -> Callable[[str, bytes], str]:
    """Return a function that puts an object into the bucket and returns its address."""

    def put(key: str, content: bytes) -> str:
        ministack.client("s3").put_object(Bucket=bucket, Key=key, Body=content)
        return f"s3://{bucket}/{key}"

    return put


def s3(at: AwsServer | OddStore, **settings: Any) -> CloudObjects:
    """Return the objects of a store on loopback."""
    return CloudObjects(endpoint_url=at.url, **{"patience": HASTE, **settings})


def giving(content: bytes) -> Callable[[int, Request], Answer]:
    """Return the script of a store that has this content and no fault."""
    return lambda _, request: part(content, request, "one")


def md5(content: bytes) -> str:
    """Return the etag that S3 gives an object that was put in one piece."""
    return hashlib.md5(content).hexdigest()  # noqa: S324 - what S3 uses


# --- a real S3 protocol -------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 4097, 65_535, 65_536, 65_537, 66_559, 66_561, 5_000_000])
def test_head_tail_size_and_etag(
    ministack: AwsServer, put: Callable[[str, bytes], str], size: int
) -> None:
    """The first 4,096 and the last bytes, the size and S3's own etag without quotes are read."""
    content = random.Random(size).randbytes(size)
    uri = put("a/key", content)
    assert s3(ministack).read(uri, TAIL) == ObjectBytes(
        head=content[:4096], tail=content[-1024:], size=size, etag=md5(content)
    )


@pytest.mark.parametrize("tail_bytes", [1024, 128 * 1024])
def test_a_tail_that_begins_in_the_first_part(
    ministack: AwsServer, put: Callable[[str, bytes], str], tail_bytes: int
) -> None:
    """A tail that overlaps what was read first is whole, though only the rest is read again."""
    content = CONTENT[:100_000]
    answer = s3(ministack).read(put("key", content), tail_bytes)
    assert isinstance(answer, ObjectBytes)
    assert answer.tail == content[-tail_bytes:]


def test_an_object_uploaded_in_parts_has_the_stores_etag(ministack: AwsServer, bucket: str) -> None:
    """The etag is not computed: of a multipart upload it is a hash of hashes, as announced."""
    client = ministack.client("s3")
    pieces = [os.urandom(5 * 1024 * 1024), b"end"]
    upload = client.create_multipart_upload(Bucket=bucket, Key="parts")["UploadId"]
    done = []
    for number, piece in enumerate(pieces, start=1):
        tag = client.upload_part(
            Bucket=bucket, Key="parts", UploadId=upload, PartNumber=number, Body=piece
        )["ETag"]
        done.append({"ETag": tag, "PartNumber": number})
    client.complete_multipart_upload(
        Bucket=bucket, Key="parts", UploadId=upload, MultipartUpload={"Parts": done}
    )
    digests = b"".join(hashlib.md5(piece).digest() for piece in pieces)  # noqa: S324
    answer = s3(ministack).read(f"s3://{bucket}/parts", TAIL)
    assert isinstance(answer, ObjectBytes)
    assert answer.etag == f"{md5(digests)}-2"
    assert (answer.size, answer.tail[-3:]) == (5 * 1024 * 1024 + 3, b"end")


@pytest.mark.parametrize(
    "key",
    ["a b", "a+b", "a%20b", "a%2Fb", "%2e%2e", "T15:00/x", "ü/☃", "x#y", "t?u=v&w", "a\\b", "..x"],
)
def test_a_key_is_a_name_and_nothing_else(
    ministack: AwsServer, put: Callable[[str, bytes], str], key: str
) -> None:
    """No character of a key is decoded or has a meaning."""
    answer = s3(ministack).read(put(key, key.encode()), TAIL)
    assert isinstance(answer, ObjectBytes)
    assert answer.head == key.encode()


@pytest.mark.parametrize("key", ["a/", "/a", "a//b", "./a", "a/../b", ".."])
def test_a_key_that_cannot_be_asked_for_is_never_another(
    ministack: AwsServer, put: Callable[[str, bytes], str], bucket: str, key: str
) -> None:
    """The client cuts slashes off and refuses dots: such a key is told, not read as a neighbour."""
    put("a", b"neighbour")
    put("b", b"neighbour")
    answer = s3(ministack).read(f"s3://{bucket}/{key}", TAIL)
    assert isinstance(answer, ReadFailure)
    assert (answer.code, answer.may_come) == ("missing_object", False)
    assert f"s3://{bucket}/{key}" in answer.message


def test_a_missing_object_and_a_missing_bucket(ministack: AwsServer, bucket: str) -> None:
    """What is not there has the code for it, which is tried again: a notification may be early."""
    for uri in (f"s3://{bucket}/nothing", "s3://no-such-bucket-at-all/key"):
        answer = s3(ministack).read(uri, TAIL)
        assert isinstance(answer, ReadFailure)
        assert (answer.code, answer.may_come) == ("missing_object", True)
        assert uri in answer.message
    assert lookup("missing_object").retried


@pytest.mark.parametrize("uri", ["ftp://host/key", "https://host/key", "file:///etc/passwd", ""])
def test_no_other_place_is_asked(uri: str) -> None:
    """Only s3, gs and az are clouds."""
    answer = CloudObjects().read(uri, TAIL)
    assert isinstance(answer, ReadFailure)
    assert answer.code == "missing_object"


def test_evidence_is_that_of_a_folder(
    ministack: AwsServer, put: Callable[[str, bytes], str], bucket: str, tmp_path: Path
) -> None:
    """Evidence has the same bytes, whether an object was read in a cloud or in a folder."""
    files = {
        FileFormat.NETCDF4: hdf5(values=20_000),
        FileFormat.NEXRAD_LEVEL2: nexrad(os.urandom(90_000), os.urandom(90_000)),
        FileFormat.GRIB2: grib2(),
    }
    contents = [*files.values(), *(each[:-7] for each in files.values()), b"", b"neither"]
    formats = [*files, *files, *files]
    made = []
    for number, content in enumerate(contents):
        uri = put(f"T15:00/{number} ü", content)
        path = tmp_path / uri.removeprefix("s3://")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        made.append(unit(number, dataset=f"d{number}", object_uri=uri))
    bodies = []
    for objects in (s3(ministack), LocalObjects(tmp_path)):
        reader = ObjectEvidenceReader(
            objects, lambda each: formats[int(each.dataset[1:])], threads=4
        )
        answers = reader.read(made)
        reader.close()
        bodies.append([each.to_bytes() for each in answers if isinstance(each, Evidence)])
    assert len(bodies[0]) == 8
    assert bodies[0] == bodies[1]
    assert md5(contents[0]).encode() in bodies[0][0]


def test_a_batch_is_read_from_where_the_settings_say(
    ministack: AwsServer, put: Callable[[str, bytes], str]
) -> None:
    """`objects.url = cloud` reads a batch in parallel, each answer in its place; no credentials."""
    made = [
        unit(number, object_uri=put(f"goes-glm/{number}", hdf5(values=number)))
        for number in range(1, 40)
    ]
    config = load_config(
        environment={}, flags={"objects.url": "cloud", "objects.endpoint_url": ministack.url}
    )
    reader = open_reader(config, default_catalogue())
    answers = reader.read(made)
    assert isinstance(reader, ObjectEvidenceReader)
    reader.close()
    assert [each.etag for each in answers if isinstance(each, Evidence)] == [
        md5(hdf5(values=number)) for number in range(1, 40)
    ]


# --- a store that answers as it is told -----------------------------------------------------------


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


# --- where requests go ----------------------------------------------------------------------------


@pytest.fixture
def asked_hosts(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Let every request go to a proxy on loopback, which refuses it and notes the host."""
    hosts: list[str] = []

    def script(_: int, request: Request) -> Answer:
        hosts.append(f"{request.method} {request.path}")
        return Answer(status=502)

    with OddStore(script) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        yield hosts


@pytest.mark.parametrize(
    ("uri", "host"),
    [
        ("s3://noaa-goes19/key", "noaa-goes19.s3.amazonaws.com"),
        ("s3://noaa.dotted/key", "s3.amazonaws.com"),
        ("gs://gcp-public-data-goes-16/key", "storage.googleapis.com"),
        ("az://goeseuwest.noaa-goes16/key", "goeseuwest.blob.core.windows.net"),
    ],
)
def test_each_cloud_is_asked_at_its_own_host(
    monkeypatch: pytest.MonkeyPatch, asked_hosts: list[str], uri: str, host: str
) -> None:
    """The public host of the bucket, whatever region or endpoint the environment names."""
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "https://elsewhere.invalid")
    answer = CloudObjects(patience=HASTE).read(uri, TAIL)
    assert isinstance(answer, ReadFailure)
    assert answer.code == "transient_network_error"
    assert set(asked_hosts) == {f"CONNECT {host}:443"}


def test_the_configured_endpoint_wins_over_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`objects.endpoint_url` is asked, path style, though AWS_ENDPOINT_URL_S3 names another."""
    with OddStore(lambda _, request: part(b"content", request, "one")) as store:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")
        monkeypatch.setenv("AWS_VIRTUAL_HOSTED_STYLE_REQUEST", "true")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "somebody")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        answer = CloudObjects(endpoint_url=f"{store.url}/", patience=HASTE).read(
            "s3://noaa.dotted/a/key", TAIL
        )
    assert isinstance(answer, ObjectBytes)
    assert [each.path for each in store.requests] == ["/noaa.dotted/a/key"]
    assert "authorization" not in store.requests[0].headers


@pytest.mark.usefixtures("aws_environment")
def test_signed_reads_use_the_credentials_of_the_standard_chain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`objects.signed` signs with what boto3 finds, for the region that the environment names."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    with OddStore(lambda _, request: part(b"content", request, "one")) as store:
        config = load_config(
            environment={"TALLGRASS_OBJECTS_SIGNED": "true"},
            flags={"objects.url": "cloud", "objects.endpoint_url": store.url},
        )
        reader = open_reader(config, default_catalogue())
        (answer,) = reader.read([unit(0)])
    assert isinstance(answer, Evidence)
    (request,) = store.requests
    signature = request.headers["authorization"]
    assert signature.startswith("AWS4-HMAC-SHA256 Credential=testing/")
    assert "/eu-west-1/s3/aws4_request" in signature


@pytest.mark.usefixtures("aws_environment")
def test_signed_reads_without_credentials_are_refused_at_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A setting that cannot work is told before a unit fails by it."""
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(ConfigError, match=r"objects\.signed"):
        standard_s3_credentials()


@pytest.mark.parametrize("scheme", ["gs", "az"])
def test_the_other_clouds_are_read_by_the_same_requests(scheme: str) -> None:
    """Google's and Azure's answers are taken as S3's: two ranges, one version, a plain etag."""
    with OddStore(lambda _, request: part(CONTENT, request, "0x8DB369315269B01")) as odd:
        options: Any = {"skip_signature": True, "client_options": {"allow_http": True}}
        store: Any = (
            GCSStore("bucket", base_url=odd.url, **options)
            if scheme == "gs"
            else AzureStore("container", account_name="account", endpoint=odd.url, **options)
        )
        objects = CloudObjects(patience=HASTE)
        objects._stores[scheme, "account.container"] = store
        answer = objects.read(f"{scheme}://account.container/a b+T15:00", TAIL)
    assert answer == ObjectBytes(
        head=CONTENT[:4096], tail=CONTENT[-1024:], size=len(CONTENT), etag="0x8DB369315269B01"
    )
    assert [each.headers["range"] for each in odd.requests] == [
        "bytes=0-65535",
        "bytes=198976-199999",
    ]
    assert odd.requests[1].headers["if-match"] == '"0x8DB369315269B01"'


def test_a_bucket_is_opened_once() -> None:
    """Stores, with their connections, are kept by bucket; threads that race share one."""
    objects = CloudObjects()
    found: list[object] = []
    gate = threading.Barrier(8)

    def ask() -> None:
        gate.wait(30)
        found.append(objects.store("s3", "bucket"))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(found) == 8
    assert len({id(each) for each in found}) == 1
    assert objects.store("gs", "bucket") is not found[0]


def test_by_default_a_read_ends_within_a_messages_hidden_time() -> None:
    """120 s for a batch's starts and two requests of 35 s each are less than 300 s."""
    patience = Patience()
    longest = 2 * (patience.repeat_within_s + patience.request_s)
    assert longest == 70
    assert 120 + longest < 300
