"""PROV-O documents and OpenLineage events as pure bytes."""
