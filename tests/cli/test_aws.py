"""`tallgrass aws plan`: a template on stdout, words on stderr, nothing contacted."""

from __future__ import annotations

import io
import json
import re
from contextlib import redirect_stderr, redirect_stdout
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.cli.dataset_template import dataset_template
from tallgrass.cli.main import run
from tallgrass.datasets.catalogue import default_catalogue
from tallgrass.queues.aws_plan import sns_topics
from tests.cli.command import Done, tallgrass

if TYPE_CHECKING:
    from pathlib import Path

OWN = "arn:aws:sns:eu-west-1:123456789012:NewRadarObject"
HRRR = "arn:aws:sns:us-east-1:123901341784:NewHRRRObject"


def plan(*args: str, **options: Any) -> Done:
    """Run the command: as a process where it needs a folder or variables of its own."""
    if options:
        return tallgrass("aws", "plan", *args, **options)
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    with redirect_stdout(out), redirect_stderr(err):
        code = run(["aws", "plan", *args])
    texts = []
    for stream in (out, err):
        stream.seek(0)
        texts.append(stream.read())
    return Done(code, *texts)


def document(*args: str, **options: Any) -> Any:
    """Run the command and return everything that it has to say."""
    done = plan(*args, "--output", "json", **options)
    assert done.code == 0, done.err
    return done.json


def rules(found: Any) -> dict[str, list[dict[str, str]]]:
    """Return the rules for keys, by the name of their topic."""
    return {
        one["topic"].rpartition(":")[2]: one["filter_policy"]["Records"]["s3"]["object"]["key"]
        for one in found["subscriptions"]
    }


def test_stdout_is_the_template_and_nothing_else(tmp_path: Path) -> None:
    """It can be piped into a file and deployed; the words are on stderr."""
    done = plan("--dataset", "hrrr", cwd=tmp_path)
    assert done.code == 0
    assert done.json["AWSTemplateFormatVersion"] == "2010-09-09"
    assert done.json == document("--dataset", "hrrr", cwd=tmp_path)["template"]
    for words in (
        "Queue nodd-primary in us-east-1",
        "hrrr: 6,304; computed",
        "Cost of the queue a month (an estimate): 0.00 to 0.35 USD",
        "as of 2026-06: 0.40 USD per million requests",
        "aws cloudformation deploy --template-file tallgrass-aws.json",
        f"queue.topics = {HRRR}",
        "queue.signatures = required",
    ):
        assert words in done.err
    assert list(tmp_path.iterdir()) == []


def test_the_words_alone() -> None:
    """`--output table` prints them on stdout, without the template."""
    done = plan("--dataset", "hrrr", "--output", "table")
    assert (done.code, done.err) == (0, "")
    assert "Messages a day (an estimate)" in done.out
    assert "AWSTemplateFormatVersion" not in done.out


def test_several_datasets_feed_one_queue() -> None:
    """Each topic is subscribed to; each dataset has its volume; a prefix says whose it is."""
    found = document(
        "--dataset", "hrrr", "--dataset", "goes-glm", "--prefix", "hrrr=hrrr.20260601/"
    )  # fmt: skip
    assert [one["dataset"] for one in found["estimate"]["volumes"]] == ["hrrr", "goes-glm"]
    assert rules(found)["NewHRRRObject"] == [{"prefix": "hrrr.20260601/"}]
    assert rules(found)["NewGOES19Object"] == [{"prefix": "GLM-L2-LCFA/"}]
    assert found["estimate"]["messages_a_day"] == [8_640, 8_640 + 6_304]


def test_a_prefix_without_its_dataset_is_refused_where_there_are_several() -> None:
    """Guessing could cut a dataset off: the error shows how to say it."""
    done = plan("--dataset", "hrrr", "--dataset", "goes-glm", "--prefix", "hrrr.2026")
    assert done.code == 2
    assert "--prefix hrrr=hrrr.2026" in done.err


def test_several_prefixes_of_one_dataset() -> None:
    """Each is a rule of the filter; one dataset needs no name before it."""
    found = document(
        "--dataset", "hrrr", "--prefix", "hrrr.2026", "--prefix", "hrrr=hrrr.*/alaska/*"
    )  # fmt: skip
    assert rules(found)["NewHRRRObject"] == [
        {"wildcard": "hrrr.*/alaska/*"},
        {"prefix": "hrrr.2026"},
    ]


def test_name_region_and_raw_delivery() -> None:
    """Each flag is in what is deployed, or in how."""
    found = document(
        "--dataset", "hrrr", "--queue-name", "second", "--region", "us-west-2", "--raw"
    )  # fmt: skip
    assert found["template"]["Parameters"]["QueueName"]["Default"] == "second"
    assert found["deploy"].endswith(
        "--stack-name tallgrass-second --capabilities CAPABILITY_IAM --region us-west-2"
    )
    (subscription,) = (
        one["Properties"]
        for one in found["template"]["Resources"].values()
        if one["Type"] == "AWS::SNS::Subscription"
    )
    assert (subscription["RawMessageDelivery"], subscription["Region"]) == (True, "us-east-1")
    assert found["settings"]["queue.signatures"] == "off"
    assert len(found["notes"]) == 2


def test_the_configuration_gives_name_and_limits(tmp_path: Path) -> None:
    """What the worker is set to is what the queue is made with."""
    file = tmp_path / "tallgrass.toml"
    file.write_text(
        "[queue]\nname = 'third'\nvisibility_s = 600.0\nmax_receive_count = 3\nwait_s = 1\n"
    )
    found = document("--dataset", "hrrr", cwd=tmp_path)
    parameters = {
        name: parameter["Default"] for name, parameter in found["template"]["Parameters"].items()
    }
    assert parameters == {
        "QueueName": "third",
        "VisibilityTimeout": 600,
        "MaxReceiveCount": 3,
        "WorkerService": "ec2.amazonaws.com",
    }
    assert "86,400 s / 1 s" in json.dumps(found["estimate"]["arithmetic"])


def test_a_dataset_of_one_s_own_can_be_planned(tmp_path: Path) -> None:
    """Files of datasets.folder count as the shipped ones do."""
    text = dataset_template("my-radar")
    assert "\ntopics = " in text
    (tmp_path / "my-radar.toml").write_text(
        re.sub(r"^topics = .*$", f'topics = ["{OWN}"]', text, count=1, flags=re.MULTILINE)
    )
    found = document("--dataset", "my-radar", env={"TALLGRASS_DATASETS_FOLDER": str(tmp_path)})
    assert [one["topic"] for one in found["subscriptions"]] == [OWN]


def test_a_template_too_large_to_be_sent_is_told() -> None:
    """CloudFormation takes 51,200 bytes; all of NODD's topics make more."""
    everything = [
        word
        for one in default_catalogue().datasets
        if sns_topics(one)
        for word in ("--dataset", one.id)
    ]
    found = document(*everything)
    assert any("--s3-bucket" in note for note in found["notes"])
    assert not any("--s3-bucket" in note for note in document("--dataset", "hrrr")["notes"])


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (("--dataset", "hrr"), "dataset_unknown", "did you mean 'hrrr'"),
        (("--dataset", "isd"), "no_topic", "s3://noaa-isd-pds/"),
        (("--dataset", "hrrr", "--prefix", "gfs."), "invalid_input", "begin with 'hrrr.'"),
        (("--dataset", "hrrr", "--queue-name", "a b"), "invalid_input", "cannot name a queue"),
        (("--dataset", "hrrr", "--region", "east"), "invalid_input", "look like us-east-1"),
        ((), "invalid_input", "--dataset"),
    ],
)
def test_what_cannot_be_planned_is_refused(args: tuple[str, ...], code: str, words: str) -> None:
    """Exit code 2, a code, and what to do instead; no template on stdout."""
    done = plan(*args, "--output", "json")
    assert (done.code, done.out) == (2, "")
    assert done.error["code"] == code
    assert words in done.error["message"]
