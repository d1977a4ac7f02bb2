"""What mkdocs does beyond Markdown: reference pages from the code, and TeX as MathML, which needs no script.

A page asks for a part by ``<!-- generated: NAME -->``; NAME is a key of GENERATED.
"""

import contextlib
import inspect
import io
import os
import re
import sys
from collections.abc import Callable, Iterator
from html import escape, unescape
from typing import Any

MARK = re.compile(r"<!-- generated: (\w+) -->")
TEX = re.compile(r'<(div|span) class="arithmatex">(?:\\\[|\\\()(.*?)(?:\\\]|\\\))</\1>', re.DOTALL)
ANSI = re.compile(r"\x1b\[[0-9;]*m")
DEFAULT = re.compile(r" ?\((?:default: ?(.*)|(required))\)$")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put generated parts where a page asks for them."""
    return MARK.sub(lambda mark: GENERATED[mark[1]](), markdown)


def on_page_content(html: str, **_: Any) -> str:
    """TeX → MathML."""
    return TEX.sub(_mathml, html)


def _mathml(found: re.Match[str]) -> str:
    from latex2mathml.converter import convert  # here, so that tests of the rest need not have it

    display = "block" if found[1] == "div" else "inline"
    math = convert(unescape(found[2]).strip(), display=display)
    return f'<div class="equation">{math}</div>' if display == "block" else math


def command_line() -> str:
    """A section for each verb, from its --help."""
    from hardpair.cli import VERBS

    seen: dict[str, str] = {}
    return "\n".join(line for verb in VERBS for line in (f"## hardpair {verb}\n", *_verb(verb, seen), ""))


def _verb(verb: str, seen: dict[str, str]) -> Iterator[str]:
    """Usage and description as they are, options as tables; a table that another verb had is only named."""
    text = help_text(verb)
    opening, *boxes = re.split(r"^╭─ (.*?) ─*╮\n", text, flags=re.MULTILINE)
    usage, _, description = opening.partition("\n\n")
    yield f"```text\n{usage.removeprefix('usage: ')}\n```\n"
    yield _paragraphs(description)
    options = 0
    for title, box in zip(boxes[::2], boxes[1::2], strict=True):
        about, rows = _box(box)
        rows = [row for row in rows if not row[0].startswith("-h")]
        options += len(rows)
        if not rows:
            continue
        if box in seen:
            yield f"\n**{title.capitalize()}**: as for [hardpair {seen[box]}](#hardpair-{seen[box]}).\n"
            continue
        seen[box] = verb
        yield f"\n**{title.capitalize()}.** {_linked(about)}\n" if about else f"\n**{title.capitalize()}**\n"
        yield "| option | what it is | default |\n|---|---|---|"
        for name, what, default in rows:
            yield f"| {_code(name)} | {_cell(what)} | {_code(default)} |"
    if not options or "──" in description:
        raise RuntimeError(f"hardpair {verb} --help: its boxes of options were not understood")


def help_text(verb: str) -> str:
    """What ``hardpair VERB --help`` prints on a terminal that has room for one column of boxes."""
    from hardpair.cli import run_verb

    printed = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")  # tyro draws its boxes by what the encoding has
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "90"
    try:
        with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
            run_verb([verb, "--help"])
    finally:
        os.environ.pop("COLUMNS") if before is None else os.environ.update(COLUMNS=before)
    printed.seek(0)
    return ANSI.sub("", printed.read())


def _box(box: str) -> tuple[str, list[tuple[str, str, str]]]:
    """What a box of options says of itself, and (option, what it is, default) of each."""
    lines = [line[2:].rstrip(" │") for line in box.splitlines() if line.startswith("│")]
    rule = next((place for place, line in enumerate(lines) if set(line) == {"─"}), -1)
    about = " ".join(lines[: rule + 1 and rule])
    rows: list[list[str]] = []
    for line in lines[rule + 1 :]:
        name, _, what = line.partition("  ")
        if rows and rows[-1][0].count("{") > rows[-1][0].count("}"):  # a long list of choices goes on
            rows[-1][0] += line
        elif line.startswith(" "):
            rows[-1][1] = f"{rows[-1][1]} {line.strip()}".strip()
        else:
            rows.append([name, what.strip()])
    found = [(name, what, DEFAULT.search(what)) for name, what in rows]
    return about, [
        (name, DEFAULT.sub("", what), "" if default is None else default[1] or default[2] or "")
        for name, what, default in found
    ]


def _paragraphs(text: str) -> str:
    """Plain text as Markdown: indented blocks stay as they are, everything else is prose."""
    blocks = re.split(r"\n\s*\n", text.strip("\n"))
    return "\n\n".join(
        f"```text\n{inspect.cleandoc(block)}\n```" if block.startswith("    ") else _linked(block) for block in blocks
    )


def _linked(prose: str) -> str:
    """Names of pages as links, options and marks that Markdown would swallow as code."""
    prose = re.sub(r"docs/((?:explanation|how-to|reference)/)?(\w+)\.md", _page, prose)
    return re.sub(r"(?<![`\w-])(--[a-z][\w-]*)", r"`\1`", prose)


def _page(found: re.Match[str]) -> str:
    folder, name = found[1] or "", found[2]
    return f"[{name}](../{folder}{name}.md)"


def _cell(text: str) -> str:
    return _linked(escape(text, quote=False)).replace("|", "\\|")


def _code(text: str) -> str:
    """Text as code that may break between words and after commas, so that tables fit a phone."""
    if text in ("", "None"):
        return ""
    text = re.sub(r"(\.\d{4})\d{9,}", r"\1…", text.replace("{None}|", ""))
    broken = escape(text).replace("|", "&#124;").replace(",", ",<wbr>").replace("*", "&#42;").replace("_", "&#95;")
    return f"<code>{broken}</code>"


def recipes() -> str:
    """A table for each family, and the whole description of every recipe."""
    from hardpair.recipes import RECIPES, describe_recipe

    families: dict[str, list[str]] = {}
    for name in RECIPES:
        families.setdefault(name.partition("/")[0], []).append(name)
    parts = []
    for family, names in families.items():
        parts.append(f"## {family}\n\n| recipe | encoder | epochs | batch | what it is | cost | score |")
        parts.append("|---|---|---:|---:|---|---|---|")
        for name in names:
            recipe, about = RECIPES[name], _described(describe_recipe(name))
            encoder = f"{recipe.encoder}, width {recipe.width:g}{', SK' * recipe.sk}"
            words = " | ".join(_cell(about[key]) for key in ("what", "Cost", "Score"))
            parts.append(f"| `{name}` | {encoder} | {recipe.epochs} | {recipe.batch_size} | {words} |")
        parts.append("")
    return "\n".join(parts)


def _described(text: str) -> dict[str, str]:
    """What it is, Command, Cost and Score of a recipe's description."""
    what, *fields = re.split(r"^(Command|Cost|Score):\s*", text, flags=re.MULTILINE)
    found = {"what": what, "Cost": "", "Score": "", **dict(zip(fields[::2], fields[1::2], strict=True))}
    return {name: " ".join(words.split()) for name, words in found.items()}


def methods() -> str:
    """The registry, with the first line of each file."""
    from hardpair import METHODS

    rows = ["| name | class | what it is |", "|---|---|---|"]
    for name, method in METHODS.items():
        about = (inspect.getdoc(sys.modules[method.__module__]) or "").splitlines()[0]
        rows.append(f"| `{name}` | `{method.__name__}` | {_cell(about)} |")
    return "\n".join(rows)


GENERATED: dict[str, Callable[[], str]] = {"cli": command_line, "recipes": recipes, "methods": methods}
