"""SQS when it throttles, fails, denies, forgets, or does only half of what it was asked."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.errors import (
    InvalidInput,
    QueueDenied,
    QueueMissing,
    QueueRefused,
    QueueThrottled,
    QueueUnavailable,
    QueueUnreachable,
)
from tests.queues.sqs_scene import CHANGE, COUNT, DELETE, RECEIVE, SEND, open_at
from tests.support.aws import ENVIRONMENT
from tests.support.faulty_endpoint import (
    ALL,
    answers,
    breaks,
    fails_entries,
    loses_the_answer,
)

if TYPE_CHECKING:
    from tests.queues.sqs_scene import Scene

#: What SQS answers → what it means. The codes are those of Amazon's documentation.
ANSWERS: dict[str, tuple[Any, type[Exception]]] = {
    "throttled": (answers("ThrottlingException"), QueueThrottled),
    "throttled by request": (answers("RequestThrottled", 403), QueueThrottled),
    "too many requests": (answers("Unheard", 429), QueueThrottled),
    "too many in flight": (answers("OverLimit", 403), QueueThrottled),
    "failing": (answers("InternalFailure", 500), QueueUnreachable),
    "unavailable": (answers("ServiceUnavailable", 503), QueueUnreachable),
    "failing without a code": (answers("", 502), QueueUnreachable),
    "denied": (answers("AccessDeniedException"), QueueDenied),
    "denied by an unknown code": (answers("Unheard", 403), QueueDenied),
    "expired credentials": (answers("ExpiredToken", 403), QueueDenied),
    "unknown credentials": (answers("InvalidClientTokenId", 403), QueueDenied),
    "no right to the key": (answers("KmsAccessDenied"), QueueDenied),
    "gone": (answers("QueueDoesNotExist"), QueueMissing),
    "gone, as it was told before": (
        answers("AWS.SimpleQueueService.NonExistentQueue"),
        QueueMissing,
    ),
    "closing the connection": (breaks(), QueueUnreachable),
    "wrong": (answers("InvalidAddress"), QueueRefused),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_each_answer_has_its_meaning(scene: Scene, name: str) -> None:
    """What passes or can be mended is waited for; only a request that is wrong is final."""
    fault, meaning = ANSWERS[name]
    (receipt,) = scene.fill(1)
    scene.endpoint.plan(ALL, fault)
    calls = (
        lambda: scene.queue.receive(1),
        lambda: scene.queue.delete([receipt]),
        lambda: scene.queue.change_visibility([(receipt, 5)]),
        lambda: scene.queue.send([b"x"]),
        scene.queue.status,
    )
    for call in calls:
        with pytest.raises(meaning) as caught:
            call()
        assert issubclass(meaning, QueueUnavailable) == (meaning is not QueueRefused)
        assert "nodd-primary" in str(caught.value)
    scene.endpoint.heal()
    assert scene.counts() == (0, 1)
    assert list(scene.queue.delete([receipt])) == []


def test_an_endpoint_that_nobody_listens_at_is_unreachable(scene: Scene) -> None:
    """A refused connection is told as such."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        free = f"http://127.0.0.1:{taken.getsockname()[1]}"
    queue = open_at(scene.made, free)
    with pytest.raises(QueueUnreachable, match="Could not connect"):
        queue.receive(1)
    queue.close()


def test_missing_credentials_are_told(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without credentials the error says so, and what to do."""
    for name in ENVIRONMENT:
        if "KEY" in name:
            monkeypatch.delenv(name)
    queue = open_at(scene.made, scene.endpoint.url)
    with pytest.raises(QueueDenied, match="Unable to locate credentials") as caught:
        queue.receive(1)
    assert "standard chain" in caught.value.about.remedy
    queue.close()


def test_a_short_fault_is_not_noticed(scene: Scene) -> None:
    """boto3 tries a request again before anybody hears of it."""
    queue = open_at(scene.made, scene.endpoint.url, tries=3)
    scene.endpoint.plan(SEND, answers("ThrottlingException"), times=1)
    queue.send([b"one"])
    scene.endpoint.plan(RECEIVE, breaks(), times=1)
    (message,) = queue.receive(1)
    scene.endpoint.plan(DELETE, answers("InternalFailure", 500), times=1)
    assert list(queue.delete([message.receipt])) == []
    assert scene.counts() == (0, 0)
    queue.close()


# --- batches of which a part fails ----------------------------------------------------------------


def test_entries_that_sqs_failed_to_do_are_tried_again(scene: Scene) -> None:
    """A delete whose answer names failed entries sends those again, and no others."""
    receipts = scene.fill(7)
    scene.endpoint.plan(
        DELETE, fails_entries("InternalError", sender=False, ids={"2", "5"}), times=1
    )
    assert list(scene.queue.delete(receipts)) == []
    assert scene.counts() == (0, 0)
    sent = [body for action, body, _ in scene.endpoint.requests if action == DELETE]
    again = [entry["ReceiptHandle"] for entry in sent[1]["Entries"]]
    assert again == [receipts[2], receipts[5]]


def test_entries_that_keep_failing_are_told(scene: Scene) -> None:
    """After a few tries the error counts them; the others of the batch are gone."""
    receipts = scene.fill(4)
    scene.endpoint.plan(DELETE, fails_entries("ServiceUnavailable", sender=False, ids={"1", "3"}))
    with pytest.raises(QueueUnreachable, match="2 of 4 failed"):
        scene.queue.delete(receipts)
    assert scene.counts() == (0, 2)


def test_an_entry_without_an_answer_counts_as_not_done(scene: Scene) -> None:
    """An answer that leaves an entry out is not taken for a success."""

    def forgets(request: dict[str, Any], pass_on: Any) -> Any:
        return pass_on({**request, "Entries": request["Entries"][1:]})

    receipts = scene.fill(3)
    scene.endpoint.plan(DELETE, forgets, times=1)
    assert list(scene.queue.delete(receipts)) == []
    assert scene.counts() == (0, 0)


@pytest.mark.parametrize(
    "code", ["ReceiptHandleIsInvalid", "InvalidParameterValue", "MessageNotInflight"]
)
def test_an_expired_receipt_is_returned_as_no_longer_valid(scene: Scene, code: str) -> None:
    """What SQS calls the sender's fault is reported by its receipt; its neighbours are done."""
    receipts = scene.fill(3)
    stale = fails_entries(code, sender=True, ids={"1"})
    scene.endpoint.plan(CHANGE, stale)
    scene.endpoint.plan(DELETE, stale)
    changes = [(receipt, 30.0) for receipt in receipts]
    assert list(scene.queue.change_visibility(changes)) == [receipts[1]]
    assert list(scene.queue.delete(receipts)) == [receipts[1]]
    assert scene.counts() == (0, 1)
    assert scene.endpoint.count(DELETE) == 1


def test_a_right_taken_away_is_no_stale_receipt(scene: Scene) -> None:
    """An entry that is denied is told as denied, though SQS calls it the sender's fault."""
    receipts = scene.fill(2)
    scene.endpoint.plan(DELETE, fails_entries("AccessDenied", sender=True, ids={"0"}))
    with pytest.raises(QueueDenied):
        scene.queue.delete(receipts)
    assert scene.endpoint.count(DELETE) == 1


def test_one_failed_request_hinders_no_other(scene: Scene) -> None:
    """Of thirty deletions in three requests the two that got through are done."""
    receipts = scene.fill(30)
    scene.endpoint.plan(DELETE, answers("ThrottlingException"), times=1)
    with pytest.raises(QueueThrottled):
        scene.queue.delete(receipts)
    assert scene.counts() == (0, 10)


def test_a_service_that_does_not_answer_is_not_asked_part_by_part(scene: Scene) -> None:
    """Of a hundred deletions only those under way meet the outage, so that it is told soon."""
    receipts = scene.fill(100)
    scene.endpoint.plan(DELETE, breaks())
    with pytest.raises(QueueUnreachable, match="delete_message_batch"):
        scene.queue.delete(receipts)
    assert scene.endpoint.count(DELETE) <= 3
    scene.endpoint.heal()
    assert list(scene.queue.delete(receipts)) == []


def test_ids_of_entries_are_positions(scene: Scene) -> None:
    """The same receipt twice is one entry, and long receipts never become ids."""
    receipts = scene.fill(3)
    scene.queue.delete([*receipts, *receipts])
    ((_, request, _),) = [found for found in scene.endpoint.requests if found[0] == DELETE]
    assert [entry["Id"] for entry in request["Entries"]] == ["0", "1", "2"]


def test_a_refused_message_is_told_with_what_was_sent(scene: Scene) -> None:
    """A message that SQS refuses ends the sending; the error counts what went before."""
    scene.endpoint.plan(SEND, lambda request, pass_on: pass_on(request), times=1)
    scene.endpoint.plan(SEND, fails_entries("InvalidMessageContents", sender=True, ids={"0"}))
    with pytest.raises(QueueRefused, match=r"InvalidMessageContents.*10 of 12 messages are known"):
        scene.queue.send([b"x"] * 12)


# --- receiving ------------------------------------------------------------------------------------


def test_a_fault_in_the_middle_of_a_receive_loses_nothing(scene: Scene) -> None:
    """Messages that were received before a request failed are handed out all the same."""
    scene.queue.send([b"x"] * 30)
    scene.endpoint.plan(RECEIVE, lambda request, pass_on: pass_on(request), times=2)
    scene.endpoint.plan(RECEIVE, answers("ThrottlingException"))
    assert len(scene.queue.receive(100)) == 20
    with pytest.raises(QueueThrottled):
        scene.queue.receive(100)
    scene.endpoint.heal()
    assert len(scene.queue.receive(100)) == 10


def test_a_lost_answer_brings_the_messages_again(scene: Scene) -> None:
    """What SQS handed out into a broken connection is visible again after its time."""
    scene.queue.send([b"one"])
    scene.endpoint.plan(RECEIVE, loses_the_answer(), times=1)
    with scene.server.stopped_clock():
        with pytest.raises(QueueUnreachable):
            scene.queue.receive(1)
        assert scene.counts() == (0, 1)
        scene.server.advance(61)
        (message,) = scene.queue.receive(1)
    assert (message.body, message.receive_count) == (b"one", 2)


@pytest.mark.parametrize(("limit", "sizes"), [(1, [1]), (10, [10]), (25, [10, 10, 5])])
def test_a_receive_asks_for_no_more_than_its_limit(
    scene: Scene, limit: int, sizes: list[int]
) -> None:
    """Receivers share the limit: what is received is at most that."""
    scene.queue.send([b"x"] * 40)
    assert len(scene.queue.receive(limit)) == limit
    asked = [body for action, body, _ in scene.endpoint.requests if action == RECEIVE]
    assert sorted(body["MaxNumberOfMessages"] for body in asked) == sorted(sizes)
    assert scene.counts() == (40 - limit, limit)


def test_an_answer_that_is_not_full_ends_the_receive(scene: Scene) -> None:
    """With few messages one request is enough: nobody is asked about an empty queue."""
    scene.queue.send([b"x"] * 9)
    assert len(scene.queue.receive(500)) == 9
    assert scene.endpoint.count(RECEIVE) == 1


def test_the_first_poll_waits_and_says_for_how_long_to_hide(scene: Scene) -> None:
    """A receive waits in polls of two seconds at most; further ones do not wait."""
    queue = open_at(scene.made, scene.endpoint.url, wait_s=5, visibility_s=77.2)
    queue.send([b"x"] * 20)
    assert len(queue.receive(30)) == 20
    asked = [body for action, body, _ in scene.endpoint.requests if action == RECEIVE]
    assert asked[0]["WaitTimeSeconds"] == 2
    assert {body["WaitTimeSeconds"] for body in asked[1:]} == {0}
    assert {body["VisibilityTimeout"] for body in asked} == {78}
    queue.close()


def test_a_wait_ends_when_it_is_interrupted(scene: Scene) -> None:
    """Whoever is told to stop waits for one poll more, not for the whole time."""
    asked: list[bool] = []

    def interrupted() -> bool:
        asked.append(True)
        return len(asked) == 2

    queue = open_at(scene.made, scene.endpoint.url, wait_s=20, interrupted=interrupted)
    empty: Any = answers("", 200)
    scene.endpoint.plan(RECEIVE, empty)
    assert list(queue.receive(10)) == []
    assert scene.endpoint.count(RECEIVE) == 2
    queue.close()


def test_a_body_that_is_no_text_in_utf8_comes_through(scene: Scene) -> None:
    """A lone surrogate in SQS's answer is handed on for the reader to refuse."""

    def spoils(request: dict[str, Any], pass_on: Any) -> Any:
        answer = pass_on(request)
        answer.body["Messages"][0]["Body"] = "a\ud800"
        return answer

    scene.queue.send([b"one"])
    scene.endpoint.plan(RECEIVE, spoils)
    (message,) = scene.queue.receive(1)
    assert message.body == b"a\xed\xa0\x80"


# --- sending and counting -------------------------------------------------------------------------


def test_a_batch_stays_below_one_mebibyte(scene: Scene) -> None:
    """Large messages are sent in several requests, each within SQS's limit."""
    size = 400_000
    ids = scene.queue.send([b"x" * size] * 5)
    assert len(set(ids)) == 5
    batches = [body["Entries"] for action, body, _ in scene.endpoint.requests if action == SEND]
    assert [len(entries) for entries in batches] == [2, 2, 1]
    assert scene.counts() == (5, 0)


@pytest.mark.parametrize("body", [b"\xff", b"a\x00b", "a\uffff".encode()])
def test_a_body_that_sqs_would_change_is_refused(scene: Scene, body: bytes) -> None:
    """SQS takes text only, and replaces what it does not take: nothing of the batch is sent."""
    with pytest.raises(InvalidInput, match="Nothing was sent"):
        scene.queue.send([b"good", body])
    assert scene.endpoint.count(SEND) == 0


@pytest.mark.parametrize("code", ["AccessDenied", "QueueDoesNotExist"])
def test_dead_letters_that_cannot_be_counted_are_unknown(scene: Scene, code: str) -> None:
    """Without the right to look at the dead-letter queue the rest of the status is told."""
    scene.fill(2)

    def for_the_dead(request: dict[str, Any], pass_on: Any) -> Any:
        dead = request["QueueUrl"].endswith("-dead")
        return answers(code)(request, pass_on) if dead else pass_on(request)

    scene.endpoint.plan(COUNT, for_the_dead)
    status = scene.queue.status()
    assert (status.visible, status.in_flight, status.dead) == (0, 2, None)


def test_a_queue_without_dead_letters_has_none_to_count(scene: Scene) -> None:
    """Where no redrive policy is set the number of dead letters is not 0 but unknown."""
    url = scene.server.client("sqs").create_queue(QueueName=f"plain-{os.getpid()}")["QueueUrl"]
    arn = scene.server.arn_of(url)
    made = type(scene.made)(url=url, arn=arn, dead_url="", dead_arn="")
    queue = open_at(made, scene.endpoint.url)
    assert queue.status().dead is None
    queue.close()


def test_requests_name_tallgrass(scene: Scene) -> None:
    """Whoever reads the service's log finds out who asked."""
    scene.queue.status()
    assert "tallgrass/" in scene.endpoint.requests[0][2]["User-Agent"]
