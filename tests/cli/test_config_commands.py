"""`tallgrass config show|check` and the options `--config` and `--database`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cli.command import Done, tallgrass

if TYPE_CHECKING:
    from pathlib import Path


def test_show_says_where_each_value_came_from(tmp_path: Path) -> None:
    """Flag before variable before file before default, each named as the origin."""
    file = tmp_path / "some.toml"
    file.write_text('env = "file"\n[worker]\nbatch = 10\nid = "from-file"\n')
    done = tallgrass(
        "--config", str(file), "--database", "sqlite:///flag.db", "config", "show",
        "--output", "json",
        env={"TALLGRASS_WORKER_ID": "from-variable", "TALLGRASS_DATABASE_URL": "sqlite:///v.db"},
    )  # fmt: skip
    settings = done.json["settings"]
    assert settings["database.url"] == {"value": "sqlite:///flag.db", "origin": "flag"}
    assert settings["worker.id"] == {"value": "from-variable", "origin": "$TALLGRASS_WORKER_ID"}
    assert settings["worker.batch"] == {"value": 10, "origin": str(file)}
    assert settings["worker.lease_s"] == {"value": 60.0, "origin": "default"}
    assert done.json["file"] == str(file)
    table = tallgrass("--config", str(file), "config", "show").out
    assert "from-file" in table
    assert done.json["config_version"] in table


def test_only_what_shapes_an_output_changes_the_version(tmp_path: Path) -> None:
    """`config_version` follows the limits, not addresses and sizes."""

    def version(**env: str) -> str:
        text: str = tallgrass("config", "show", "--output", "json", cwd=tmp_path, env=env).json[
            "config_version"
        ]
        return text

    assert version() == version(TALLGRASS_WORKER_BATCH="7", TALLGRASS_DATABASE_URL="sqlite:///x")
    assert version() != version(TALLGRASS_LEDGER_MAX_ATTEMPTS="9")


@pytest.mark.parametrize("output", ["table", "json"])
def test_credentials_are_never_shown(output: str) -> None:
    """User, password and keys of database.url appear nowhere."""
    url = "postgresql://us3r:p4ss/w@rd@db.example:5432/led?sslmode=require&password=s3cret"
    done = tallgrass("--database", url, "config", "show", "--output", output)
    assert done.code == 0
    assert "postgresql://***@db.example:5432/led?sslmode=require&password=***" in done.out
    for secret in ("us3r", "p4ss", "w@rd", "s3cret"):
        assert secret not in done.out


@pytest.mark.parametrize("command", [("config", "check"), ("config", "show"), ("wal", "list")])
def test_an_unknown_key_is_refused_with_the_nearest_name(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    """A mistyped key in the file: exit code 2, the file's name, the key that was meant."""
    (tmp_path / "tallgrass.toml").write_text("[worker]\nlease = 5.0\n")
    done = tallgrass(*command, "--output", "json", cwd=tmp_path)
    assert done.code == 2
    assert done.error["code"] == "config_invalid"
    assert "tallgrass.toml: unknown key 'worker.lease'" in done.error["message"]
    assert "did you mean 'worker.lease_s'?" in done.error["message"]


def test_a_good_configuration_is_said_to_be_good(tmp_path: Path) -> None:
    """`config check` ends with 0 and names file and version."""
    file = tmp_path / "tallgrass.toml"
    file.write_text('env = "prod"\n')
    done = tallgrass("config", "check", "--output", "json", cwd=tmp_path)
    assert done.code == 0
    assert done.json["ok"] is True
    assert done.json["file"] == "tallgrass.toml"
    assert "good" in tallgrass("config", "check", cwd=tmp_path).out


def test_a_missing_configuration_file_is_refused(tmp_path: Path) -> None:
    """`--config` must name a file that is there."""
    done = tallgrass("--config", str(tmp_path / "no.toml"), "config", "check")
    assert done.code == 2
    assert "there is no configuration file" in done.err


def test_check_opens_each_target(tmp_path: Path) -> None:
    """A setting that a target cannot use, or a secret that is not set, is named."""
    file = tmp_path / "tallgrass.toml"
    table = '[outbox.targets.partner]\nkind = "webhook"\nurl = "https://partner.example/in"\n'
    file.write_text(table)
    done = tallgrass("config", "check", cwd=tmp_path)
    assert done.code == 2
    assert "outbox.targets.partner: secret_env or secret_file must name one secret" in done.err
    file.write_text(f'{table}secret_env = "PARTNER_SECRET"\n')
    done = tallgrass("config", "check", cwd=tmp_path)
    assert done.code == 2
    assert "the variable PARTNER_SECRET, which is to hold a secret, is not set" in done.err
    secret = {"PARTNER_SECRET": "whsec_" + "QUJD" * 10}
    done = tallgrass("config", "check", cwd=tmp_path, env=secret)
    assert (done.code, done.err) == (0, "")
    assert [path.name for path in tmp_path.iterdir()] == ["tallgrass.toml"]


def test_check_knows_the_datasets_of_exceptions(tmp_path: Path) -> None:
    """An exception under a mistyped name would be none, and nobody would be told."""

    def check(name: str) -> Done:
        table = f'[ledger.exceptions.{name}]\nmax_attempts = 20\napproval_ref = "CHG-1"\n'
        (tmp_path / "tallgrass.toml").write_text(table)
        return tallgrass("config", "check", cwd=tmp_path)

    assert check("nexrad-l2").code == 0
    mistyped = check("nexrad-12")
    assert mistyped.code == 2
    said = "ledger.exceptions.nexrad-12: there is no dataset 'nexrad-12'; did you mean 'nexrad-l2'?"
    assert said in mistyped.err
