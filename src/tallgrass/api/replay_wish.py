"""What somebody wants replayed, in the words of `tallgrass replay`: by body, by query, by form."""

from typing import Annotated

from pydantic import AfterValidator, Field, StringConstraints

from tallgrass.api.bodies import Body, storable
from tallgrass.bootstrap.planning import PlanRequest, request_of
from tallgrass.replay.selection import NAMES_MAX
from tallgrass.replay.selection_file import FILE_BYTES_MAX
from tallgrass.replay.selection_words import Selected, SelectionWords, narrowed, selection_of

_TEXT_MAX = 2100
_WORD_MAX = 200
_LIST_MAX = 200
_NUMBER_MAX = 1_000_000

Text = Annotated[
    str, StringConstraints(min_length=1, max_length=_TEXT_MAX), AfterValidator(storable)
]
Word = Annotated[
    str, StringConstraints(min_length=1, max_length=_WORD_MAX), AfterValidator(storable)
]
#: A plan to the byte: its last line end belongs to it.
PlanText = Annotated[
    str, StringConstraints(min_length=1, max_length=1_000_000, strip_whitespace=False)
]
Pointer = Annotated[Text, StringConstraints(pattern=r"^/")]
Number = Annotated[int, Field(ge=0, le=_NUMBER_MAX)]
WordList = Annotated[list[Word], Field(max_length=_LIST_MAX)]
Names = Annotated[list[Word], Field(max_length=NAMES_MAX)]


class UnitWish(Body):
    """A choice of units, whatever their state."""

    dataset: WordList = Field(default_factory=list)
    bucket_prefix: Text | None = None
    since: Word | None = Field(None, description="data from this time or date on")
    until: Word | None = Field(None, description="data before this time or date")
    event_since: Word | None = None
    event_until: Word | None = None
    created_since: Word | None = None
    created_until: Word | None = None
    wal_id: Names = Field(default_factory=list)
    wal_id_range: Word | None = Field(None, description="FROM..TO")
    message_id: Names = Field(default_factory=list)
    selection_file: Annotated[str, StringConstraints(max_length=FILE_BYTES_MAX)] | None = Field(
        None, description="a saved selection (YAML or JSON), which the other members narrow"
    )

    def words(self) -> SelectionWords:
        """Return it as a selection takes it."""
        return SelectionWords(
            datasets=self.dataset,
            bucket_prefix=self.bucket_prefix,
            since=self.since,
            until=self.until,
            event_since=self.event_since,
            event_until=self.event_until,
            created_since=self.created_since,
            created_until=self.created_until,
            wal_ids=self.wal_id,
            wal_id_range=self.wal_id_range,
            message_ids=self.message_id,
        )

    def selected(self) -> Selected:
        """Return the selection that the words, and a saved one, come to."""
        selection = selection_of(self.words())
        if not self.selection_file:
            return Selected(selection=selection)
        return narrowed(self.selection_file.encode(errors="replace"), selection)


class ReplayWish(UnitWish):
    """A choice of units, by their state too, with the reason and the references of the replay."""

    status: WordList = Field(default_factory=list)
    error_code: WordList = Field(default_factory=list)
    attempts_min: Number | None = None
    attempts_max: Number | None = None
    include_succeeded: bool = Field(default=False, description="needs an approved plan")
    max_events: Annotated[int, Field(ge=1, le=_NUMBER_MAX)] | None = None
    reason: Word | None = Field(None, description="a listed or a registered reason")
    replay_run_id: Word | None = Field(None, description="the run's name; else one is drawn")
    env: Word | None = None
    incident: Word | None = None
    change: Word | None = None
    policy_ref: Word | None = None
    expect_changes: Annotated[list[Pointer], Field(max_length=_LIST_MAX)] = Field(
        default_factory=list
    )
    force: bool = False

    def words(self) -> SelectionWords:
        """Return it as a selection takes it."""
        units = super().words()
        return SelectionWords(
            **{name: getattr(units, name) for name in units.__slots__}
            | {
                "statuses": self.status,
                "error_codes": self.error_code,
                "attempts_min": self.attempts_min,
                "attempts_max": self.attempts_max,
                "include_succeeded": self.include_succeeded,
                "max_events": self.max_events,
            }
        )

    def request(self) -> PlanRequest:
        """Return what a plan is to be made of; a wish that selects nothing is refused."""
        return request_of(
            self.selected(),
            reason=self.reason,
            replay_run_id=self.replay_run_id,
            env=self.env,
            incident_ref=self.incident,
            change_ref=self.change,
            policy_ref=self.policy_ref,
            expected=tuple(self.expect_changes),
            forced=self.force,
        )
