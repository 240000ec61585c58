"""Configurations by their hash: what the config_version of an attempt meant."""

from tallgrass.storage.transaction_runner import TransactionRunner
from tallgrass.storage.unit_of_work import Transaction


class ConfigStore:
    """Keeps each configuration that a worker ran with, once; none is ever changed."""

    def __init__(self, runner: TransactionRunner) -> None:
        self._runner = runner

    def put(self, config_version: str, body: bytes) -> bool:
        """Keep a configuration; return whether it is new."""
        if self.body(config_version) is not None:
            return False

        def work(tx: Transaction) -> int:
            return tx.execute(
                "insert_config_version", now=tx.now(), config_version=config_version, body=body
            )

        return self._runner.run(work) > 0

    def body(self, config_version: str) -> bytes | None:
        """Return what a version stands for, or None where no worker ran with it here."""
        with self._runner.database.reading() as tx:
            rows = tx.select("config_body", config_version=config_version)
        return bytes(rows[0]["body"]) if rows else None
