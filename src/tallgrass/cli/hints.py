"""What to do about units and letters that a replay or a drain leaves alone."""

from collections.abc import Mapping

from tallgrass.replay.plan import SkipReason


def hint_lines(reasons: Mapping[str, int], flag: str) -> list[str]:
    """Return a line for people where a flag would take up what was left alone."""
    code = SkipReason.CODE_NOT_REPLAYED.value
    if not reasons.get(code):
        return []
    told = f"mend the cause, then name its code: {flag} CODE (tallgrass explain {code})"
    return [f"what to do: {told}"]
