"""Every name that Tallgrass emits: metrics, spans and log events, declared once.

Names and labels are the specifications' own where they have them. This is the front of the three
tables; each is in a file of its own.
"""

from tallgrass.telemetry.declarations import *  # noqa: F403 - the front passes all names on
from tallgrass.telemetry.event_names import *  # noqa: F403
from tallgrass.telemetry.gauge_names import *  # noqa: F403
from tallgrass.telemetry.metric_names import *  # noqa: F403
from tallgrass.telemetry.span_names import *  # noqa: F403
