"""Places of masked datasets: no answer and no page tells them more exactly than their policy."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.intake.message import PoisonMessage
from tests.pipeline.scene import thing
from tests.replay.scene import Replays
from tests.support.builders import failure, unit
from tests.support.governance import set_up
from tests.support.replay_console import API, console_of, decided, ended, kept, requested

if TYPE_CHECKING:
    from pathlib import Path

    from tallgrass.config import Config
    from tests.support.backends import Backend
    from tests.support.console import Client

SENSITIVE = {"goes-glm": {"care_label": "sensitive"}}
#: A unit whose key spells a place; cells of 0.1 degrees leave one decimal of it.
PLACE = "s3://noaa-goes19/obs/38.9717_-95.2353/1.nc"
COARSE = "s3://noaa-goes19/obs/39.0_-95.2/1.nc"


def masked(backend: Backend) -> Config:
    """Return a configuration under which places of goes-glm are told as cells."""
    return replace(backend.config(), policies=SENSITIVE)


def hold(backend: Backend, *announced: Any) -> list[str]:
    """Quarantine units; return their ids."""
    stores = backend.open()
    worker = stores.leases.register("w", ingest_run_id="run", lease_s=3600)
    claims = [r.claim for r in stores.ledger.record_and_claim(worker, announced) if r.claim]
    stores.ledger.commit(worker, [failure(each, "governance_hard_fail") for each in claims])
    stores.close()
    return [each.wal_id for each in claims]


def test_a_request_for_a_release_tells_no_exact_place(backend: Backend) -> None:
    """What the approver is shown, and what is kept of it, is as coarse as the catalog."""
    set_up(backend)
    held = hold(backend, unit(1, object_uri=PLACE))
    with console_of(masked(backend)) as console:
        otto = console.program("otto")
        body = {"release": held, "reason": "mended"}
        asked = otto.post(f"{API}/approvals", json=body).json()["approval"]
        assert asked["summary"]["objects"] == {held[0]: COARSE}
        page = otto.get(f"/governance/approvals/{asked['approval_id']}")
        assert page.status_code == 200
        assert "38.97" not in page.text
    assert "38.97" not in backend.sql("SELECT summary FROM approvals")[0][0]


EXACT = [
    "/ledger/export",
    "/retention/archives/1",
    "/retention/search?since=2026-01-01",
    "/poison/1?body=true",
    "/datasets/goes-glm",
    "/records?find=s3://noaa-goes19/obs/38.9",
    "/records?find=s3://noaa-goes19/obs/38.8",
    "/replay/plan?bucket_prefix=s3://noaa-goes19/obs/38.9&since=2026-01-01",
]


@pytest.mark.parametrize("path", EXACT)
def test_what_is_kept_with_exact_places_needs_an_operator(backend: Backend, path: str) -> None:
    """Rows and messages as they are, and looks for a key by its digits, are not for viewers."""
    set_up(backend)
    hold(backend, unit(1, object_uri=PLACE))
    with console_of(masked(backend)) as console:
        for client in (console.program("vera"), console.browser_of()):
            answer = client.get(f"{API}{path}")
            assert (answer.status_code, answer.json()["code"]) == (403, "not_authorized")
        assert console.program("otto").get(f"{API}{path}").status_code in {200, 404}
    with console_of(backend.config()) as console:
        assert console.program("vera").get(f"{API}{path}").status_code in {200, 404}


def test_pages_keep_exact_places_from_viewers(backend: Backend) -> None:
    """The body of a message is an operator's; a whole address still leads to its unit."""
    set_up(backend)
    (held,) = hold(backend, unit(1, object_uri=PLACE))
    stores = backend.open()
    message = PoisonMessage(
        queue="q",
        body=b'{"key": "obs/38.9717_-95.2353/x"}',
        message_id="m",
        error_code="invalid_input",
        error_message="no",
    )
    stores.poison.put([message])
    stores.close()
    with console_of(masked(backend)) as console:
        vera, otto = console.browser_of(), console.program("otto")
        page = vera.get("/poison/1")
        assert (page.status_code, "38.97" in page.text) == (200, False)
        assert "38.97" in otto.get("/poison/1").text
        found = vera.get("/records", params={"find": PLACE})
        assert (found.status_code, found.headers["location"]) == (303, f"/records/{held}")
        for path in ("/records?find=", "/replay/plan?bucket_prefix="):
            assert vera.get(f"{path}s3://noaa-goes19/obs/38.9").status_code == 403
        assert vera.get("/records?find=s3://noaa-goes19/obs/").status_code == 200


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
class TestReplays:
    """Items that were made before the policy."""

    @pytest.fixture
    def replays(self, backend: Backend, tmp_path: Path) -> Replays:
        """A pipeline with people; its plans are kept in its folder."""
        return Replays(
            backend, tmp_path, policies=SENSITIVE, console__plans_folder=str(tmp_path / "plans")
        )

    def test_the_change_to_coarse_places_does_not_tell_the_former_ones(
        self, replays: Replays
    ) -> None:
        """A re-run that masks an item shows its old box, and that box is masked as well."""
        (done,) = replays.succeeded(thing(0))
        assert b"66.56" in replays.backend.sql("SELECT body FROM stac_items")[0][0]
        with console_of(replays.config) as console:
            otto = console.program("otto")
            sha256 = kept(otto, wal_id=[done], include_succeeded=True, replay_run_id="r-1")
            approval = requested(otto, sha256)
            assert decided(console.program("ann"), approval).status_code == 200
            wish = {"plan_sha256": sha256, "approval_id": approval, "max_mismatches": 1000}
            ended(console, otto.post(f"{API}/replay/runs", json=wish))
            changed = otto.get(f"{API}/replay/runs/r-1/changes").json()["records"][0]["changes"]
            boxes = {each["pointer"]: each for each in changed if "/bbox/" in each["pointer"]}
            assert (boxes["/bbox/3"]["before"], boxes["/bbox/3"]["after"]) == ("66.6", "66.6")
            paths = ["changes", "records"]
            answers = [otto.get(f"{API}/replay/runs/r-1/{path}") for path in paths]
            answers.append(otto.get(f"{API}/replay/units/{done}/changes"))
            answers += [otto.get(path) for path in ("/replay/runs/r-1", f"/records/{done}")]
            assert [each.status_code for each in answers] == [200] * 5
            assert [path for path in answers if "66.56" in path.text] == []

    def test_jobs_tell_no_exact_place(self, replays: Replays) -> None:
        """What verification and reconciliation list is as coarse as the rest."""
        hold(replays.backend, unit(1, object_uri=PLACE))
        (done,) = replays.succeeded(thing(0))
        replays.backend.sql("UPDATE stac_items SET sha256 = ? WHERE wal_id = ?", "0" * 64, done)
        with console_of(replays.config) as console:
            otto = console.program("otto")
            job = ended(console, otto.post(f"{API}/verify", json={}))
            assert job.result["differs"] == 1
            assert "66.56" not in told(otto, job)
            wish = {"dataset": "goes-glm", "since": "2026-01-01", "until": "2026-01-02"}
            job = ended(console, otto.post(f"{API}/reconcile", json=wish))
            objects = {each.get("object_uri") for each in job.result["findings"]} - {None}
            assert objects == {COARSE}
            assert "38.97" not in told(otto, job)


def told(client: Client, job: Any) -> str:
    """Return a job as whoever asks for it sees it."""
    answer = client.get(f"{API}/jobs/{job.job_id}")
    assert answer.status_code == 200
    return str(answer.text)
