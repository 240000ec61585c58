"""`tallgrass backfill` as a real process, on both databases."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tallgrass.bootstrap.inventory import listed_pages
from tallgrass.errors import ListingBroken
from tests.cli.command import here, tallgrass
from tests.pipeline.scene import Pipeline, thing
from tests.support.listing_server import Bucket, ListingServer, refuses
from tests.telemetry.collector import Collector, attributes, number

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tallgrass.evidence.listing import Page
    from tests.cli.command import Done
    from tests.support.backends import Backend

HOUR = ("--since", "2026-06-01T12:00:00Z", "--until", "2026-06-01T13:00:00Z")
GIVEN = [thing(2 * number) for number in range(6)]  # of one satellite, 20 seconds apart


@pytest.fixture
def pipeline(backend: Backend, tmp_path: Path) -> Pipeline:
    """Six objects in a folder, of which none was announced."""
    made = Pipeline(backend, tmp_path)
    made.put(*GIVEN)
    return made


def backfill(pipeline: Pipeline, *flags: str, **env: str) -> Done:
    """Run it on the pipeline's folder."""
    return tallgrass(
        "backfill", "--dataset", "goes-glm", "--objects", f"file:{pipeline.objects}", *flags,
        at=pipeline.backend, env=env,
    )  # fmt: skip


def quick(pipeline: Pipeline, *flags: str, **env: str) -> Done:
    """Run it in this process, for its JSON."""
    return here(
        "backfill", "--dataset", "goes-glm", "--objects", f"file:{pipeline.objects}", *flags,
        at=pipeline.backend, env=env,
    )  # fmt: skip


def recorded(pipeline: Pipeline) -> int:
    """Count records by plain SQL."""
    ((number,),) = pipeline.backend.sql("SELECT count(*) FROM wal_records")
    return int(number)


def test_what_a_folder_holds_becomes_due_and_ingest_takes_it_from_there(pipeline: Pipeline) -> None:
    """The whole way, as its help tells it: dry run, backfill, again, ingest."""
    dry = backfill(pipeline, *HOUR, "--dry-run", "--output", "json")
    assert (dry.code, dry.json["dry_run"], dry.json["recorded"]) == (0, True, 6)
    assert recorded(pipeline) == 0
    done = backfill(pipeline, *HOUR, "--actor", "ann")
    assert done.code == 0, done.err
    facts = dict(line.rsplit(maxsplit=1) for line in done.out.splitlines()[1:])
    assert facts["listed"] == facts["new, made due"] == "6"
    again = backfill(pipeline, *HOUR, "--actor", "ann", "--output", "json")
    assert (again.json["known"], again.json["recorded"]) == (6, 0)
    ingest = tallgrass(
        "ingest", "--drain", "--queue", f"sqlite:///{pipeline.folder / 'queue.db'}",
        "--objects", f"file:{pipeline.objects}", "--output", "json", at=pipeline.backend,
    )  # fmt: skip
    assert ingest.json["by_verdict"] == {"succeeded": 6}
    assert pipeline.backend.sql("SELECT DISTINCT intent FROM wal_attempts") == [("backfill",)]


def test_what_it_records_is_counted_at_a_collector(pipeline: Pipeline) -> None:
    """Units that it makes due have entered `pending`, and its call is a span."""
    with Collector() as collector:
        done = backfill(pipeline, *HOUR, "--actor", "ann", **collector.variables())
        assert done.code == 0, done.err
        (count,) = collector.last("nodd_sns.wal_records_total").sum.data_points
    assert attributes(count) == {"dataset": "goes-glm", "status": "pending"}
    assert number(count) == 6


def test_flags_choose_what_is_listed(pipeline: Pipeline) -> None:
    """Time, prefix and bucket each leave something out; by hand."""
    until = ("--since", "2026-06-01T12:00:20Z", "--until", "2026-06-01T12:01:00Z")
    by_time = quick(pipeline, *until, "--dry-run").json
    assert (by_time["recorded"], by_time["passed_over"]) == (2, {"outside_time": 4})
    prefix = GIVEN[0].place.key.rpartition("_s")[0] + "_s20261521200"
    by_prefix = quick(pipeline, "--prefix", prefix, "--dry-run").json
    assert (by_prefix["listed"], by_prefix["recorded"]) == (3, 3)
    bucket = GIVEN[0].place.bucket
    other = "noaa-goes18" if bucket == "noaa-goes19" else "noaa-goes19"
    for name, found_there in ((bucket, 6), (f"s3://{bucket}/", 6), (other, 0)):
        found = quick(pipeline, *HOUR, "--bucket", name, "--dry-run")
        assert found.json["recorded"] == found_there, name


def test_a_cap_and_a_rate_hold(pipeline: Pipeline) -> None:
    """Two of six, and the words that say so; a switch that is on is told as well."""
    pipeline.switch(is_on=True, dataset="goes-glm")
    done = backfill(pipeline, *HOUR, "--max-events", "2", "--rate", "1000", "--actor", "ann")
    assert (done.code, recorded(pipeline)) == (0, 2)
    assert "--max-events is reached: run it again for the rest" in done.out
    assert "ingest of goes-glm is switched off: the units wait until it is on" in done.out


def test_reason_and_references_are_kept_in_the_log(pipeline: Pipeline) -> None:
    """A reference must be open; a blank one is none."""
    blank = quick(pipeline, *HOUR, "--actor", "ann", "--change-ref", " ")
    assert (blank.code, "--change names nothing" in blank.err) == (2, True)
    unknown = quick(pipeline, *HOUR, "--actor", "ann", "--change-ref", "CHG-7")
    assert (unknown.code, "reference_unknown" in unknown.err) == (1, True)
    for verb, ref in (("changes", "CHG-7"), ("incidents", "INC-7")):
        opened = here(verb, "open", ref, "--title", "gap", "--actor", "ann",
                           at=pipeline.backend)  # fmt: skip
        assert opened.code == 0, opened.err
    done = quick(
        pipeline, *HOUR, "--actor", "ann", "--change-ref", "CHG-7", "--incident-ref", "INC-7",
        "--reason", "incident",
    )  # fmt: skip
    assert done.code == 0, done.err
    log = here("audit", "list", "--action", "backfill",
                    at=pipeline.backend)  # fmt: skip
    (entry,) = log.json["entries"]
    assert (entry["actor"], entry["reason"]) == ("ann", "incident")
    assert (entry["detail"]["change_ref"], entry["detail"]["incident_ref"]) == ("CHG-7", "INC-7")


def test_once_actors_are_set_up_a_name_is_not_enough(pipeline: Pipeline) -> None:
    """An operator's token is; a dry run needs none."""
    added = here("actors", "add", "boss", "--role", "approver",
                      at=pipeline.backend)  # fmt: skip
    token = added.json["token"]
    named = quick(pipeline, *HOUR, "--actor", "ann")
    assert (named.code, recorded(pipeline)) == (3, 0)
    assert quick(pipeline, *HOUR, "--dry-run").code == 0
    proved = quick(pipeline, *HOUR, TALLGRASS_TOKEN=token)
    assert (proved.code, recorded(pipeline)) == (0, 6)


def test_a_policy_that_wants_approvers_gets_them(pipeline: Pipeline, tmp_path: Path) -> None:
    """Plan, request, approve, run: by two people, for exactly this backfill, once."""
    policy = tmp_path / "tallgrass.toml"
    policy.write_text("[governance.policies.goes-glm]\napprovals_needed = 1\n")
    env = {"TALLGRASS_CONFIG": str(policy)}

    def person(name: str, role: str, **by: str) -> dict[str, str]:
        added = here("actors", "add", name, "--role", role,
                          at=pipeline.backend, env=by)  # fmt: skip
        return {"TALLGRASS_TOKEN": added.json["token"]}

    ann = person("ann", "approver")
    otto = person("otto", "operator", **ann)
    plan = tmp_path / "order.json"
    alone = quick(pipeline, *HOUR, **env, **otto)
    assert (alone.code, alone.error["guard"]) == (3, "approval_missing")
    assert quick(pipeline, *HOUR, "--plan-out", str(plan), **env).code == 2
    dry = quick(pipeline, *HOUR, "--dry-run", "--plan-out", str(plan), **env)
    assert dry.code == 0, dry.err
    asked = here("approvals", "request", "--plan", str(plan), "--reason", "CHG-1",
                       at=pipeline.backend, env=otto)  # fmt: skip
    number = asked.json["approval_id"]
    given = here("approvals", "approve", number,
                      at=pipeline.backend, env=ann)  # fmt: skip
    assert (asked.json["purpose"], given.code) == ("backfill", 0), given.err
    other = ("--since", "2026-06-01T12:00:00Z", "--until", "2026-06-01T14:00:00Z")
    wider = quick(pipeline, *other, "--approval", number, **env, **otto)
    assert (wider.code, wider.error["code"], recorded(pipeline)) == (3, "plan_changed", 0)
    done = quick(pipeline, *HOUR, "--approval", number, **env, **otto)
    assert (done.code, recorded(pipeline)) == (0, 6), done.err
    twice = quick(pipeline, *HOUR, "--approval", number, **env, **otto)
    assert (twice.code, twice.error["code"]) == (3, "approval_invalid")


def approved(pipeline: Pipeline, folder: Path, *flags: str) -> dict[str, str]:
    """Have a backfill approved; return an operator's environment, and the approval in it."""
    policy, plan = folder / "tallgrass.toml", folder / "order.json"
    policy.write_text("[governance.policies.goes-glm]\napprovals_needed = 1\n")
    ann: dict[str, str] = {}
    otto = {"TALLGRASS_CONFIG": str(policy)}
    for name, role, tokens in (("ann", "approver", ann), ("otto", "operator", otto)):
        added = here("actors", "add", name, "--role", role, at=pipeline.backend, env=ann)
        tokens["TALLGRASS_TOKEN"] = added.json["token"]
    dry = quick(pipeline, *HOUR, *flags, "--dry-run", "--plan-out", str(plan), **otto)
    assert dry.code == 0, dry.err
    asked = here("approvals", "request", "--plan", str(plan), "--reason", "CHG-1",
                       at=pipeline.backend, env=otto)  # fmt: skip
    number = str(asked.json["approval_id"])
    assert here("approvals", "approve", number, at=pipeline.backend, env=ann).code == 0
    return {**otto, "NUMBER": number}


def break_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let listings fail after their first page."""

    def breaking(*given: object) -> Iterator[Page]:
        yield next(listed_pages(*given))  # type: ignore[arg-type]
        raise ListingBroken("no answer")

    monkeypatch.setattr("tallgrass.bootstrap.backfilling.listed_pages", breaking)


def test_an_approved_one_that_broke_off_goes_on_under_its_approval(
    pipeline: Pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the same run, until it has come to its end; then the approval is used up."""
    env = approved(pipeline, tmp_path)
    flags = (*HOUR, "--approval", env["NUMBER"])
    with monkeypatch.context() as patched:
        break_off(patched)
        broken = quick(pipeline, *flags, **env)
    assert (broken.code, broken.error["code"]) == (4, "listing_broken"), broken.err
    again = quick(pipeline, *flags, **env)
    assert (again.code, recorded(pipeline)) == (0, 6), again.err
    log = pipeline.backend.sql(
        "SELECT action, count(*), count(DISTINCT subject) FROM audit_log"
        " WHERE action IN ('backfill', 'backfill_done') GROUP BY 1 ORDER BY 1"
    )
    assert log == [("backfill", 2, 1), ("backfill_done", 1, 1)]
    assert quick(pipeline, *flags, **env).error["code"] == "approval_invalid"


def test_the_rest_behind_a_cap_needs_a_new_approval(pipeline: Pipeline, tmp_path: Path) -> None:
    """And the words say so."""
    env = approved(pipeline, tmp_path, "--max-events", "2")
    flags = (*HOUR, "--max-events", "2", "--approval", env["NUMBER"])
    done = backfill(pipeline, *flags, **env)
    assert "run it again for the rest, with a new approval" in done.out, done.err
    assert recorded(pipeline) == 2
    again = quick(pipeline, *flags, **env)
    assert (again.code, again.error["code"], recorded(pipeline)) == (3, "approval_invalid", 2)


def test_with_a_cap_an_approval_is_for_one_run(
    pipeline: Pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How much of the cap a run had used that broke off is not known."""
    env = approved(pipeline, tmp_path, "--max-events", "9")
    flags = (*HOUR, "--max-events", "9", "--approval", env["NUMBER"])
    with monkeypatch.context() as patched:
        break_off(patched)
        assert quick(pipeline, *flags, **env).error["code"] == "listing_broken"
    assert quick(pipeline, *flags, **env).error["code"] == "approval_invalid"


def test_a_list_in_a_file_takes_the_place_of_the_bucket(pipeline: Pipeline, tmp_path: Path) -> None:
    """Keys of the only bucket that is chosen; one that was damaged is refused with its line."""
    file = tmp_path / "keys.txt"
    file.write_text("".join(f"{each.place.key}\n" for each in GIVEN[:2]))
    flags = ("--listing", str(file), "--dry-run")
    found = quick(pipeline, *flags, "--bucket", GIVEN[0].place.bucket)
    assert found.json["recorded"] == 2
    unknown = quick(pipeline, *flags)
    assert (unknown.code, unknown.error["code"]) == (2, "listing_invalid")
    assert "line 1" in unknown.error["message"]


def test_what_cannot_be_is_told_with_its_remedy(pipeline: Pipeline) -> None:
    """No scope, a wrong bucket, an unknown dataset, objects that cannot be listed."""
    for flags, code, said in (
        ((), 2, "say what to list"),
        ((*HOUR, "--bucket", "nowhere"), 2, "is no bucket of goes-glm"),
        ((*HOUR, "--dataset", "goes-gml"), 2, "did you mean 'goes-glm'"),
        ((*HOUR, "--objects", "event"), 2, "nothing can be listed"),
        (("--since", "2026-06-02", "--until", "2026-06-01"), 2, "--since must be before --until"),
        (("--since", "yesterday", "--until", "2026-06-01"), 2, "RFC 3339"),
    ):
        done = quick(pipeline, *flags, "--dry-run")
        assert (done.code, said in done.err) == (code, True), done.err


@pytest.fixture
def cloud(pipeline: Pipeline) -> Iterator[ListingServer]:
    """The same objects in a bucket, two a page."""
    buckets = {name: Bucket(name) for name in (f"noaa-goes{n}" for n in range(16, 20))}
    for each in GIVEN:
        buckets[each.place.bucket].put(each.place.key, len(each.content))
    assert pipeline.objects.is_dir()
    with ListingServer(*buckets.values(), page=2) as serving:
        yield serving


def test_a_bucket_is_listed_without_an_account(pipeline: Pipeline, cloud: ListingServer) -> None:
    """No credentials in the environment: unsigned, by the folders of the hour, in four buckets."""
    nobody = {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_PROFILE": "none"}
    done = backfill(
        pipeline, *HOUR, "--objects", "cloud", "--actor", "ann", "--output", "json",
        TALLGRASS_OBJECTS_ENDPOINT_URL=cloud.url, **nobody,
    )  # fmt: skip
    assert (done.code, done.json["recorded"]) == (0, 6), done.err
    assert {each["prefix"] for each in cloud.requests} == {"GLM-L2-LCFA/2026/152/12/"}
    told = pipeline.backend.sql("SELECT DISTINCT event_time FROM wal_records")
    assert told == [("2026-06-01T12:34:56.000000Z",)]


def test_a_bucket_that_moved_or_is_closed_is_told(pipeline: Pipeline, cloud: ListingServer) -> None:
    """By its code, with exit 4, and what to do."""
    for status, name, code in (
        (301, "PermanentRedirect", "bucket_moved"), (403, "AccessDenied", "bucket_denied"),
    ):  # fmt: skip
        cloud.requests.clear()
        cloud.faults = dict.fromkeys(range(1, 9), refuses(status, name))
        done = quick(
            pipeline, *HOUR, "--objects", "cloud", "--actor", "ann",
            TALLGRASS_OBJECTS_ENDPOINT_URL=cloud.url,
        )  # fmt: skip
        assert (done.code, done.error["code"]) == (4, code)
        assert done.error["remedy"]
