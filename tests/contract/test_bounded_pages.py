"""Pages that look through a bounded number of records still meet each wanted one, once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tallgrass.ledger.record_filter import RecordFilter
from tallgrass.ledger.vocabulary import Intent, Status
from tests.contract.scene import Scene
from tests.support.builders import failure, success, unit

if TYPE_CHECKING:
    from tests.support.backends import Backend


@pytest.mark.parametrize("newest_first", [False, True])
def test_a_page_ends_where_it_may_look_no_further_and_the_next_goes_on(
    backend: Backend, *, newest_first: bool
) -> None:
    """One of 12 has the code: pages of 4 records looked at are short, none is left out."""
    scene = Scene(backend)
    for number in range(12):
        claim = scene.claim(unit(number, dataset="hrrr" if number % 2 else "goes-glm"))
        code = "size_zero" if number == 7 else "io_error"
        scene.commit(success(claim) if number in {3, 8} else failure(claim, code))
    wanted = RecordFilter(error_code="size_zero")
    pages, after = [], None
    while True:
        page = scene.stores.reader.page(
            wanted, after=after, size=5, newest_first=newest_first, look_at_most=16
        )
        pages.append([record.last_error_code for record in page.records])
        after = page.next_cursor
        if after is None:
            break
        assert len(pages) < 12
    assert [code for page in pages for code in page] == ["size_zero"]
    assert len(pages) > 1


def test_what_an_index_tells_is_not_bounded(backend: Backend) -> None:
    """Without a code or an intent a page is full, whatever it may look at."""
    scene = Scene(backend)
    for number in range(6):
        scene.commit(failure(scene.claim(unit(number))))
    page = scene.stores.reader.page(RecordFilter(statuses=[Status.FAILED]), size=5, look_at_most=1)
    assert len(page.records) == 5
    assert scene.stores.reader.codes([], look_at_most=4) == {"io_error": 2}
    found = scene.stores.reader.page(RecordFilter(intent=Intent.INGEST), size=9, look_at_most=9000)
    assert len(found.records) == 6
    assert found.next_cursor is None
