"""What a notification tells of one ingest unit, before the ledger knows it."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Self

from tallgrass.clock import to_utc
from tallgrass.errors import InvalidInput
from tallgrass.ledger.identity import wal_id
from tallgrass.ledger.object_uri import canonical_object_uri
from tallgrass.made_often import made_often

#: Providers that are always known; others are configured.
PROVIDERS = frozenset({"aws", "azure", "gcp"})


@made_often
class ObjectReference:
    """Which version of the object is meant; what the event did not say is None, never guessed."""

    etag: str | None = None
    size: int | None = None
    #: Orders the events of one key (S3 sequencer, GCS generation); compared right-padded.
    sequencer: str | None = None
    version_id: str | None = None


@made_often
class EventMetadata:
    """Through which messages the unit was announced; both ids are None without a queue message."""

    event_time: datetime
    sns_message_id: str | None = None
    sqs_message_id: str | None = None
    #: W3C trace context of who sent the message; for traces alone, and no part of any output.
    traceparent: str | None = None


@made_often
class IngestUnit:
    """One object to ingest. Build it with `of`, which checks and names it."""

    wal_id: str
    dataset: str
    object_uri: str
    provider: str
    queue: str
    time_range_start: datetime
    time_range_end: datetime
    event: EventMetadata
    object_ref: ObjectReference
    #: Declared dataset-specific fields (``ext_…``), or None.
    extensions: Mapping[str, object] | None = None

    @classmethod
    def of(  # noqa: PLR0913 - the contract's own fields
        cls,
        *,
        dataset: str,
        object_uri: str,
        provider: str,
        queue: str,
        time_range_start: datetime,
        time_range_end: datetime | None,
        event: EventMetadata,
        object_ref: ObjectReference,
        extensions: Mapping[str, object] | None = None,
        providers: Collection[str] = PROVIDERS,
    ) -> Self:
        """Return the unit with its id; whatever the contract does not allow is refused.

        A unit whose key gives no end ends where it starts.
        """
        if not dataset:
            raise InvalidInput(f"no dataset for {object_uri!r}")
        if provider not in providers:
            raise InvalidInput(
                f"unknown provider {provider!r}: known are {', '.join(sorted(providers))}",
                code="unknown_provider",
            )
        start = to_utc(time_range_start)
        end = start if time_range_end is None else to_utc(time_range_end)
        if end < start:
            raise InvalidInput(
                f"the time range of {object_uri!r} ends before it starts: {start} to {end}",
                code="invalid_time",
            )
        to_utc(event.event_time)
        uri = canonical_object_uri(object_uri)
        return cls(
            wal_id=wal_id(dataset, uri, start),
            dataset=dataset,
            object_uri=uri,
            provider=provider,
            queue=queue,
            time_range_start=start,
            time_range_end=end,
            event=event,
            object_ref=object_ref,
            extensions=extensions or None,
        )
