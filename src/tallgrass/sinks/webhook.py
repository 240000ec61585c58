"""POSTs each event as a structured CloudEvent, signed as Standard Webhooks are.

The address may be a stranger's, so the request goes only where `address_guard` lets it: to the
public Internet by HTTPS, or to what `allow_addresses` lists.
"""

from collections.abc import Mapping, Sequence

from tallgrass.clock import Clock
from tallgrass.errors import ConfigError
from tallgrass.outbox.event import OutboxEvent
from tallgrass.sinks.address_guard import AddressGuard, read_networks, read_url
from tallgrass.sinks.cloud_event import CONTENT_TYPE, cloud_event
from tallgrass.sinks.http import authorization, deliver, delivery_of, open_http, trace_headers
from tallgrass.sinks.http_client import HttpClient
from tallgrass.sinks.options import Options
from tallgrass.sinks.protocol import Delivery
from tallgrass.sinks.resources import SinkResources
from tallgrass.sinks.signature import read_secret, signed_headers

#: The old one and the new one, while a receiver changes over.
_SECRETS_MAX = 2


class WebhookSink:
    """One request an event."""

    batch_max = 1

    def __init__(
        self,
        client: HttpClient,
        *,
        keys: Sequence[bytes],
        headers: Mapping[str, str],
        clock: Clock,
    ) -> None:
        self._client = client
        self._keys = keys
        self._headers = {"Content-Type": CONTENT_TYPE, **headers}
        self._clock = clock

    def send(self, events: Sequence[OutboxEvent]) -> Sequence[Delivery]:
        """Post each event."""
        return [deliver(self._client.url, self._post, event) for event in events]

    def close(self) -> None:
        """Let connections go."""
        self._client.close()

    def _post(self, event: OutboxEvent) -> Delivery:
        client, body = self._client, cloud_event(event)
        signed = signed_headers(self._keys, event.outbox_id, self._clock(), body)
        answer = client.ask(
            "POST",
            client.url.target,
            body,
            {**self._headers, **trace_headers(event), **signed},
            ends_at=client.deadline(),
        )
        return delivery_of(answer, client.url.place, self._clock)


def open_webhook(settings: Mapping[str, object], resources: SinkResources) -> WebhookSink:
    """Make the sink: `url`, one or two secrets, `allow_addresses`, and those of all HTTP sinks."""
    options = Options(settings, environment=resources.environment)
    url = read_url(options.text("url"))
    secrets = options.secrets("secret")
    if not 1 <= len(secrets) <= _SECRETS_MAX:
        raise ConfigError(
            "secret_env or secret_file must name one secret, or two while it is changed"
        )
    guard = AddressGuard(allowed=read_networks(options.texts("allow_addresses"), "allow_addresses"))
    guard.require(url)
    client = open_http(options, url, resources, guard)
    headers = authorization(options)
    options.done()
    return WebhookSink(
        client,
        keys=[read_secret(secret) for secret in secrets],
        headers=headers,
        clock=resources.clock,
    )
