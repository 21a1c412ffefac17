"""Take a shell line apart into the commands it would start; reads text, runs nothing.

No shell grammar is complete here, and none has to be: this is the second fence, not the gate.
Only the standard library, since a host waits for it at every shell command.
"""

from __future__ import annotations

import re
import shlex

_OPERATORS = "();<>|&\n`"
_HEREDOC = re.compile(r"<<-?\s*(['\"]?)(\w+)\1([^\n]*)\n(.*?)^\s*\2\s*$", re.DOTALL | re.MULTILINE)
_ASSIGNMENT = re.compile(r"\w+=.*", re.DOTALL)
_SUBSTITUTION = re.compile(r"\$\(([^()]*)\)|`([^`]*)`")
SHELLS = frozenset({"sh", "bash", "zsh", "dash", "ksh", "fish"})


def simple_commands(line: str) -> list[list[str]]:
    """Return the words of every command of a shell line, also of those inside $(...)."""
    text, fed = _without_heredocs(line.replace("\\\n", " "))
    commands = _split(_words(text))
    for body in fed:
        commands += simple_commands(body)
    inner = [
        inside
        for words in commands
        for word in words
        for pair in _SUBSTITUTION.findall(word)
        for inside in pair
        if inside
    ]
    return commands + [command for inside in inner for command in simple_commands(inside)]


def program(words: list[str]) -> str:
    """Return the bare name of what a command starts."""
    return words[0].rsplit("/", 1)[-1] if words else ""


def _without_heredocs(text: str) -> tuple[str, list[str]]:
    """Return the text without here-documents, and those of them that a shell is fed."""
    fed: list[str] = []

    def cut(match: re.Match[str]) -> str:
        before = text[: match.start()].rpartition("\n")[2]
        if set(re.findall(r"\w+", before + match[3])) & SHELLS:
            fed.append(match[4])
        return match[3] + "\n"

    return _HEREDOC.sub(cut, text), fed


def _words(text: str) -> list[str]:
    lexer = shlex.shlex(text, posix=True, punctuation_chars=_OPERATORS)
    lexer.whitespace, lexer.commenters, lexer.whitespace_split = " \t\r", "", True
    try:
        return list(lexer)
    except ValueError:  # a quote that is never closed: look at the bare words instead
        return re.findall(rf"[{re.escape(_OPERATORS)}]|[^\s\"'{re.escape(_OPERATORS)}]+", text)


def _split(words: list[str]) -> list[list[str]]:
    commands: list[list[str]] = [[]]
    is_comment = is_file = False
    for word in words:
        if word and all(letter in _OPERATORS for letter in word):
            is_comment = is_comment and "\n" not in word
            is_file = set(word) <= {"<", ">", "&"} and word not in ("&", "&&")
            if not is_file:
                commands.append([])
        elif is_file:
            is_file = False  # where output goes, not part of the command
        elif is_comment or word.startswith("#"):
            is_comment = True
        elif commands[-1] or not _ASSIGNMENT.fullmatch(word):
            commands[-1].append(word)
    return [command for command in commands if command]
