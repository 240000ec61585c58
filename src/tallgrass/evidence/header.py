"""What a format reader sees of an object, and what it answers."""

from collections.abc import Callable
from dataclasses import dataclass

#: What was found in the bytes (JSON values, small), and the issue codes that were met.
#: Issues: `content_type_invalid` where the bytes are not what the format says, `size_too_small`
#: and `size_too_large` where the object is shorter or longer than it says, `size_zero`.
Verdict = tuple[dict[str, object], tuple[str, ...]]

NOT_THE_FORMAT = "content_type_invalid"
TOO_SHORT = "size_too_small"
TOO_LONG = "size_too_large"
NO_BYTES = "size_zero"

#: Names in the header what was not read, because this installation has no reader of it.
UNREAD = "unread"
ATTRIBUTES = "attributes"

#: Reads so many bytes from a position of the object, in the version that head and tail are of.
Ranges = Callable[[int, int], bytes]


@dataclass(frozen=True, slots=True)
class Seen:
    """What can be seen of an object of `size` bytes: its head and tail, which may overlap.

    With `more` any of its bytes can, and a reader may look wherever the format points to.
    """

    head: bytes
    tail: bytes
    size: int
    more: Ranges | None = None

    def at(self, position: int, length: int) -> bytes | None:
        """Return the bytes from a position, fewer at the object's end; None if they are unseen."""
        stop = min(position + length, self.size)
        if stop <= len(self.head):
            return self.head[position:stop]
        tail_start = self.size - len(self.tail)
        if position >= tail_start:
            return self.tail[position - tail_start : stop - tail_start]
        return None if self.more is None else self.more(position, stop - position)

    def content(self, length_max: int) -> bytes | None:
        """Return the whole object, if all of it can be seen and it is no longer than that."""
        if self.size > length_max:
            return None
        return self.at(0, self.size)


def wrong_start(start: bytes, *magics: bytes) -> str:
    """Return the issue of bytes that do not begin with any of the magics.

    What could still become one is cut off; anything else is another format.
    """
    cut = any(len(start) < len(magic) and magic.startswith(start) for magic in magics)
    return TOO_SHORT if cut else NOT_THE_FORMAT
