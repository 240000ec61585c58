"""What all units of a batch share: the program, its configuration, its worker and its times."""

import re
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Self

from tallgrass.clock import format_instant
from tallgrass.errors import InvalidInput
from tallgrass.ledger.rules import LedgerRules
from tallgrass.outbox.routing import Routing
from tallgrass.provenance.ids import agent_id
from tallgrass.provenance.prov import Program, Run

#: Names this pipeline in events and provenance.
PIPELINE_ID = "kfm-nodd-ingest"

_NAME_FORM = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainContext:
    """Made once for each worker; `at` gives it the times of a batch."""

    code_version: str
    config_version: str
    worker_id: str
    ingest_run_id: str
    #: When the work on the batch began, and when its outputs were made.
    started_at: datetime
    ended_at: datetime
    pipeline_id: str = PIPELINE_ID
    rules: LedgerRules = field(default_factory=LedgerRules)
    #: Who hears of what.
    routing: Routing = field(default_factory=Routing)
    #: As provenance tells them.
    program: Program = field(init=False)
    run: Run = field(init=False)

    def __post_init__(self) -> None:
        """Refuse a pipeline name that could not stand in an IRI."""
        if not _NAME_FORM.fullmatch(self.pipeline_id):
            raise InvalidInput(f"not a pipeline's name: {self.pipeline_id!r}")
        program = Program(
            agent_id=agent_id(self.pipeline_id),
            code_version=self.code_version,
            config_version=self.config_version,
        )
        run = Run(
            worker_id=self.worker_id,
            ingest_run_id=self.ingest_run_id,
            started_at=format_instant(self.started_at),
            ended_at=format_instant(self.ended_at),
        )
        object.__setattr__(self, "program", program)
        object.__setattr__(self, "run", run)

    def at(self, started_at: datetime, ended_at: datetime) -> Self:
        """Return the same with the times of a batch."""
        return replace(self, started_at=started_at, ended_at=ended_at)
