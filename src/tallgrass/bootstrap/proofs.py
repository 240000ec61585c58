"""What proofs read from a database, offered to modules that may not import storage."""

from tallgrass.storage.proofs import Counts, applied_etags, count_for_proof, stored_items

__all__ = ["Counts", "applied_etags", "count_for_proof", "stored_items"]
