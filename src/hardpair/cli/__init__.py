"""The command line: one file per verb, which holds its options, its help and one call of the API.

Heavy imports wait until a verb has read its options, so that help and errors answer at once.
"""

import importlib
import io
import logging
import os
import signal
import sys
from collections.abc import Sequence

from hardpair.errors import UserError, after_a_stop, in_words, nearest

VERBS = {
    "pretrain": ("[RECIPE] [--field value …]", "train an encoder; without RECIPE, the demo on bundled photos"),
    "plan": ("[RECIPE] [--gpus N …]", "what that will need: work, memory, disk, time; nothing is run"),
    "evaluate": ("RUN [--protocol …]", "score its encoder, and a randomly initialised one of the same shape"),
    "report": ("RUN", "tables, curves and one page to look at"),
    "embed": ("ENCODER IMAGES --out EMB", "a vector per image, for the verbs below that take EMB"),
    "search": ("EMB QUERY … [-k 10]", "the nearest images: by picture, name, folder or another EMB"),
    "map": ("EMB [--out PAGE]", "all pictures on one page to zoom into, search and pick from"),
    "clean": ("EMB [--keep-list LIST]", "duplicates, leaks between splits, outliers, likely label errors"),
    "select": ("EMB [--count 100]", "which images to label first: typical, covering or uncertain ones"),
    "classify": ("EMB [--labels CSV]", "a class for every picture from labels of some, and a head for new ones"),
    "export": ("ENCODER --to FORM --out DIR", "the encoder for timm, torchvision, Hugging Face, ONNX or plain torch"),
    "compare": ("--methods …", "methods side by side under the same conditions, one table and figure"),
    "ablate": ("tau|mining|gradient", "the paper's ablations, over seeds, one table and figure each"),
    "recipes": ("[NAME]", "what can be trained, by name"),
    "pack": ("PHOTOS PACKED", "decode a set too large for memory once; then --data PACKED"),
    "doctor": ("[--data …]", "check this machine and a data set"),
}
"""Each is a module of this package with a function ``main(arguments) -> exit code``."""

IN_SEVERAL_PROCESSES = ("pretrain", "evaluate", "embed")


def main() -> None:
    """Run a verb; a user's mistake is one line and exit code 2."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # names of files need not be text
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
    try:
        try:
            sys.exit(run_verb(sys.argv[1:]))
        finally:
            sys.stdout.flush()  # here and not at exit, where nobody could catch what comes of it
    except KeyboardInterrupt:
        print(f"hardpair: {after_a_stop(*sys.argv[1:2])}", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:  # `| head` has seen enough; nothing is wrong
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + signal.SIGPIPE)
    except (UserError, OSError, MemoryError, RuntimeError) as error:
        if (words := in_words(error)) is None:
            raise
        print(f"hardpair: {words}", file=sys.stderr)
        sys.exit(2)


def run_verb(words: Sequence[str]) -> int:
    """Do what the first word says, with the others; returns the exit code."""
    if not words or words[0] in ("-h", "--help"):
        print(usage())
        return 0 if words else 2
    verb, *arguments = words
    if verb == "--version":
        from hardpair import __version__

        print(f"hardpair {__version__}")
        return 0
    if verb not in VERBS:
        raise UserError(f"there is no verb {verb!r}{nearest(verb, VERBS)}")
    # What torchrun says, read here: the module that knows about it takes seconds to import.
    if verb not in IN_SEVERAL_PROCESSES and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise UserError(f"{verb}: works in one process; start it without torchrun")
    code: int = importlib.import_module(f"hardpair.cli.{verb}").main(arguments)
    return code


def usage() -> str:
    """What `hardpair --help` prints."""
    lines = [f"  {f'hardpair {verb} {arguments}':47} {purpose}" for verb, (arguments, purpose) in VERBS.items()]
    return "\n".join(
        [
            "hardpair: learn image representations without labels, and prove how good they are\n",
            *lines,
            "\nEach verb explains itself: hardpair pretrain --help",
        ]
    )
