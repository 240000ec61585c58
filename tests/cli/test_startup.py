"""Start-up: help costs no more than help needs, and the package alone next to nothing."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

from tests.cli.command import PROGRAM, environment

#: Libraries that only the work itself needs.
HEAVY = {
    "asyncio", "boto3", "botocore", "cryptography", "fastapi", "h5py", "jinja2", "jiter",
    "langgraph", "multiprocessing", "numpy", "obstore", "opentelemetry", "psycopg", "pyarrow",
    "pydantic", "rich", "shapely", "sqlite3", "uvicorn", "yaml",
}  # fmt: skip
LOOK = "import sys; before = set(sys.modules); {work}; print(*sorted(set(sys.modules) - before))"


def loaded_by(work: str) -> set[str]:
    """Return the modules that a piece of code loads in a fresh process."""
    done = subprocess.run(
        [sys.executable, "-c", LOOK.format(work=work)],
        env=environment(), check=True, capture_output=True, text=True,
    )  # fmt: skip
    return set(done.stdout.splitlines()[-1].split())


def test_the_package_alone_loads_nothing() -> None:
    """`import tallgrass` is one module: what is used brings what it needs."""
    assert loaded_by("import tallgrass") == {"tallgrass"}


def test_help_loads_little() -> None:
    """`tallgrass --help`: click, and a handful of our own; no library of the work."""
    found = loaded_by("from tallgrass.cli.main import run; run(['--help'])")
    assert {name.partition(".")[0] for name in found} & HEAVY == set()
    ours = {name for name in found if name.partition(".")[0] == "tallgrass"}
    assert ours == {
        "tallgrass", "tallgrass.cli", "tallgrass.cli.failures", "tallgrass.cli.invocation",
        "tallgrass.cli.main", "tallgrass.cli.text", "tallgrass.clock", "tallgrass.error_codes",
        "tallgrass.errors", "tallgrass.views", "tallgrass.views.text",
    }  # fmt: skip
    # 114 when this was written, 90 of them Python's own.
    assert len(found) < 180


@pytest.mark.parametrize("arguments", [("--help",), ("--version",)], ids=" ".join)
def test_help_is_there_at_once(arguments: tuple[str, ...]) -> None:
    """Below 0.3 s of a processor; the best of ten, for a busy machine makes any one slow."""

    def cpu_s() -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    best = float("inf")
    for _ in range(10):
        before = cpu_s()
        subprocess.run([*PROGRAM, *arguments], env=environment(), check=True, capture_output=True)
        best = min(best, cpu_s() - before)
        if best < 0.3:
            return
    pytest.fail(f"took {best:.2f} s at best")
