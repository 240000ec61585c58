"""Archives as the database and the audit log keep them."""

from collections.abc import Mapping

from tallgrass.clock import format_instant
from tallgrass.governance.audit import AuditEntry
from tallgrass.inventory.retention import Archive, ArchiveFile, ArchiveFormat, ArchiveKind
from tallgrass.storage.rows import instant, instant_or_none
from tallgrass.storage.unit_of_work import Row


def archive_from(row: Row) -> Archive:
    """Read a row of archives."""
    return Archive(
        archive_id=row["archive_id"],
        file=ArchiveFile(
            kind=ArchiveKind(row["kind"]),
            format=ArchiveFormat(row["format"]),
            place=row["place"],
            name=row["name"],
            sha256=row["sha256"],
            bytes=row["bytes"],
            rows=row["row_count"],
            older_than=instant(row["older_than"]),
            first_key=row["first_key"],
            last_key=row["last_key"],
            first_at=instant(row["first_at"]),
            last_at=instant(row["last_at"]),
            first_position=row["first_position"],
            last_position=row["last_position"],
            before_hash=row["before_hash"],
            head_hash=row["head_hash"],
        ),
        actor=row["actor"],
        recorded_at=instant(row["recorded_at"]),
        verified_at=instant_or_none(row["verified_at"]),
        removed=row["removed"],
        removed_at=instant_or_none(row["removed_at"]),
        abandoned_at=instant_or_none(row["abandoned_at"]),
    )


def columns_of(file: ArchiveFile) -> dict[str, object]:
    """Return what a row of archives says of a file."""
    return {
        "kind": file.kind.value,
        "format": file.format.value,
        "place": file.place,
        "file_name": file.name,
        "sha256": file.sha256,
        "bytes": file.bytes,
        "row_count": file.rows,
        "older_than": file.older_than,
        "first_key": file.first_key,
        "last_key": file.last_key,
        "first_at": file.first_at,
        "last_at": file.last_at,
        "first_position": file.first_position,
        "last_position": file.last_position,
        "before_hash": file.before_hash,
        "head_hash": file.head_hash,
    }


def entry_of(file: ArchiveFile, actor: str, known_by: Mapping[str, object]) -> AuditEntry:
    """Return what the audit log says of a file when it is recorded."""
    detail = {name: value for name, value in columns_of(file).items() if value is not None}
    for name in ("older_than", "first_at", "last_at"):
        detail[name] = format_instant(getattr(file, name))
    return AuditEntry(
        actor=actor,
        action="archive_record",
        subject=f"archive:{file.sha256}",
        reason=f"{file.kind.value} older than {detail['older_than']}",
        detail={**known_by, **detail},
    )
