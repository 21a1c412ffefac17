"""Hostile command lines, made from the catalogue of verbs and the fields of their requests."""

import os
import random
import socket
from pathlib import Path

from telic.verbs.catalogue import VERBS, VerbGroup, load_verb

LEFT_OUT = {
    "robots sheet",
    "doctor",
    "mcp serve",
    "serve",
}
"""those that read standard input, or look at the whole machine"""
WORDS = (
    *("", " ", "-", "--", "-1", "0", "1", "nan", "NaN", "inf", "-inf", "1e400", "9" * 400, "1e18"),
    *("1-1000000000", "3-1", "1,,2", "1,2,x", "a=b", "=", "a=", "=b", "gamma=nan", "gamma=[[[["),
    *("x" * 300, "../../planted", "/", ".", "..", "~", "~nobody", "-rf", "--help=1", "\x1b[31mred"),
    *("\u202egnp.exe", "\x07", "a\nb", "\r", "\t", "latest", "halted", "hal", "damaged", "true"),
    *("CartPole-v1", "InvertedPendulum-v5", "HalfCheetah-v5", "module:Class", "no.py:Class", "{}"),
    *("[bold]x[/]", "[/]", "%s%n", "'; rm -rf /", "$(id)", "é" * 100, "😀", "\ud800", "\x00", "1M"),
)


def odd_files(folder: Path) -> list[str]:
    """Make files that are none, and return their paths."""
    folder.mkdir(exist_ok=True)
    os.mkfifo(folder / "pipe")
    listener = socket.socket(socket.AF_UNIX)
    here = os.getcwd()
    os.chdir(folder)  # the name of a socket may have 108 letters
    listener.bind("socket")
    os.chdir(here)
    listener.close()
    (folder / "list.json").write_text("[1, 2]")
    (folder / "deep.json").write_text("[" * 5000)
    (folder / "binary.py").write_bytes(b"\xff\xfe\0")
    (folder / "wrong.xml").write_text("<mujoco><worldbody><body")
    (folder / "wrong.toml").write_text("a = [[[")
    (folder / "wrong.yaml").write_text("a: [b")
    (folder / "loop").symlink_to("loop")
    with (folder / "huge").open("wb") as huge:
        huge.truncate(1 << 40)
    made = [str(path) for path in sorted(folder.iterdir())]
    return [*made, str(folder), "/dev/zero", "/dev/null", "/etc/passwd", "/proc/self/mem"]


def all_verbs(verbs=VERBS, before: tuple[str, ...] = ()) -> dict[tuple[str, ...], str]:
    """Return the path of every verb, by the words that ask for it."""
    found: dict[tuple[str, ...], str] = {}
    for word, entry in verbs.items():
        if isinstance(entry, VerbGroup):
            found |= all_verbs(entry.verbs, (*before, word))
        else:
            found[*before, word] = entry
    return {words: path for words, path in found.items() if " ".join(words) not in LEFT_OUT}


def command_line(rng: random.Random, verbs: dict, odd: list[str], place: list[str]) -> list[str]:
    """Return the words of one command."""
    words = list(rng.choice(list(verbs)))
    verb = load_verb(verbs[tuple(words)])
    if rng.random() < 0.05:
        spoilt = list(words[-1] or "x")
        rng.shuffle(spoilt)
        words[-1] = "".join(spoilt)
    fields = [field for field in verb.fields if field.how.scope != "inner"]
    for field in fields:
        is_needed = field.is_required and rng.random() < 0.9
        if not is_needed and rng.random() > 0.3:
            continue
        for _ in range(rng.choice((1, 1, 1, 2))):
            known = field.choices if field.how.read is None else ()
            value = rng.choice((*WORDS, *odd, *odd, *known))
            if field.how.scope == "argument":
                words.append(value)
            elif field.how.scope == "place":
                words += [] if rng.random() < 0.7 else [_flag(field), value]
            elif field.type is bool:
                words.append(_flag(field))
            else:
                words += [_flag(field), value] if rng.random() < 0.95 else [_flag(field)]
    if rng.random() < 0.05:
        words += [rng.choice(("--unknown", "--json", "--debugg", "-z", "extra"))]
    named = {word.partition("=")[0] for word in words}
    for flag, value in zip(place[::2], place[1::2], strict=True):
        if flag not in named and any(_flag(field) == flag for field in fields):
            words += [flag, value]
    return words


def _flag(field) -> str:
    flag = field.how.flags[0] if field.how.flags else f"--{field.name.replace('_', '-')}"
    return flag.partition("/")[0]
