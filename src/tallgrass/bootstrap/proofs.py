"""What a proof reads from a database, for those who may not reach into storage."""

from tallgrass.storage.proofs import Counts, applied_etags, count_for_proof, stored_items

__all__ = ["Counts", "applied_etags", "count_for_proof", "stored_items"]
