from __future__ import annotations

import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tallgrass.config import load_config
from tallgrass.errors import ConfigError
from tallgrass.settings import SETTINGS

if TYPE_CHECKING:
    from tallgrass.config import Config

SHAPING = """
[ledger]
max_attempts = 6
allow_partial = false
providers = ["wasabi", "ibm"]

[ledger.replay_reasons.drought-2026]
description = "Drought study"
approval_ref = "CR-7"

[ledger.exceptions.goes-glm]
approval_ref = "CR-8"
max_attempts = 3
reingest = false

[ledger.extensions]
nexrad-l2 = ["ext_vcp", "ext_elevations"]
"""

#: Other values than the defaults of what cannot change an output.
NOT_SHAPING: dict[str, Any] = {
    "console__allowed_hosts": "console.example.org",
    "console__session_hours": 8.0,
    "console__requests_per_minute": 60,
    "console__plans_folder": "plans",
    "telemetry__energy_file": "energy.jsonl",
    "telemetry__energy_watts_per_core": 3.5,
    "telemetry__energy_watts_per_gb": 0.392,
    "telemetry__energy_memory_gb": 2.0,
    "telemetry__energy_pue": 1.135,
    "telemetry__energy_grams_per_kwh": 333.0,
    "telemetry__energy_source": "measured",
    "env": "prod",
    "database__url": "postgresql://db/ledger",
    "database__lock_timeout_s": 5.0,
    "worker__id": "blue",
    "worker__batch": 10,
    "worker__lease_s": 30.0,
    "worker__job_deadline_s": 60.0,
    "queue__url": "sqlite:///elsewhere.db",
    "queue__name": "other",
    "queue__visibility_s": 30.0,
    "queue__max_receive_count": 3,
    "queue__endpoint_url": "http://127.0.0.1:4566",
    "queue__wait_s": 0,
    "queue__receivers": 1,
    "queue__signatures": "required",
    "queue__topics": "arn:aws:sns:us-east-1:123901341784:NewGOES19Object",
    "queue__confirm_subscriptions": True,
    "objects__url": "event",
    "objects__endpoint_url": "http://127.0.0.1:4566",
    "objects__signed": True,
    "outbox__lineage_target": "marquez",
    "outbox__attempts": 9,
    "outbox__base_s": 1.0,
    "outbox__cap_s": 60.0,
    "outbox__lease_s": 30.0,
    "telemetry__metrics_port": 9464,
    "telemetry__metrics_host": "0.0.0.0",  # noqa: S104 - a setting, nothing listens
    "telemetry__traces_ratio": 0.5,
    "telemetry__waiting_spans": 10,
    "telemetry__logs": "json",
    "replay__max_events": 10,
    "replay__batch": 5,
    "replay__max_candidates": 100,
    "replay__max_records_per_second": 1.0,
    "replay__allow_global_scope": True,
    "replay__allow_downgrade": True,
    "replay__lag_s_max": 10.0,
    "outbox__pause_s_max": 10.0,
    "outbox__batch": 10,
    "outbox__payload_bytes_max": 1000,
    "datasets__folder": "datasets",  # what is in it shapes: the catalogue's fingerprint tells
    "nodes__folder": "elsewhere",
    "audit__anchor_file": "elsewhere.jsonl",
    "governance__approval_hours": 8.0,
    "ledger__retry_base_s": 1.0,
    "ledger__retry_cap_s": 60.0,
    "retention__attempts_days": 30,
    "retention__events_days": 30,
    "retention__audit_days": 400,
    "retention__archive": "s3://archive/ledger",
    "retention__format": "parquet",
}

#: Files that are no TOML, or hold numbers that no setting can have.
BROKEN = (
    b"env = ", b"\xff\xfe", b"env = 'a'\nenv = 'b'\n", b"env = " + b"[" * 5000,
    b"[worker]\nbatch = 1" + b"0" * 5000, b"[worker]\nbatch = 0x" + b"f" * 5000,
    b"[worker]\nlease_s = 1" + b"0" * 400,
    b"[outbox.targets.a]\nkind = 'file'\nrate = 1" + b"0" * 400,
    b"[ledger]\nproviders = [9223372036854775808]",
)  # fmt: skip


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty folder, where no configuration lies about."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def load(
    text: str | None = None, *, variables: dict[str, str] | None = None, **flags: Any
) -> Config:
    """Load a configuration; in flags, `__` stands for the dot."""
    file = None
    if text is not None:
        file = Path("site.toml")
        file.write_text(text, encoding="utf-8")
    named = {key.replace("__", "."): value for key, value in flags.items()}
    return load_config(file=file, environment=variables or {}, flags=named)


def refusal(*args: Any, **kwargs: Any) -> ConfigError:
    """Return the error of a configuration that is refused."""
    with pytest.raises(ConfigError) as raised:
        load(*args, **kwargs)
    return raised.value


class TestPrecedence:
    """Flags, then variables, then the file, then defaults."""

    def test_each_source_goes_before_the_next(self) -> None:
        """A value comes from the first source that has it, and its origin is remembered."""
        text = '[worker]\nid = "by-file"\nbatch = 100\n[ledger]\nretry_base_s = 3\n'
        variables = {"TALLGRASS_WORKER_ID": "by-variable", "TALLGRASS_WORKER_BATCH": "200"}
        config = load(text, variables=variables, worker__id="by-flag")
        got = {key: (config.values[key], config.origins[key]) for key in config.values}
        assert got["worker.id"] == ("by-flag", "flag")
        assert got["worker.batch"] == (200, "$TALLGRASS_WORKER_BATCH")
        assert got["ledger.retry_base_s"] == (3.0, "site.toml")
        assert got["worker.lease_s"] == (60.0, "default")

    @pytest.mark.conformance("WAL-8.5")
    def test_without_anything_the_documented_defaults_hold(self) -> None:
        """The defaults are those of the documents."""
        config = load()
        assert config.file is None
        assert set(config.origins.values()) == {"default"}
        assert config.text("env") == "dev"
        assert config.text("database.url") == "sqlite:///tallgrass.db"
        assert config.integer("worker.batch") == 500
        assert config.number("worker.lease_s") == 60
        assert config.rules.max_attempts == 8
        assert (config.rules.backoff.base_s, config.rules.backoff.cap_s) == (5, 900)
        assert config.rules.providers == {"aws", "azure", "gcp"}

    def test_the_file_of_the_folder_is_found(self, empty_folder: Path) -> None:
        """Without a word `tallgrass.toml` of the working folder is read."""
        (empty_folder / "tallgrass.toml").write_text('env = "prod"\n', encoding="utf-8")
        config = load()
        assert config.text("env") == "prod"
        assert config.origins["env"] == "tallgrass.toml"

    def test_a_variable_names_the_file(self, empty_folder: Path) -> None:
        """`TALLGRASS_CONFIG` names another file; a file named by flag goes before it."""
        (empty_folder / "other.toml").write_text('env = "other"\n', encoding="utf-8")
        variables = {"TALLGRASS_CONFIG": "other.toml"}
        assert load(variables=variables).text("env") == "other"
        assert load('env = "named"\n', variables=variables).text("env") == "named"

    def test_a_named_file_must_exist(self) -> None:
        """A file that was asked for and is not there is an error, not a default."""
        error = refusal(variables={"TALLGRASS_CONFIG": "missing.toml"})
        assert "missing.toml" in str(error)

    def test_every_setting_has_its_variable(self) -> None:
        """Each setting can be given by the environment, in its own type."""
        for setting in SETTINGS:
            text = str(setting.default).lower()
            config = load(variables={setting.variable: text})
            assert config.values[setting.key] == setting.default
            assert config.origins[setting.key] == f"${setting.variable}"

    def test_variables_of_others_are_left_alone(self) -> None:
        """Other programs' variables, and those of the tests, are no settings."""
        assert load(variables={"PATH": "/bin", "TALLGRASS_TEST_FULL": "1"}).text("env") == "dev"


class TestRefusals:
    """What cannot be used is refused with its place, its key and a way out."""

    @pytest.mark.parametrize(
        ("text", "key", "nearest"),
        [
            ("[worker]\nbach = 5\n", "worker.bach", "worker.batch"),
            ("[wroker]\nid = 'a'\n", "wroker", "worker"),
            ("[wroker]\n", "wroker", "worker"),
            ("evn = 'x'\n", "evn", "env"),
            ("[ledger]\nmax_attemps = 5\n", "ledger.max_attemps", "ledger.max_attempts"),
            ("[ledger.exception.d]\nx = 1\n", "ledger.exception", "ledger.exceptions"),
        ],
    )
    def test_an_unknown_key_of_the_file(self, text: str, key: str, nearest: str) -> None:
        """An unknown key is refused with the file, the key and the nearest known one."""
        message = str(refusal(text))
        assert message.startswith("site.toml: ")
        assert repr(key) in message
        assert f"did you mean '{nearest}" in message

    def test_an_unknown_variable(self) -> None:
        """A mistyped variable is refused with the nearest one."""
        message = str(refusal(variables={"TALLGRASS_WORKER_BACH": "5"}))
        assert "TALLGRASS_WORKER_BACH" in message
        assert "did you mean 'TALLGRASS_WORKER_BATCH'" in message

    def test_an_unknown_flag(self) -> None:
        """A mistyped key given by flag is refused with the nearest one."""
        message = str(refusal(worker__lease=5))
        assert "'worker.lease'" in message
        assert "did you mean 'worker.lease_s'" in message

    def test_a_key_like_no_other(self) -> None:
        """Where nothing is near, nothing is suggested."""
        assert "did you mean" not in str(refusal("zzzzzzzzzz = 1\n"))

    @pytest.mark.parametrize(
        ("text", "key"),
        [
            ('[worker]\nbatch = "500"\n', "worker.batch"),
            ("[worker]\nbatch = 500.0\n", "worker.batch"),
            ("[worker]\nbatch = true\n", "worker.batch"),
            ("[worker]\nbatch = 0\n", "worker.batch"),
            ("[worker]\nbatch = 10001\n", "worker.batch"),
            ("[worker]\nid = 5\n", "worker.id"),
            ('[worker]\nid = ""\n', "worker.id"),
            ('[worker]\nid = "a b"\n', "worker.id"),
            ("[worker]\nlease_s = 0.5\n", "worker.lease_s"),
            ("[worker]\nlease_s = nan\n", "worker.lease_s"),
            ("[worker]\nlease_s = inf\n", "worker.lease_s"),
            ("[worker]\njob_deadline_s = 43200\n", "worker.job_deadline_s"),
            ("[ledger]\nallow_partial = 1\n", "ledger.allow_partial"),
            ('[ledger]\nreingest = "yes"\n', "ledger.reingest"),
            ("[ledger]\nmax_attempts = 1\n", "ledger.max_attempts"),
            ("[ledger]\nmax_attempts = 101\n", "ledger.max_attempts"),
            ("[ledger]\nretry_cap_s = 0\n", "ledger.retry_cap_s"),
            ('[database]\nurl = "mysql://x"\n', "database.url"),
            ("env = 'pro d'\n", "env"),
            ("[env]\nname = 'x'\n", "env"),
            ("ledger = 5\n", "ledger"),
            ("[ledger]\nproviders = 'ibm'\n", "ledger.providers"),
            ("[ledger]\nproviders = ['']\n", "ledger.providers"),
            ("[ledger]\nexceptions = 5\n", "ledger.exceptions"),
            ("[ledger.exceptions]\nd = 5\n", "ledger.exceptions.d"),
            (
                "[ledger.exceptions.d]\napproval_ref = 'x'\nmax_attempts = true\n",
                "ledger.exceptions.d.max_attempts",
            ),
            (
                "[ledger.exceptions.d]\napproval_ref = 'x'\nmax_attempts = 500\n",
                "ledger.exceptions.d.max_attempts",
            ),
            (
                "[ledger.exceptions.d]\napproval_ref = 'x'\nmax_attemps = 5\n",
                "did you mean 'max_attempts'",
            ),
            ("[ledger.replay_reasons.a-b]\napproval_ref = 'x'\n", "description is missing"),
            ("[ledger.extensions]\nd = 'ext_a'\n", "ledger.extensions.d"),
        ],
    )
    @pytest.mark.conformance("WAL-8.5")
    def test_a_wrong_value_of_the_file(self, text: str, key: str) -> None:
        """A value of the wrong type or out of bounds is refused with the file and the key."""
        error = refusal(text)
        assert error.code == "config_invalid"
        assert str(error).startswith("site.toml: ")
        assert key in str(error)

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("WORKER_BATCH", "many"),
            ("WORKER_BATCH", "5.5"),
            ("WORKER_BATCH", ""),
            ("WORKER_BATCH", "1" + "0" * 400),
            ("WORKER_BATCH", "1" + "0" * 5000),
            ("WORKER_LEASE_S", "soon"),
            ("WORKER_LEASE_S", "nan"),
            ("LEDGER_REINGEST", "maybe"),
            ("LEDGER_REINGEST", ""),
            ("LEDGER_MAX_ATTEMPTS", "0"),
        ],
    )
    def test_a_wrong_value_of_a_variable(self, name: str, text: str) -> None:
        """A variable that cannot be read or is out of bounds is refused by its name."""
        assert str(refusal(variables={f"TALLGRASS_{name}": text})).startswith(
            f"$TALLGRASS_{name}: "
        )

    @pytest.mark.parametrize("word", ["true", "TRUE", "yes", "1"])
    def test_words_for_true(self, word: str) -> None:
        """The usual words for true are understood, and their opposites for false."""
        opposite = {"true": "false", "TRUE": "FALSE", "yes": "no", "1": "0"}[word]
        assert load(variables={"TALLGRASS_LEDGER_REINGEST": word}).rules.reingest
        assert not load(variables={"TALLGRASS_LEDGER_REINGEST": opposite}).rules.reingest

    @pytest.mark.parametrize("content", BROKEN, ids=lambda content: repr(content[:40]))
    def test_a_file_that_is_no_toml(self, content: bytes, empty_folder: Path) -> None:
        """A broken file is refused by its name."""
        file = empty_folder / "broken.toml"
        file.write_bytes(content)
        with pytest.raises(ConfigError, match=r"broken\.toml is not TOML"):
            load_config(file=file, environment={})

    @pytest.mark.conformance("SM-1.2", "WAL-3.14")
    @pytest.mark.parametrize("approval", ["", "approval_ref = ''\n", "approval_ref = '  '\n"])
    @pytest.mark.parametrize(
        "body",
        [
            "[ledger.exceptions.goes-glm]\nmax_attempts = 3\n",
            "[ledger.replay_reasons.drought-2026]\ndescription = 'x'\n",
        ],
        ids=["exception", "reason"],
    )
    def test_what_nobody_approved(self, body: str, approval: str) -> None:
        """An exception or a custom reason without its approval stops the configuration."""
        error = refusal(body + approval)
        assert error.code == "exception_without_approval"
        assert str(error).startswith("site.toml: ledger.")
        assert "approval_ref" in str(error)

    @pytest.mark.conformance("WAL-3.17")
    @pytest.mark.parametrize("name", ["status", "wal_id", "version", "due_at", "scan_mode"])
    def test_an_extension_that_collides(self, name: str) -> None:
        """A canonical name, or one without prefix, is refused when the configuration is read."""
        error = refusal(f"[ledger.extensions]\ngoes-glm = ['{name}']\n")
        assert error.code == "extension_collides"
        assert "site.toml" in str(error)
        assert name in str(error)

    @pytest.mark.parametrize(
        ("name", "text", "said"),
        [
            ("CONFIG", "\udcff", "$TALLGRASS_CONFIG is not UTF-8"),
            ("DATABASE_URL", "sqlite:///\udcff", "$TALLGRASS_DATABASE_URL is not UTF-8"),
            ("CONFIG", "a" * 5000, "cannot read aaa"),
        ],
    )
    def test_a_variable_that_names_nothing(self, name: str, text: str, said: str) -> None:
        """Bytes that are no text, and a name that no file can have."""
        assert said in str(refusal(variables={f"TALLGRASS_{name}": text}))


class TestWorkerName:
    """A worker's name is logical: a record tells which worker, never where it ran."""

    @pytest.fixture(autouse=True)
    def machine(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Run on a machine of a known name."""
        monkeypatch.setattr(socket, "gethostname", lambda: "Ingest-07.example.org")

    @pytest.mark.conformance("WAL-3.13")
    @pytest.mark.parametrize(
        "name",
        [
            "ingest-07",
            "INGEST-07",
            "ingest-07.example.org",
            "Ingest-07.Example.Org",
            "10.20.30.40",
            "ip-10-20-30-40",
            "worker-10.20.30.40",
        ],
    )
    def test_a_host_name_or_an_address_is_refused(self, name: str) -> None:
        """The machine's own name, long or short, and any IP address are refused."""
        for error in (
            refusal(f"[worker]\nid = '{name}'\n"),
            refusal(variables={"TALLGRASS_WORKER_ID": name}),
            refusal(worker__id=name),
        ):
            assert "worker.id must be a logical name" in str(error)

    @pytest.mark.conformance("WAL-3.13")
    @pytest.mark.parametrize("name", ["worker", "ingest", "blue", "worker-a", "v1.2.3", "glm_2026"])
    def test_a_logical_name_is_accepted(self, name: str) -> None:
        """Any other word will do."""
        assert load(worker__id=name).text("worker.id") == name

    @pytest.mark.conformance("WAL-3.13")
    def test_the_default_says_nothing_of_the_machine(self) -> None:
        """Without a name, the worker is just `worker`."""
        assert load().text("worker.id") == "worker"


class TestTables:
    """What only a file can hold reaches the ledger's rules."""

    def test_all_of_it_is_read(self) -> None:
        """Providers, reasons, exceptions and extensions are there as written."""
        rules = load(SHAPING).rules
        assert rules.max_attempts == 6
        assert not rules.allow_partial
        assert rules.providers == {"aws", "azure", "gcp", "ibm", "wasabi"}
        assert rules.custom_reasons["drought-2026"].approval_ref == "CR-7"
        assert rules.max_attempts_of("goes-glm") == 3
        assert not rules.reingests("goes-glm")
        assert rules.extensions == {"nexrad-l2": {"ext_vcp", "ext_elevations"}}

    def test_an_empty_known_section_is_fine(self) -> None:
        """A file whose settings are all commented out changes nothing."""
        assert load("[worker]\n[database]\n[ledger]\n").settings_version == load().settings_version


class TestConfigVersion:
    """The hash names the settings that can change an output, in whatever form they are written."""

    def test_form_does_not_matter(self) -> None:
        """Order of keys and names, white space, comments and quoting change nothing."""
        other = """
        # the same, otherwise written
        ledger.extensions.nexrad-l2 = [
            'ext_elevations', 'ext_vcp',
        ]
        ledger.exceptions = { goes-glm = { reingest=false, max_attempts=3, approval_ref='CR-8' } }
        ledger.providers = ["ibm", "wasabi", "ibm"]
        [ledger.replay_reasons]
        "drought-2026" = {approval_ref="CR-7", description="Drought study"}
        """
        changed = load(other, ledger__max_attempts=6, ledger__allow_partial=False)
        assert changed.settings_version == load(SHAPING).settings_version

    def test_the_source_does_not_matter(self) -> None:
        """The same value by flag, by variable, by file or by default gives the same version."""
        versions = {
            load(ledger__max_attempts=6).settings_version,
            load(variables={"TALLGRASS_LEDGER_MAX_ATTEMPTS": "6"}).settings_version,
            load("[ledger]\nmax_attempts = 6\n").settings_version,
        }
        assert len(versions) == 1
        assert load(ledger__max_attempts=8).settings_version == load().settings_version

    @pytest.mark.parametrize(
        ("find", "replace"),
        [
            ("max_attempts = 6", "max_attempts = 7"),
            ("allow_partial = false", "allow_partial = true"),
            ("allow_partial = false", "allow_partial = false\nallow_suspect = false"),
            ("allow_partial = false", "allow_partial = false\nreingest = false"),
            ('"wasabi", ', ""),
            ("drought-2026", "drought-2027"),
            ("Drought study", "Flood study"),
            ("CR-7", "CR-9"),
            ("goes-glm", "goes-abi"),
            ("max_attempts = 3", "max_attempts = 4"),
            ("reingest = false", "reingest = true"),
            ("reingest = false", "reingest = false\nallow_partial = true"),
            ("nexrad-l2", "nexrad-l3"),
            ('"ext_vcp", ', ""),
        ],
    )
    def test_each_shaping_value_matters(self, find: str, replace: str) -> None:
        """Any change of a rule, exception, reason, provider or extension is another version."""
        assert SHAPING.count(find) == 1
        changed = load(SHAPING.replace(find, replace))
        assert changed.settings_version != load(SHAPING).settings_version

    @pytest.mark.parametrize("key", NOT_SHAPING)
    def test_addresses_sizes_and_waits_do_not_matter(self, key: str) -> None:
        """What cannot change an output does not change the version."""
        changed = load(**{key: NOT_SHAPING[key]})
        assert changed.values[key.replace("__", ".")] == NOT_SHAPING[key]
        assert changed.settings_version == load().settings_version

    def test_every_setting_is_shaping_or_not(self) -> None:
        """Each setting is tried by one of the two tests above."""
        shaping = {"max_attempts", "allow_partial", "allow_suspect", "reingest"}
        tried = {key.replace("__", ".") for key in NOT_SHAPING}
        assert tried | {f"ledger.{name}" for name in shaping} == {s.key for s in SETTINGS}

    def test_it_is_short_and_stable(self) -> None:
        """Sixteen hexadecimal digits, the same at each load."""
        version = load().settings_version
        assert len(version) == 16
        assert int(version, 16) >= 0
        assert version == load().settings_version


def test_the_label_of_metrics_is_a_setting() -> None:
    """`env` labels metrics and can be given by each source."""
    assert load('env = "staging"\n').text("env") == "staging"
    assert load(variables={"TALLGRASS_ENV": "prod"}).text("env") == "prod"
    assert load(variables={"TALLGRASS_ENV": "prod"}).origins["env"] == "$TALLGRASS_ENV"
