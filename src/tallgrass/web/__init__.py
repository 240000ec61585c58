"""What is served over HTTP: the STAC API."""

import logging

# Its library warns, as it is imported, of defaults that nobody can have set by then.
logging.getLogger("stac_fastapi").setLevel(logging.ERROR)
