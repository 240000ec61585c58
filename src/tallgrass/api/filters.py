"""Filters that several lists share."""

from typing import Annotated, Final

from fastapi import Query

TEXT_MAX: Final = 200

Text = Annotated[str | None, Query(max_length=TEXT_MAX)]
Names = Annotated[list[str], Query(max_length=50, description="repeatable")]
