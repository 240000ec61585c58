"""`tallgrass datasets`: what is ingested, and files of one's own."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tallgrass.bootstrap.datasets import config_version, open_catalogue
from tallgrass.cli.dataset_template import dataset_template
from tallgrass.config import load_config
from tallgrass.datasets.catalogue import KeyMatch, default_catalogue
from tallgrass.datasets.definition import FileFormat
from tallgrass.errors import ConfigError
from tests.cli.command import tallgrass
from tests.support.file_modes import obey_file_modes

if TYPE_CHECKING:
    from pathlib import Path

    from tallgrass.config import Config

GOES_19 = ["goes-abi", "goes-glm", "goes-other", "goes-space", "goes-suvi"]


def written(folder: Path, dataset_id: str, old: str = "", new: str = "") -> Path:
    """Write the new file of a dataset, with one place changed."""
    text = dataset_template(dataset_id)
    assert text.count(old) == 1 or not old
    file = folder / f"{dataset_id}.toml"
    file.write_text(text.replace(old, new) if old else text, encoding="utf-8")
    return file


def configured(folder: Path) -> Config:
    """Return a configuration that names a folder."""
    return load_config(environment={}, flags={"datasets.folder": str(folder)})


def test_the_list_names_every_dataset() -> None:
    """Id, title, buckets by provider, topics, and whether keys are read."""
    found = {each["id"]: each for each in tallgrass(*LIST).json["datasets"]}
    assert sorted(found) == [each.id for each in default_catalogue().datasets]
    assert found["hrrr"] == {
        "id": "hrrr",
        "title": "NOAA High-Resolution Rapid Refresh (HRRR)",
        "buckets": {
            "aws": ["noaa-hrrr-bdp-pds"],
            "gcp": ["high-resolution-rapid-refresh"],
            "azure": ["noaahrrr.hrrr"],
        },
        "topics": [
            "arn:aws:sns:us-east-1:123901341784:NewHRRRObject",
            "projects/gcp-public-data-weather/topics/gcp-public-data-hrrr",
        ],
        "grammar": True,
    }
    assert found["swpc"]["grammar"] is False


LIST = ("datasets", "list", "--output", "json")


@pytest.mark.parametrize(
    ("flags", "ids"),
    [
        (("--bucket", "noaa-goes19"), GOES_19),
        (("--bucket", "goeseuwest.noaa-goes19"), GOES_19),
        (("--bucket", "noaa-goes20"), []),
        (("--topic", "arn:aws:sns:us-east-1:123901341784:NewMRMSObject"), ["mrms"]),
        (("--topic", "NewRRFSObject"), ["rrfs"]),
        (("--topic", "NewNEXRADLevel2Archive"), ["nexrad-l2"]),
        (("--topic", "NewMRMSObject", "--bucket", "noaa-goes19"), []),
    ],
)
def test_the_list_can_be_narrowed(flags: tuple[str, ...], ids: list[str]) -> None:
    """By a bucket of any provider, by a topic's ARN or name, or by both."""
    assert [each["id"] for each in tallgrass(*LIST, *flags).json["datasets"]] == ids


def test_the_list_as_a_table() -> None:
    """Long lists of buckets are cut; the last line counts the datasets."""
    lines = tallgrass("datasets", "list", "--bucket", "noaa-goes19").out.splitlines()
    assert lines[0].split() == ["id", "title", "keys", "read", "buckets", "topics"]
    assert [line.split()[0] for line in lines[1:-1]] == GOES_19
    assert "noaa-goes16, noaa-goes17 and 10 more" in lines[1]
    assert lines[-1] == "5 datasets"


def test_one_dataset_is_shown() -> None:
    """Its buckets, topics, layouts and rules, as facts and as one JSON document."""
    out = tallgrass("datasets", "show", "nexrad-l2").out
    for fact in (
        "unidata-nexrad-level2",
        "azure:nexradsa.nexrad-l2",
        "arn:aws:sns:us-east-1:811054952067:NewNEXRADLevel2Archive",
        "(metadata_only)",
        "300 s",
    ):
        assert fact in out
    found = tallgrass("datasets", "show", "mrms", "--output", "json").json
    assert (found["id"], found["buckets"]) == ("mrms", ["noaa-mrms-pds"])
    assert found["key"]["accumulation"] == "period"
    assert len(found["key"]["layouts"]) == 3


def test_an_unknown_dataset_is_answered_with_the_nearest() -> None:
    """The error has a code and a remedy."""
    done = tallgrass("datasets", "show", "mrsm", "--output", "json")
    assert done.code == 2
    assert done.error["code"] == "dataset_unknown"
    assert "did you mean 'mrms'?" in done.error["message"]


def test_a_new_file_passes_its_check(tmp_path: Path) -> None:
    """What `new` prints is good, and `check` says what its examples gave."""
    file = tmp_path / "my-radar.toml"
    file.write_text(tallgrass("datasets", "new", "my-radar").out, encoding="utf-8")
    found = tallgrass("datasets", "check", str(file), "--output", "json").json
    assert found == {
        "ok": True,
        "id": "my-radar",
        "replaces": False,
        "examples": [
            {
                "key": "data/ABCD/20240229_235500.nc",
                "start": "2024-02-29T23:55:00+00:00",
                "end": "2024-03-01T00:05:00+00:00",
                "reference": None,
            },
            {"key": "data/ABCD/20240229_235500.log", "ignored": "not_ingestable"},
        ],
    }
    as_json = tallgrass("datasets", "new", "my-radar", "--output", "json").json
    assert as_json == {"id": "my-radar", "file": file.read_text(encoding="utf-8")}
    shown = tallgrass("datasets", "check", str(file)).out
    assert "start 2024-02-29T23:55:00+00:00, end 2024-03-01T00:05:00+00:00" in shown
    assert "The dataset my-radar is good." in shown


@pytest.mark.parametrize("name", ["My Radar", 'a"', "-a", "a\nb"])
def test_no_file_is_made_for_an_impossible_id(name: str) -> None:
    """An id that no dataset may have is refused, and nothing is printed."""
    done = tallgrass("datasets", "new", "--", name)
    assert (done.code, done.out) == (2, "")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('priority = "normal"', 'priority = "norml"', "priority: unknown word 'norml'; did you"),
        ('form = "date-time", groups = ["date", "time"] }', 'form = "date" }', "key.start.groups"),
        ("T23:55:00Z", "T23:56:00Z", "examples[1].key"),
        ('["data/"]', '[""]\nrest = true', "key.prefixes: a dataset that takes the rest"),
        ('["my-radar-pds"]', '["noaa-hrrr-bdp-pds"]', None),
        ('["my-radar-pds"]', '["noaa-mrms-pds"]', "'mrms' and 'my-radar' share the bucket"),
    ],
)
def test_a_bad_file_is_refused_with_its_field(
    tmp_path: Path, old: str, new: str, message: str | None
) -> None:
    """The error names file, field and fix; a clash with another dataset counts too."""
    file = written(tmp_path, "my-radar", old, new)
    done = tallgrass("datasets", "check", str(file), "--output", "json")
    if message is None:
        assert done.json["ok"] is True
        return
    assert done.code == 2
    assert done.error["code"] == "dataset_invalid"
    assert message in done.error["message"]
    assert done.error["message"].startswith(str(file))


@pytest.mark.parametrize("content", [None, b"\xff\xfe", b"id = "])
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, content: bytes | None) -> None:
    """No file, no UTF-8, no TOML: each says so with the file's name."""
    file = tmp_path / "mine.toml"
    if content is not None:
        file.write_bytes(content)
    done = tallgrass("datasets", "check", str(file), "--output", "json")
    assert (done.code, done.error["code"]) == (2, "dataset_invalid")
    assert "mine.toml" in done.error["message"]


def test_a_folder_of_own_files_joins_the_shipped_ones(tmp_path: Path) -> None:
    """A dataset of a new id is added; the commands see it too."""
    written(tmp_path, "my-radar")
    (tmp_path / "notes.txt").write_text("no dataset", encoding="utf-8")
    env = {"TALLGRASS_DATASETS_FOLDER": str(tmp_path)}
    found = tallgrass(*LIST, "--bucket", "my-radar-pds", env=env).json["datasets"]
    assert [each["id"] for each in found] == ["my-radar"]
    catalogue = open_catalogue(configured(tmp_path))
    assert len(catalogue.datasets) == len(default_catalogue().datasets) + 1
    match = catalogue.route("aws", "my-radar-pds", "data/ABCD/20240229_235500.nc")
    assert isinstance(match, KeyMatch)


def test_a_file_that_is_in_use_does_not_replace_itself(tmp_path: Path) -> None:
    """A shipped dataset it does replace, there as elsewhere."""
    own = written(tmp_path, "my-radar")
    shipped = written(tmp_path, "mrms", '["mrms-pds"]', '["noaa-mrms-pds"]')
    configured_so = {"TALLGRASS_DATASETS_FOLDER": str(tmp_path)}
    for file, replaces in ((own, False), (shipped, True)):
        done = tallgrass("datasets", "check", str(file), "--output", "json", env=configured_so)
        assert done.json["replaces"] is replaces, file


def test_a_file_of_a_shipped_id_stands_in_its_place(tmp_path: Path) -> None:
    """It replaces the shipped dataset whole, and `check` says so."""
    file = written(tmp_path, "mrms", '["mrms-pds"]', '["noaa-mrms-pds"]')
    found = tallgrass("datasets", "check", str(file), "--output", "json").json
    assert found["replaces"] is True
    catalogue = open_catalogue(configured(tmp_path))
    assert len(catalogue.datasets) == len(default_catalogue().datasets)
    key = "CONUS/PrecipFlag_00.00/20260219/MRMS_PrecipFlag_00.00_20260219-042400.grib2.gz"
    for each, is_known in ((catalogue, False), (default_catalogue(), True)):
        match = each.route("aws", "noaa-mrms-pds", key)
        assert isinstance(match, KeyMatch)
        assert match.is_known is is_known


def test_own_files_shape_the_config_version(tmp_path: Path) -> None:
    """What they say counts in config_version; where the folder is does not."""
    first, second = tmp_path / "a", tmp_path / "b"
    for folder in (first, second):
        folder.mkdir()
        written(folder, "my-radar")
    versions = [
        config_version(each, open_catalogue(each)) for each in map(configured, (first, second))
    ]
    assert versions[0] == versions[1]
    plain = load_config(environment={})
    assert config_version(plain, open_catalogue(plain)) != versions[0]
    written(second, "my-radar", 'title = "My radar"', 'title = "Another"')
    changed = configured(second)
    assert config_version(changed, open_catalogue(changed)) != versions[0]


def test_without_a_folder_the_shipped_datasets_are_used() -> None:
    """The default names none."""
    assert open_catalogue(load_config(environment={})) is default_catalogue()


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """A mistyped folder must not pass for an empty one."""
    with pytest.raises(ConfigError, match=r"datasets\.folder: there is no folder"):
        open_catalogue(configured(tmp_path / "nowhere"))


def test_two_own_files_of_one_id_are_refused(tmp_path: Path) -> None:
    """An id stands for one dataset, in a folder too."""
    file = written(tmp_path, "my-radar")
    (tmp_path / "copy.toml").write_text(file.read_text(encoding="utf-8"), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"my-radar\.toml: two datasets have the id 'my-radar'"):
        open_catalogue(configured(tmp_path))


def test_of_a_folder_the_file_that_does_not_fit_is_named(tmp_path: Path) -> None:
    """Whose prefixes overlap with a shipped dataset's is told by its file."""
    written(tmp_path, "a-radar")
    written(tmp_path, "my-radar", '["my-radar-pds"]', '["noaa-mrms-pds"]')
    with pytest.raises(ConfigError, match=r"/my-radar\.toml: .* share the bucket"):
        open_catalogue(configured(tmp_path))


def test_the_template_names_every_format() -> None:
    """What `format` may be stands in the file that `new` prints."""
    text = dataset_template("my-radar").partition("# format =")[0].replace("\n# ", " ")
    told = text.partition("Whose header is read:")[2]
    assert [each for each in FileFormat if not re.search(rf"(?<![\w-]){each}(?![\w-])", told)] == []


@pytest.mark.parametrize("inside", ["", "deeper"])
def test_a_folder_that_may_not_be_looked_into_is_refused(tmp_path: Path, inside: str) -> None:
    """It may hold datasets, and policies, in place of the shipped ones: it is never passed over."""
    folder = tmp_path / "own"
    folder.mkdir(mode=0o000)
    done = tallgrass(
        "datasets", "list", "--output", "json",
        env={"TALLGRASS_DATASETS_FOLDER": str(folder / inside)}, preexec_fn=obey_file_modes,
    )  # fmt: skip
    folder.chmod(0o700)
    assert (done.code, done.error["code"]) == (2, "config_invalid")
    assert str(folder) in done.error["message"]
