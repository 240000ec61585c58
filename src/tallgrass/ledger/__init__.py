"""The write-ahead ledger's rules: what a record is, how it may change, who may try it again.

Pure: no SQL, no clock, no I/O. ``storage/`` keeps what these modules decide.
"""
