"""Bodies of writes: no unknown members, and only texts that both databases can store."""

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints

_WORDS_MAX = 1000


class Body(BaseModel):
    """What a write sends; a member that it does not know is refused, not passed over."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True)


def storable(text: str) -> str:
    """Return a text that both databases can keep; any other is refused."""
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        message = "a NUL or half a character"
        raise ValueError(message)
    return text


#: A file or a message as it is: blanks at its ends belong to it.
Exact = Annotated[str, StringConstraints(strip_whitespace=False)]
#: A reason, a note: some words, never none.
Words = Annotated[
    str, StringConstraints(min_length=1, max_length=_WORDS_MAX), AfterValidator(storable)
]
