"""POSTs OpenLineage events to a lineage service, such as Marquez, byte for byte.

The transports of the OpenLineage client take events apart and write them anew without nulls; the
HTTP protocol is one request, so it is made here.
"""

from collections.abc import Mapping, Sequence

from tallgrass.clock import Clock
from tallgrass.outbox.event import OutboxEvent
from tallgrass.sinks.address_guard import read_url
from tallgrass.sinks.http import authorization, deliver, delivery_of, open_http, trace_headers
from tallgrass.sinks.http_client import HttpClient
from tallgrass.sinks.options import Options
from tallgrass.sinks.protocol import Delivery, Undelivered
from tallgrass.sinks.resources import SinkResources

#: Where the client of OpenLineage posts to.
DEFAULT_ENDPOINT = "api/v1/lineage"
_EVENTS = "openlineage."


class OpenLineageSink:
    """One request an event."""

    batch_max = 1

    def __init__(
        self, client: HttpClient, *, target: str, headers: Mapping[str, str], clock: Clock
    ) -> None:
        self._client = client
        self._target = target
        self._headers = {"Content-Type": "application/json", **headers}
        self._clock = clock

    def send(self, events: Sequence[OutboxEvent]) -> Sequence[Delivery]:
        """Post each event."""
        return [deliver(self._client.url, self._post, event) for event in events]

    def close(self) -> None:
        """Let connections go."""
        self._client.close()

    def _post(self, event: OutboxEvent) -> Delivery:
        if not event.event_name.startswith(_EVENTS):
            return Undelivered(
                code="sink_misconfigured",
                message=f"{event.event_name} is no OpenLineage event: route only openlineage.*",
                permanent=True,
            )
        client = self._client
        headers = {**self._headers, **trace_headers(event)}
        answer = client.ask("POST", self._target, event.payload, headers, ends_at=client.deadline())
        return delivery_of(answer, client.url.place, self._clock)


def open_openlineage(settings: Mapping[str, object], resources: SinkResources) -> OpenLineageSink:
    """Make the sink: `url`, `endpoint`, and the settings of all HTTP sinks."""
    options = Options(settings, environment=resources.environment)
    base = options.text("url").rstrip("/")
    url = read_url(f"{base}/{options.text('endpoint', DEFAULT_ENDPOINT).lstrip('/')}")
    client = open_http(options, url, resources)
    headers = authorization(options)
    options.done()
    return OpenLineageSink(client, target=url.target, headers=headers, clock=resources.clock)
