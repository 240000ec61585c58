"""Turns a page's form into the body that the API takes, with the same checks."""

from typing import Any, TypeVar

from pydantic import ValidationError

from tallgrass.api.bodies import Body
from tallgrass.errors import InvalidInput

_ERRORS_MAX = 5

_Body = TypeVar("_Body", bound=Body)


def body_of(kind: type[_Body], **fields: Any) -> _Body:
    """Return the body of these fields; what the API would refuse is refused."""
    try:
        return kind.model_validate(fields)
    except ValidationError as exc:
        told = [
            f"{'.'.join(str(part) for part in each['loc'])}: {each['msg']}"
            for each in exc.errors()[:_ERRORS_MAX]
        ]
        raise InvalidInput("; ".join(told)) from None
