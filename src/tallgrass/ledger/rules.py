"""The ledger's limits and policies, with the exceptions that a dataset was granted."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tallgrass.errors import ConfigError, InvalidInput
from tallgrass.governance.policy import Overwrite
from tallgrass.ledger.record import CANONICAL_NAMES
from tallgrass.ledger.replay_reasons import CustomReason
from tallgrass.ledger.unit import PROVIDERS
from tallgrass.retry import Backoff

#: What the specification suggests for the limit of attempts, and what is accepted.
MAX_ATTEMPTS_RANGE = range(2, 101)

_EXTENSION_FORM = re.compile(r"ext_[a-z][a-z0-9_]{0,59}")


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetException:
    """What one dataset is allowed to do differently, and by which approval."""

    dataset: str
    approval_ref: str
    max_attempts: int | None = None
    #: Whether provenance `partial`, and integrity or metadata `suspect`, still make a success.
    allow_partial: bool | None = None
    allow_suspect: bool | None = None
    #: Whether an overwritten source object is ingested again.
    reingest: bool | None = None

    def __post_init__(self) -> None:
        """Refuse an exception that nobody approved."""
        if not self.approval_ref.strip():
            raise ConfigError(
                f"ledger.exceptions.{self.dataset}: an exception needs an approval_ref",
                code="exception_without_approval",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRules:
    """What holds for every dataset, unless an exception says otherwise."""

    max_attempts: int = 8
    backoff: Backoff = field(default_factory=lambda: Backoff(base_s=5.0, cap_s=900.0))
    allow_partial: bool = True
    allow_suspect: bool = True
    reingest: bool = True
    providers: frozenset[str] = PROVIDERS
    custom_reasons: Mapping[str, CustomReason] = field(default_factory=dict)
    exceptions: Mapping[str, DatasetException] = field(default_factory=dict)
    #: What policies say of overwritten objects, by dataset.
    overwrites: Mapping[str, Overwrite] = field(default_factory=dict)
    #: Declared extension fields by dataset.
    extensions: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse limits out of range and extension names that collide."""
        for where, limit in self._limits():
            if limit not in MAX_ATTEMPTS_RANGE:
                low, high = MAX_ATTEMPTS_RANGE.start, MAX_ATTEMPTS_RANGE.stop - 1
                raise ConfigError(f"{where}: {limit} is not between {low} and {high}")
        for dataset, names in self.extensions.items():
            require_extension_names(dataset, names)

    def max_attempts_of(self, dataset: str) -> int:
        """Return how many attempts a unit of the dataset has since its `budget_from`."""
        exception = self.exceptions.get(dataset)
        return (exception and exception.max_attempts) or self.max_attempts

    def allows_partial(self, dataset: str) -> bool:
        """Tell whether partial provenance still makes a success."""
        return self._granted(dataset, "allow_partial", default=self.allow_partial)

    def allows_suspect(self, dataset: str) -> bool:
        """Tell whether a suspect integrity or metadata result still makes a success."""
        return self._granted(dataset, "allow_suspect", default=self.allow_suspect)

    def reingests(self, dataset: str) -> bool:
        """Tell whether an overwritten object of the dataset is ingested again."""
        policy = self.overwrites.get(dataset)
        default = self.reingest if policy is None else policy is Overwrite.REINGEST
        return self._granted(dataset, "reingest", default=default)

    def keeps_for_approval(self, dataset: str) -> bool:
        """Tell whether an overwritten object waits for a replay with an approval."""
        return not self.reingests(dataset) and self.overwrites.get(dataset) is Overwrite.APPROVE

    def require_extensions(self, dataset: str, extensions: Mapping[str, object]) -> None:
        """Refuse extension fields that the dataset did not declare."""
        undeclared = sorted(set(extensions) - self.extensions.get(dataset, frozenset()))
        if undeclared:
            require_extension_names(dataset, undeclared)
            raise InvalidInput(
                f"{dataset}: {', '.join(undeclared)} is not declared; "
                f"add it to ledger.extensions.{dataset}",
                code="extension_collides",
            )

    def _granted(self, dataset: str, rule: str, *, default: bool) -> bool:
        exception = self.exceptions.get(dataset)
        granted = None if exception is None else getattr(exception, rule)
        return default if granted is None else bool(granted)

    def _limits(self) -> Iterable[tuple[str, int]]:
        yield "ledger.max_attempts", self.max_attempts
        for dataset, exception in self.exceptions.items():
            if exception.max_attempts is not None:
                yield f"ledger.exceptions.{dataset}.max_attempts", exception.max_attempts


def require_extension_names(dataset: str, names: Iterable[str]) -> None:
    """Refuse names that collide with a canonical field or lack the prefix ``ext_``."""
    for name in names:
        if not _EXTENSION_FORM.fullmatch(name):  # no canonical name has that form
            why = (
                "is a canonical field" if name in CANONICAL_NAMES else "is not of the form ext_name"
            )
            raise ConfigError(
                f"ledger.extensions.{dataset}: {name!r} {why}", code="extension_collides"
            )
