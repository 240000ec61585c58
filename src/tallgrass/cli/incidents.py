"""``tallgrass incidents``: what went wrong, for a replay to refer to."""

from tallgrass.cli.changes import reference_group
from tallgrass.governance.references import ReferenceKind

command = reference_group(ReferenceKind.INCIDENT, "incidents", "INC-7", "No lightning since noon")
