"""Reading a table of a data file: each value by its type, each mistake with its place and a fix."""

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from enum import StrEnum
from typing import Any, TypeVar

from tallgrass.errors import ConfigError, did_you_mean

_Word = TypeVar("_Word", bound=StrEnum)

#: The code of a file that cannot be used.
INVALID = "dataset_invalid"


def nearest_or_all(name: str, known: Iterable[str]) -> str:
    """Return ``; did you mean …?`` for a mistyped name, else what there is to choose from."""
    names = list(dict.fromkeys(map(str, known)))
    allowed = f"; allowed are {', '.join(names)}" if names else ""
    return did_you_mean(name, names) or allowed


class Table:
    """A table of the file. What was not asked for by the end is an unknown field."""

    def __init__(self, values: Mapping[str, Any], place: str, path: str = "") -> None:
        self._values = values
        self._place = place
        self._path = path
        self._asked: list[str] = []

    def refusal(self, field: str, problem: str) -> ConfigError:
        """Return the error that names file, field and problem."""
        where = ".".join(part for part in (self._path, field) if part)
        return ConfigError(f"{self._place}: {where}: {problem}", code=INVALID)

    def has(self, field: str) -> bool:
        """Tell whether the table has the field."""
        return self._known(field)

    def text(self, field: str, default: str | None = None) -> str:
        """Return a text that is not empty."""
        value = self._get(field, default)
        if not isinstance(value, str) or not value.strip():
            raise self.refusal(field, f"must be a text, not {value!r}")
        return value

    def optional_text(self, field: str) -> str | None:
        """Return a text, or None where the field is absent."""
        return self.text(field) if self._known(field) else None

    def texts(self, field: str, default: list[str] | None = None) -> tuple[str, ...]:
        """Return a list of texts without repetition."""
        value = self._get(field, default)
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise self.refusal(field, f"must be a list of texts, not {value!r}")
        if len(set(value)) != len(value):
            raise self.refusal(field, f"names something twice: {value!r}")
        return tuple(value)

    def whole(self, field: str, default: int | None = None) -> int:
        """Return a whole number that is not negative."""
        value = self._get(field, default)
        if type(value) is not int or value < 0:
            raise self.refusal(field, f"must be a whole number from 0, not {value!r}")
        return value

    def integer(self, field: str, default: int) -> int:
        """Return a whole number of either sign."""
        value = self._get(field, default)
        if type(value) is not int:
            raise self.refusal(field, f"must be a whole number, not {value!r}")
        return value

    def formed(self, field: str, form: re.Pattern[str], meaning: str) -> str:
        """Return a text of a form, which `meaning` describes."""
        text = self.text(field)
        if not form.fullmatch(text):
            raise self.refusal(field, f"must be {meaning}, not {text!r}")
        return text

    def positive(self, field: str, unit: str) -> float:
        """Return a positive number."""
        value = self._get(field, None)
        if type(value) not in {int, float} or not 0 < value <= sys.float_info.max:
            raise self.refusal(field, f"must be a number of {unit} above 0, not {value!r}")
        return float(value)

    def flag(self, field: str, *, default: bool) -> bool:
        """Return true or false."""
        value = self._get(field, default)
        if not isinstance(value, bool):
            raise self.refusal(field, f"must be true or false, not {value!r}")
        return value

    def word(self, field: str, vocabulary: type[_Word]) -> _Word:
        """Return a member of a closed vocabulary."""
        text = self.text(field)
        try:
            return vocabulary(text)
        except ValueError:
            hint = nearest_or_all(text, vocabulary)
            raise self.refusal(field, f"unknown word {text!r}{hint}") from None

    def choice(self, field: str, allowed: Iterable[str]) -> str:
        """Return one of the allowed texts."""
        text, names = self.text(field), list(allowed)
        if text not in names:
            raise self.refusal(field, f"unknown word {text!r}{nearest_or_all(text, names)}")
        return text

    def pattern(self, field: str) -> re.Pattern[str]:
        """Return a regular expression; blanks and line breaks in it mean nothing."""
        source = self.text(field)
        try:
            return re.compile(source.strip(), re.VERBOSE | re.ASCII)
        except re.error as exc:
            raise self.refusal(field, f"not a regular expression: {exc}") from exc

    def table(self, field: str) -> "Table":
        """Return a table that must be there."""
        value = self._get(field, None)
        if not isinstance(value, dict):
            raise self.refusal(field, f"must be a table, not {value!r}")
        return Table(value, self._place, f"{self._path}.{field}".lstrip("."))

    def optional_table(self, field: str) -> "Table | None":
        """Return a table, or None where it is absent."""
        return self.table(field) if self._known(field) else None

    def tables(self, field: str) -> Iterator["Table"]:
        """Yield the tables of a list, counted from 1."""
        value = self._get(field, [])
        if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
            raise self.refusal(field, "must be a list of tables, each opened by [[…]]")
        for number, one in enumerate(value, start=1):
            yield Table(one, self._place, f"{self._path}.{field}[{number}]".lstrip("."))

    def names(self) -> Iterator[str]:
        """Yield the fields of a table whose names are free, and count them as asked for."""
        self._asked += self._values
        yield from self._values

    def value(self, field: str) -> Any:
        """Return a value as it stands."""
        return self._get(field, None)

    def may_have(self, fields: Iterable[str]) -> None:
        """Name fields that are known, whether they are there or not."""
        self._asked += fields

    def close(self) -> None:
        """Refuse fields that nothing asked for."""
        for field in self._values:
            if field not in self._asked:
                raise self.refusal(field, f"unknown field{nearest_or_all(field, self._asked)}")

    def _known(self, field: str) -> bool:
        self._asked.append(field)
        return field in self._values

    def _get(self, field: str, default: Any) -> Any:
        if not self._known(field):
            if default is not None:
                return default
            unknown = [name for name in self._values if name not in self._asked]
            close = get_close_matches(field, unknown, n=1, cutoff=0.5)
            hint = f"; is {close[0]!r} meant for it?" if close else ""
            raise self.refusal(field, f"is missing{hint}")
        return self._values[field]
