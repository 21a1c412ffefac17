"""Check the wording of text: words to avoid, openings of docstrings, and long sentences.

    python scripts/language.py            count by kind and package
    python scripts/language.py --list     also print every finding
    python scripts/language.py --check    print what exceeds a limit, and exit with 1 if any does

Names, docstrings, comments and string literals of src/telic, names and docstrings of the tests, the
documentation, the changelog, the skills of the plugin and the texts of the dashboard are checked
for wording and American spelling. The documentation may not name private modules. Names are split
at underscores and capitals. Words that people type into prompts (lexicon tables) are not checked.
A line with `language: quoted` is skipped.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "telic"
QUOTED = "language: quoted"
LIMITS = {"word": 0, "name": 0, "opening": 0, "sentence": 0}
"""number of allowed findings by kind"""

WORDS = {
    r"anew|afresh": "again, from scratch",
    r"told|tells|telling": "print, emit, state",
    r"heeds?|heeded": "apply, follow",
    r"whoever|whosoever|whatever is": "anyone who",
    r"somebody|nobody": "someone, no one; better a passive or a name",
    r"shall": "must, should, will",
    r"beside": "next to, besides",
    r"hears?|heard": "receive",
    r"goes on|go on|going on|gone on|went on": "continue, resume",
    r"(?:is|are|was) no (?!longer|more\b|less\b|such|need|way)\w+": "is not a ...",
    r"bears|borne|came to|comes to(?! a stop| rest)": "reach, withstand",
    r"puppets?|led by hand": "scripted demonstration",
    r"bad habits?": "failure mode",
    r"films?|filmed": "video",
    r"trembles?|trembling": "vibrate",
    r"witness(?:es)?": "monitor",
    r"memory laws?": "phase variable",
    r"processors": "CPU cores",
    r"what it lacks": "failed criteria",
    r"in part": "partially; partial pass",
    r"of its own accord|of one's own": "by itself",
    r"a thing|things": "artifact, item",
    r"at the first need|at first use": "on first use",
    r"said": "stated, given",
    r"worth is known": "of known quality",
    r"brings? home|brought home": "copy back",
    r"sent back": "rejected, returned",
    r"once more": "again",
    r"twice is once": "repeating it changes nothing",
    r"where one was|who runs it|who (?:goes|falls|stands|jumps)": "a robot that ...",
    r"is to be had|what there is|such as it is": "available",
}
NAMES = {
    r"tell|hear|brings?|brought|farewell|mends?|obeys?|seldom|whom?": "verb or noun of the field",
    r"leaf|habits?|ghosts?|mother|nursery|parcels?|tally": "criterion, failure mode, overlay, ...",
}
"""words to avoid in names, in addition"""
QUOTED_NAMES = {"leaf"}
"""names that code of earlier versions uses"""
SPELLING = {
    r"(?:behavi|neighb|fav|col|hon|flav)ours?|(?:behavi|neighb|fav|col)oured": "-or",
    r"\w*cent(?:re|res|red|ring)|(?:\w*[iok])?met(?:re|res)": "center, meter",
    r"artefacts?|licences?|gr[e]y": "artifact, license, gray",
    r"(?:final|general|initial|local|maxim|minim|normal|optim|penal|quant|random|real|recogn"
    r"|serial|stabil|standard|summar|util|visual)is(?:e|es|ed|er|ers|ing|ation)": "-ize",
    r"analys(?:e|ed|ing)": "analyze",
    r"labell(?:ed|ing)|modell(?:ed|ing)|signall(?:ed|ing)|travell(?:ed|ers?|ing)": "one l",
    r"judgements?": "judgment",
}
"""American spelling in prose and names, not in words that people type into prompts"""
PROMPTS = ("src/telic/composer", "tests/composer")
"""folders with words that people type into prompts, where only names and docstrings are American"""
OPENINGS = re.compile(r"(?:What|Who|Whether|How|Where|Why|That|Which|When|If)\b")
PRIVATE = re.compile(r"\btelic(?:\.\w+)*\._\w+(?:\.\w+)*|(?:\w+/)*(?<!\w)_[a-z]\w*\.py\b")
"""private modules, which documentation does not name"""
LONGEST_SENTENCE = 35
TEXT = (tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", None))


def any_of(words: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern that matches whole words."""
    return re.compile(rf"\b(?:{'|'.join(f'(?:{word})' for word in words)})\b", re.IGNORECASE)


DENIED = any_of(WORDS)
DENIED_IN_NAMES = any_of((*WORDS, *NAMES, *SPELLING))
DENIED_IN_PROSE = any_of((*WORDS, *SPELLING))
AMERICAN = any_of(SPELLING)


class Finding(NamedTuple):
    """Piece of text that should be rewritten."""

    kind: str
    path: Path
    line: int
    text: str

    @property
    def package(self) -> str:
        """Return the package of the source, or the folder of the documentation."""
        parts = self.path.relative_to(ROOT).parts
        return parts[2] if parts[:2] == ("src", "telic") else parts[0]


def denied_words(
    path: Path, line: int, text: str, denied: re.Pattern[str] = DENIED
) -> Iterator[Finding]:
    """Yield the words to avoid in a text."""
    for number, row in enumerate(text.splitlines(), line):
        if QUOTED not in row:
            for match in denied.finditer(row):
                yield Finding("word", path, number, f"{match[0]!r} in: {row.strip()[:90]}")


def long_sentences(path: Path, line: int, text: str) -> Iterator[Finding]:
    """Yield sentences with too many words."""
    for sentence in re.split(r"(?<=[.!?:;])\s+|\n\s*\n|\n\s*[-*|]", text):
        count = len(re.findall(r"[A-Za-z']{2,}", sentence))
        if count > LONGEST_SENTENCE:
            start = line + text[: text.find(sentence)].count("\n")
            yield Finding("sentence", path, start, f"{count} words: {sentence.strip()[:80]} ...")


def documented(nodes: list[ast.AST]) -> Iterator[ast.Constant]:
    """Yield the docstrings of a module and of everything in it."""
    for node in nodes:
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                yield first.value


def defined_names(nodes: list[ast.AST]) -> Iterator[tuple[str, int]]:
    """Yield the names that a module defines, with their lines."""
    for node in nodes:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr, node.lineno


@cache
def denied_in_name(name: str) -> tuple[str, ...]:
    """Return the words to avoid in a name."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|_+", " ", name)
    found = () if name in QUOTED_NAMES else DENIED_IN_NAMES.finditer(words)
    return tuple(match[0] for match in found)


def in_names(path: Path, rows: list[str], nodes: list[ast.AST]) -> Iterator[Finding]:
    """Yield the words to avoid in the names that a module defines."""
    for name, line in [(path.stem, 1), *defined_names(nodes)]:
        for word in denied_in_name(name):
            if not any(QUOTED in row for row in rows[line - 1 : line]):
                yield Finding("name", path, line, f"{word!r} in {name}")


def in_python(path: Path) -> Iterator[Finding]:
    """Yield the findings in a module; in tests, comments and strings are not checked."""
    text = path.read_text()
    rows, nodes = text.splitlines(), list(ast.walk(ast.parse(text)))
    is_test = SOURCE not in path.parents
    yield from in_names(path, rows, nodes)
    for each in documented(nodes):
        if isinstance(each.value, str):
            if is_test:
                yield from denied_words(path, each.lineno, each.value, DENIED_IN_PROSE)
            layout = rf"(?m)^ {{{each.col_offset + 4},}}.*$"  # indented blocks are not sentences
            yield from long_sentences(path, each.lineno, re.sub(layout, "", each.value))
            if OPENINGS.match(each.value):
                first = each.value.splitlines()[0]
                yield Finding("opening", path, each.lineno, first)
    is_prompt = path.relative_to(ROOT).as_posix().startswith(PROMPTS)
    for token in () if is_test else tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in TEXT:
            line, words = token.start[0], token.string.replace("_", " ")
            spelling = () if is_prompt else denied_words(path, line, words, AMERICAN)
            for found in (*denied_words(path, line, token.string), *spelling):
                if QUOTED not in rows[found.line - 1]:
                    yield found


def in_markdown(path: Path) -> Iterator[Finding]:
    """Yield the findings in prose outside of code, and long sentences also outside of tables."""
    text = path.read_text()
    if ROOT / "docs" in path.parents:
        for match in PRIVATE.finditer(text):
            yield Finding("name", path, text[: match.start()].count("\n") + 1, match[0])
    text = re.sub(r"(?ms)^```.*?^```", lambda block: "\n" * block[0].count("\n"), text)
    text = re.sub(r"`[^`\n]*`|\{[{%].*?[}%]\}", "`code`", text)
    yield from denied_words(path, 1, text, DENIED_IN_PROSE)
    prose = "\n".join("" if row.startswith(("|", "    ")) else row for row in text.splitlines())
    yield from long_sentences(path, 1, prose)


def findings() -> Iterator[Finding]:
    """Yield all findings in the order of the files."""
    for path in [*sorted(SOURCE.rglob("*.py")), *sorted((ROOT / "tests").rglob("*.py"))]:
        yield from in_python(path)
    top = ("README.md", "AGENTS.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "llms.txt")
    pages = [*(ROOT / name for name in top), *sorted((ROOT / "docs").rglob("*.md"))]
    for path in [*pages, *sorted(SOURCE.rglob("*.md"))]:
        yield from in_markdown(path)
    for path in sorted((ROOT / "web" / "src").rglob("*.ts*")):
        if not path.name.startswith("schema."):  # generated
            yield from denied_words(path, 1, path.read_text(), DENIED_IN_PROSE)
    for path in sorted(SOURCE.rglob("*.toml")):
        if not {"tables", "suites"} & set(path.parts):  # prompts
            yield from denied_words(path, 1, path.read_text().replace("_", " "), AMERICAN)


def main() -> None:
    """Print the number of findings."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--list", action="store_true", help="print every finding")
    parser.add_argument("--check", action="store_true", help="print only what exceeds a limit")
    options = parser.parse_args()
    found = list(findings())
    counts = Counter(each.kind for each in found)
    if options.list:
        for each in found:
            print(f"{each.path.relative_to(ROOT)}:{each.line}: {each.kind}: {each.text}")
    if options.check:
        sys.exit(
            "\n".join(
                f"{kind}: {counts[kind]}, more than {limit} (python scripts/language.py --list)"
                for kind, limit in LIMITS.items()
                if counts[kind] > limit
            )
            or None
        )
    by_package = Counter((each.package, each.kind) for each in found)
    print(f"{'':<14}" + "".join(f"{kind:>10}" for kind in LIMITS))
    for package in sorted({each.package for each in found}):
        print(f"{package:<14}" + "".join(f"{by_package[package, kind]:>10}" for kind in LIMITS))
    print(f"{'all':<14}" + "".join(f"{counts[kind]:>10}" for kind in LIMITS))


if __name__ == "__main__":
    main()
