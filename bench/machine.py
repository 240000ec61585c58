"""When, of which commit and on what machine a part was measured; nothing that names the machine."""

from __future__ import annotations

import os
import platform
import sqlite3
import statistics
import time
from datetime import UTC, datetime
from pathlib import Path

import psycopg

from bench.report import Stamp
from tools.checkout import commit

CPU_INFO = Path("/proc/cpuinfo")
#: Additions of the loop that tells the machine's pace.
ADDITIONS = 1_000_000


def stamp(postgres_url: str) -> Stamp:
    """Return the stamp of what is measured now."""
    return Stamp(
        date=f"{datetime.now(UTC):%Y-%m-%d}",
        commit=commit("src", "bench", ":!bench/report.*"),
        machine=description(postgres_version(postgres_url)),
        pace_ms=pace_ms(),
    )


def pace_ms() -> float:
    """Return what a bare loop of additions takes now: the median of some."""
    times = []
    for _ in range(5):
        began, total = time.perf_counter(), 0
        for number in range(ADDITIONS):
            total += number
        times.append((time.perf_counter() - began) * 1e3)
    return round(statistics.median(times), 1)


def description(postgres: str, cpu_info: Path = CPU_INFO) -> str:
    """Return what counts for speed: cores, CPU, memory and versions."""
    cores = len(os.sched_getaffinity(0))
    memory_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return (
        f"{cores} cores of {cpu_model(cpu_info)}, {memory_gb:.0f} GB of memory,"
        f" Python {platform.python_version()}, SQLite {sqlite3.sqlite_version},"
        f" PostgreSQL {postgres}"
    )


def cpu_model(cpu_info: Path = CPU_INFO) -> str:
    """Return the model of the CPU, as the kernel tells it."""
    if cpu_info.is_file():
        for line in cpu_info.read_text(encoding="utf-8", errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name" and value.strip():
                return " ".join(value.split())
    return platform.machine()


def postgres_version(url: str) -> str:
    """Return the version of the server, without the words that packagers add."""
    with psycopg.connect(url) as connection:
        (told,) = connection.execute("SHOW server_version").fetchone() or ("",)
    return str(told).split()[0]
