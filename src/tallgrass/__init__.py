"""Tallgrass: a provable STAC catalog from NOAA's open-data notifications."""

__version__ = "0.1.0"
