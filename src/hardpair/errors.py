"""The one exception that means "the user can fix this", the hint that helps, and words fit for one line."""

import difflib
import math
import reprlib
from collections.abc import Iterable

_NO_MEMORY = ("out of memory", "can't allocate memory", "Storage size calculation overflowed")
_LONGEST = 100  # characters of a word; nobody mistypes a longer one


class UserError(Exception):
    """A mistake in what the user gave us; the command line prints it as one line, without a traceback.

    The message names the field or the file and says what to do. Names of files and words out of them may hold
    line breaks and escape codes; none gets through.
    """

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


def in_words(error: Exception) -> str | None:
    """What the user can fix, in one line; None where the mistake is ours and a traceback is right."""
    if isinstance(error, UserError):
        return str(error)
    if isinstance(error, OSError):  # a full disk, a folder that may not be read
        return printable(f"{error.filename or 'a file'}: {error.strerror or error}")
    if "Connection closed by peer" in str(error) or "Connection reset by peer" in str(error):
        return "another rank exited; see its log, above or on its own machine"
    if no_memory(error):
        return "out of memory; lower batch_size, image_size or width"
    return None


def after_a_stop(verb: str = "") -> str:
    """What Ctrl-C has left behind, in one line."""
    left = {
        **dict.fromkeys(("pretrain", "compare", "ablate"), "; a checkpoint saved before is intact"),
        **dict.fromkeys(("evaluate", "embed"), "; the same command goes on from there"),
    }
    return f"stopped at once{left.get(verb, '')}"


def no_memory(error: Exception) -> bool:
    """Whether it was memory that lacked, the machine's or a GPU's."""
    return isinstance(error, MemoryError) or any(words in str(error) for words in _NO_MEMORY)


def printable(text: str) -> str:
    """One line that any terminal can show: names of files may hold line breaks, escape codes and broken letters."""
    return "".join(char if char.isprintable() else "?" for char in text)


def shown(value: object) -> str:
    """A value out of a file as a message can show it: short, however long or deep it is."""
    text = reprlib.repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def nearest(word: str, choices: Iterable[str]) -> str:
    """ "; did you mean …?", or all the choices where nothing is near."""
    choices = list(choices)
    return near(word, choices) or f"; there are {', '.join(sorted(choices))}"


def near(word: str, choices: Iterable[str]) -> str:
    """ "; did you mean …?", or nothing where nothing is near."""
    found = difflib.get_close_matches(word, list(choices), n=1, cutoff=0.7) if len(word) <= _LONGEST else []
    return f"; did you mean {found[0]}?" if found else ""


def require_range(name: str, value: float, low: float, high: float) -> None:
    """Refuse a setting outside [low, high]."""
    if not low <= value <= high:
        bounds = f"at least {low:g}" if math.isinf(high) else f"between {low:g} and {high:g}"
        raise UserError(f"{name}: must be {bounds}, not {_number(value)}")


def _number(value: float) -> str:
    try:
        return f"{value:g}"
    except OverflowError:  # a whole number of hundreds of digits
        return shown(value)
