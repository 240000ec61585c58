"""A command as a process of its own: how long it took, how much memory it held, what it printed."""

from __future__ import annotations

import os
import subprocess
import sys
import time

#: Runs the command and tells its peak memory. In between, because the peak of a process counts what
#: its parent held when it was started, and a benchmark holds a lot.
_LAUNCHER = (
    "import resource, subprocess, sys\n"
    "code = subprocess.run(sys.argv[1:], check=False).returncode\n"
    "peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss\n"
    "print(peak, file=sys.stderr)\n"
    "sys.exit(code)\n"
)


def run_tallgrass(*words: str, environment: dict[str, str]) -> tuple[float, float, bytes]:
    """Run `tallgrass`; return the seconds it took, its peak in megabytes, and what it printed."""
    command = [sys.executable, "-c", _LAUNCHER, sys.executable, "-m", "tallgrass", *words]
    begin = time.perf_counter()
    done = subprocess.run(
        command, check=False, capture_output=True, env={**os.environ, **environment}
    )
    took = time.perf_counter() - begin
    return took, int(done.stderr.split()[-1]) / 1024, done.stdout
