"""Publishing by the configuration, for pipelines of your own."""

from tallgrass.bootstrap.datasets import open_policies
from tallgrass.config import Config
from tallgrass.outbox.payload_rules import PayloadRules
from tallgrass.outbox.publishing import Publisher


def open_publisher(config: Config) -> Publisher:
    """Return a publisher that follows the configuration: its routes, size limit and policies.

    It reads the datasets' files, so make one and keep it.
    """
    return Publisher(
        routing=config.routing,
        rules=PayloadRules(
            bytes_max=config.integer("outbox.payload_bytes_max"), policies=open_policies(config)
        ),
    )
