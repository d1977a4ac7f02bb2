"""The one exception that means "the user can mend this", and the hint that helps."""

import difflib
import math
from collections.abc import Iterable


class UserError(Exception):
    """A mistake in what the user gave us; the command line prints it as one line, without a traceback.

    The message names the field or the file and says what to do.
    """


def nearest(word: str, choices: Iterable[str]) -> str:
    """ "; did you mean …?", or all the choices where nothing is near."""
    choices = list(choices)
    near = difflib.get_close_matches(word, choices, n=1)
    return f"; did you mean {near[0]}?" if near else f"; there are {', '.join(sorted(choices))}"


def require_range(name: str, value: float, low: float, high: float) -> None:
    """Refuse a setting outside [low, high]."""
    if not low <= value <= high:
        bounds = f"at least {low:g}" if math.isinf(high) else f"between {low:g} and {high:g}"
        raise UserError(f"{name}: must be {bounds}, not {value:g}")
