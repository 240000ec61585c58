"""``python -m tallgrass`` is the command ``tallgrass``."""

from tallgrass.cli.main import main

main()
