"""What a format reader answers."""

#: What was found in the bytes (JSON values, small), and the issue codes that were met.
#: Issues: `content_type_invalid` where the bytes are not what the format says, `size_too_small`
#: and `size_too_large` where the object is shorter or longer than it says, `size_zero`.
Verdict = tuple[dict[str, object], tuple[str, ...]]

NOT_THE_FORMAT = "content_type_invalid"
TOO_SHORT = "size_too_small"
TOO_LONG = "size_too_large"
NO_BYTES = "size_zero"


def wrong_start(start: bytes, *magics: bytes) -> str:
    """Return the issue of bytes that do not begin with any of the magics.

    What could still become one is cut off; anything else is another format.
    """
    cut = any(len(start) < len(magic) and magic.startswith(start) for magic in magics)
    return TOO_SHORT if cut else NOT_THE_FORMAT
