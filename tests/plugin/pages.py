"""Commands shown in the pages of the plugin."""

import re
import shlex

_BLOCK = re.compile(r"^([ ]*)```(\w*)\n(.*?)^\1```\s*$", re.DOTALL | re.MULTILINE)
_CODE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_ASSIGNMENT = re.compile(r"[A-Z_]+=\S*")


def commands(text: str) -> list[str]:
    """Return the shell lines of a page: those in sh blocks, and telic commands in the prose."""
    bodies = [body for _, language, body in _BLOCK.findall(text) if language == "sh"]
    shown = [line.strip() for body in bodies for line in body.splitlines() if line.strip()]
    spans = _CODE.findall(_BLOCK.sub("", text))
    return shown + [span for span in spans if program_words(span)[:1] == ["telic"]]


def program_words(line: str) -> list[str]:
    """Return the words of a command without the variables set before it."""
    words = shlex.split(line)
    while words and _ASSIGNMENT.fullmatch(words[0]):
        words = words[1:]
    return words
