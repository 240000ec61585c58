"""What buckets hold: their listings, and files that list objects."""

import random
import time
from collections.abc import Callable
from pathlib import Path

from tallgrass.bootstrap.workers import open_clouds
from tallgrass.config import Config
from tallgrass.errors import ConfigError
from tallgrass.evidence.listing import CloudListing, FolderListing, Listing


def open_listing(config: Config, *, sleep: Callable[[float], object] = time.sleep) -> Listing:
    """Return what lists the buckets whose objects are read: those of clouds, or of a folder."""
    url = config.text("objects.url")
    if url == "event":
        raise ConfigError("objects.url is event: nothing is read, so nothing can be listed")
    if url == "cloud":
        return CloudListing(open_clouds(config), sleep=sleep, random=random.random)
    folder = Path(url.removeprefix("file:"))
    if not folder.is_dir():
        raise ConfigError(f"objects.url: there is no folder {folder}")
    return FolderListing(folder)
