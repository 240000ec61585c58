"""Checks of the configuration, the installation and this machine."""

from tallgrass.doctor.finding import (
    DatabaseFacts,
    Facts,
    Finding,
    Folder,
    Trouble,
    ok,
    problem,
    skipped,
    warning,
)

#: Clocks may differ by so much without a word; beyond the second AWS's answers stop making sense.
CLOCK_WARNING_S = 5.0
CLOCK_PROBLEM_S = 60.0
_MIB = 1024 * 1024
DISK_WARNING_BYTES = 2048 * _MIB
DISK_PROBLEM_BYTES = 256 * _MIB
#: A heartbeat is a third of the lease: a shorter lease is lost to a pause of the machine.
LEASE_WARNING_S = 15


def check_configuration(facts: Facts) -> Finding:
    """Say which configuration holds; one that cannot be used never comes so far."""
    file = "no file" if facts.config.file is None else str(facts.config.file)
    version = facts.config_version or "not known: the datasets cannot be read"
    return ok("configuration", f"{file}; config_version {version}")


def check_datasets(facts: Facts) -> Finding:
    """Every dataset file can be used, the shipped ones and those of datasets.folder."""
    name, found = "datasets", facts.datasets
    if isinstance(found, Trouble):
        return problem(name, found.message, "mend the file: tallgrass datasets check FILE")
    folder = facts.config.text("datasets.folder")
    return ok(name, f"{found}, those of {folder} included" if folder else f"{found}, as shipped")


def check_extras(facts: Facts) -> Finding:
    """Every package that the configuration asks for is installed."""
    name = "extras"
    needed = {
        "psycopg": ("postgres", facts.on_postgres),
        "boto3": ("aws", facts.on_sqs),
        "cryptography": ("aws", facts.config.text("queue.signatures") == "required"),
    }
    missing = [
        package
        for package, (_, wanted) in needed.items()
        if wanted and not facts.packages.get(package)
    ]
    if missing:
        extras = sorted({needed[package][0] for package in missing})
        fix = f"pip install 'tallgrass[{','.join(extras)}]'"
        return problem(name, f"not installed: {', '.join(missing)}", fix)
    if facts.with_attributes and facts.reads_objects and not facts.packages.get("h5py"):
        first, *others = facts.with_attributes
        of = f"{first} and {len(others)} other datasets" if others else first
        seen = f"not installed: h5py; HDF5 files of {of} tell neither times nor places"
        return warning(name, seen, "on every worker: pip install 'tallgrass[formats]'")
    installed = [package for package, there in sorted(facts.packages.items()) if there]
    return ok(name, f"installed: {', '.join(installed) or 'none, and none is needed'}")


def check_folders(facts: Facts) -> Finding:
    """Every folder is there and may be used as it must be."""
    name = "folders"
    faults = [_folder_fault(folder) for folder in facts.folders]
    bad = [fault for fault in faults if fault is not None]
    if bad:
        return problem(
            name,
            "; ".join(bad),
            "make the folder, give the worker's account the rights, or correct the setting",
        )
    places = [f"{folder.setting}: {folder.path}" for folder in facts.folders]
    return ok(name, "; ".join(places) or "nothing is kept on this machine")


def _folder_fault(folder: Folder) -> str | None:
    if not folder.exists:
        return f"{folder.setting}: {folder.path} is not there"
    if not folder.usable:
        verb = "written" if folder.written else "read"
        return f"{folder.setting}: {folder.path} cannot be {verb}"
    return None


def check_disk_space(facts: Facts) -> Finding:
    """Beside database, queue and objects there is room; a full disk stops every commit."""
    name = "disk-space"
    if not facts.folders:
        return skipped(name, "nothing is kept on this machine")
    seen = "; ".join(f"{one.setting}: {one.free_bytes // _MIB:,} MiB free" for one in facts.folders)
    least = min(folder.free_bytes for folder in facts.folders)
    fix = "free disk space, or move the file to a larger disk"
    if least < DISK_PROBLEM_BYTES:
        return problem(name, seen, fix)
    return warning(name, seen, fix) if least < DISK_WARNING_BYTES else ok(name, seen)


def check_file_system(facts: Facts) -> Finding:
    """SQLite's files lie on a local disk."""
    name = "file-system"
    on_network = "database_on_network_filesystem"
    for found in (facts.database, facts.queue):
        if isinstance(found, Trouble) and found.code == on_network:
            return problem(name, found.message, found.remedy)
    if facts.on_postgres:
        return skipped(name, "PostgreSQL keeps its own files")
    if not isinstance(facts.database, DatabaseFacts):
        return skipped(name, "the database could not be opened")
    return ok(name, facts.database.file_system or "unknown")


def check_clock(facts: Facts) -> Finding:
    """Database, AWS and this machine agree on the time."""
    name = "clock"
    ahead = {
        "database": getattr(facts.database, "clock_ahead_s", None),
        "SQS": getattr(facts.queue, "clock_ahead_s", None),
    }
    known = {who: seconds for who, seconds in ahead.items() if seconds is not None}
    if not known:
        return skipped(name, "no other clock was seen than this machine's")
    seen = "; ".join(f"{who} {seconds:+.1f} s" for who, seconds in known.items())
    worst = max(abs(seconds) for seconds in known.values())
    fix = "let this machine's clock be set by NTP (timedatectl set-ntp true), or the server's"
    if worst >= CLOCK_PROBLEM_S:
        return problem(name, seen, fix)
    return warning(name, seen, fix) if worst >= CLOCK_WARNING_S else ok(name, seen)


def check_lease(facts: Facts) -> Finding:
    """Heartbeat, lease and job deadline grow in that order."""
    name = "lease"
    lease_s = facts.config.number("worker.lease_s")
    deadline_s = facts.config.number("worker.job_deadline_s")
    seen = f"heartbeat {lease_s / 3:g} s, lease {lease_s:g} s, job deadline {deadline_s:g} s"
    if deadline_s < lease_s:
        return problem(name, seen, f"worker.job_deadline_s must be at least {lease_s:g}")
    if lease_s < LEASE_WARNING_S:
        return warning(name, seen, "worker.lease_s: a pause costs the lease; use 60")
    return ok(name, seen)
