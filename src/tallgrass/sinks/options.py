"""The settings of a target, read one by one: wrong, missing and unknown ones are refused.

For sinks of your own too. A secret never stands in the settings: they name the variable or the file
that holds it.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from tallgrass.errors import ConfigError, did_you_mean

#: Of a file with a secret; a larger one is something else.
_SECRET_BYTES_MAX = 65_536


class Options:
    """Settings by name; `done` refuses those that nobody asked for."""

    def __init__(
        self,
        settings: Mapping[str, object],
        *,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self._settings = settings
        self._environment = environment
        self._asked: set[str] = set()

    def text(self, name: str, default: str | None = None) -> str:
        """Return a text; without a default it must be there."""
        value = self._value(name, default)
        if isinstance(value, str) and value:
            return value
        if value is None:
            raise ConfigError(f"{name} is missing")
        raise ConfigError(f"{name} must be text, not {value!r}")

    def optional(self, name: str) -> str | None:
        """Return a text, or None where it is absent."""
        return None if self._value(name, None) is None else self.text(name)

    def word(self, name: str, allowed: tuple[str, ...]) -> str:
        """Return one of several words; the first is the default."""
        value = self.text(name, allowed[0])
        if value not in allowed:
            raise ConfigError(f"{name} must be {' or '.join(allowed)}, not {value!r}")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of texts, also written as one text; none where it is absent."""
        value = self._value(name, [])
        listed = [value] if isinstance(value, str) else value
        if isinstance(listed, list) and all(isinstance(each, str) and each for each in listed):
            return tuple(listed)
        raise ConfigError(f"{name} must be a text or a list of texts, not {value!r}")

    def number(self, name: str, default: float, *, low: float, high: float) -> float:
        """Return a number between two bounds."""
        value = self._value(name, default)
        # Exact types: to Python, true is a number too.
        if (type(value) is int or type(value) is float) and low <= value <= high:
            return float(value)
        raise ConfigError(f"{name} must be between {low:g} and {high:g}, not {value!r}")

    def secrets(self, name: str) -> tuple[str, ...]:
        """Return the secrets that `NAME_env` and `NAME_file` point to; none where both lack.

        Each may be a list: with two secrets one can be replaced while both hold.
        """
        from_variables = [self._variable(each) for each in self.texts(f"{name}_env")]
        from_files = [_content(each) for each in self.texts(f"{name}_file")]
        return (*from_variables, *from_files)

    def secret(self, name: str) -> str | None:
        """Return the one secret that `NAME_env` or `NAME_file` points to, if any."""
        found = self.secrets(name)
        if len(found) > 1:
            raise ConfigError(f"{name}_env and {name}_file: one secret is needed, not {len(found)}")
        return found[0] if found else None

    def done(self) -> None:
        """Refuse a setting that nobody asked for: it is likely mistyped."""
        for name in self._settings:
            if name not in self._asked:
                hint = did_you_mean(name, self._asked)
                raise ConfigError(
                    f"unknown setting {name!r}{hint} (known: {', '.join(sorted(self._asked))})"
                )

    def _value(self, name: str, default: object) -> object:
        self._asked.add(name)
        return self._settings.get(name, default)

    def _variable(self, variable: str) -> str:
        value = self._environment.get(variable, "").strip()
        if not value:
            raise ConfigError(f"the variable {variable}, which is to hold a secret, is not set")
        return value


def _content(name: str) -> str:
    try:
        with Path(name).open(encoding="utf-8") as file:
            text = file.read(_SECRET_BYTES_MAX).strip()
    except (OSError, UnicodeDecodeError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else "it is no text"
        raise ConfigError(f"cannot read the secret file {name}: {reason}") from exc
    if not text:
        raise ConfigError(f"the secret file {name} is empty")
    return text
