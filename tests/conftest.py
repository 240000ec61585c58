"""What every test run shares: plugins, the Hypothesis profile, and the full counts."""

from __future__ import annotations

import os
import signal

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = [
    "tests.plugins.scratch",
    "tests.plugins.aws",
    "tests.plugins.backends",
    "tests.plugins.conformance",
    "tests.plugins.console",
    "tests.plugins.postgres",
    "tests.plugins.skips",
]

FULL = os.environ.get("TALLGRASS_TEST_FULL") == "1"

# Derandomised: the same commit gives the same examples, so a failure is never a matter of luck.
# No deadline: a busy machine is not an error.
settings.register_profile(
    "tallgrass",
    database=None,
    deadline=None,
    derandomize=True,
    max_examples=1000 if FULL else 100,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("tallgrass")


# Whoever started the run in the background may have had Ctrl-C ignored, which processes inherit.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def full_counts() -> bool:
    """Whether this run uses the full counts (`make test-full`)."""
    return FULL


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests marked `full` unless the full counts are asked for."""
    if FULL:
        return
    left_out = [item for item in items if item.get_closest_marker("full")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("full")]
