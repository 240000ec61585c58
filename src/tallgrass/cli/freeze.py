"""``tallgrass freeze``: stop everything, and let it go on."""

from tallgrass.cli.switches import freeze as command

__all__ = ["command"]
