"""Words from outside (names of files, messages of libraries), made fit for one line of a message."""


def printable(text: str) -> str:
    """One line that any terminal can show: names of files may hold line breaks, escape codes and broken letters."""
    return "".join(char if char.isprintable() else "?" for char in text)
