"""STAC items as pure bytes: geometry, properties, assets, comparison."""
