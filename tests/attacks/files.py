"""Every kind of file that telic reads, bent: bits, cuts, kinds, depth, numbers, characters, lines.

The files are those that an earlier version left behind: a training, a session and a search that
were killed in the middle, and a study; also a session that ended, work orders, and the TOML
that people write. A mutation changes one file, or one entry of an archive; then every verb that
meets it is called in this process.
"""

import copy
import hashlib
import io
import json
import random
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

ARCHIVE = Path(__file__).parents[1] / "earlier" / "written_before.tar.xz"
KINDS = (".json", ".jsonl", ".yaml", ".toml", ".npz", ".pt")
_SKIPPED = (".git/", "shared/schemas")
_DEEP = 5000

HOSTILE: tuple[object, ...] = (
    *(None, True, 0, -1, 10**30, 1e308, -0.0, "", "\x1b[31mred", "../../planted", "x" * 400),
    *("\ud800", "\u202e", "1", [], {}, [[]], [None], {"": None}, {"a": {"b": []}}, "NaN", 2**63),
)
_RAW = (
    "NaN",
    "1e999",
    "9" * 5000,
    '"\\ud800"',
    "-Infinity",
    "[" * _DEEP,
    '{"a":' * _DEEP,
    "1" * 30,
)

_YAML = (
    *("!!set {a, b}", "!!binary aGk=", "&a [*a]", "2026-01-01", ".nan", "[" * 900, "9" * 5000),
    *("!!python/object:os.system x", "null", "[]", "{}", "'\\0'", "yes", "1e999", "? ? ?"),
)


_TOML = (
    *("nan", "-inf", "9" * 5000, "[" * 900, "{a=" * 900, "1979-05-27T07:32:00Z", "''", "[]", "{}"),
    *('"\\uD800"', '"\u202e"', "[[1], 'a']", "0x" + "f" * 40, "1e999", "true", '"""', "= ="),
)
SUITE = """
[[case]]
id = "a"
env = "HalfCheetah-v5"
intent = "run forward"
difficulty = "easy"
[case.checks]
runs = 'episode.mean("forward_velocity") > 1.0'
"""
PROJECT = """
[project]
name = "foreign"
version = "1"
[project.scripts]
train = "foreign.train:main"
[tool.poetry.scripts]
play = "foreign.play:main"
"""


def unpack(folder: Path) -> None:
    """Put the earlier version's files into a folder."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")


def furnish(folder: Path) -> None:
    """Add what the earlier version's files lack."""
    from telic.core.config import Record
    from telic.llm.records import Request
    from telic.llm.work_orders import ORDERS, publish
    from tests.session.sessions import add_iteration, end, make_session, summary_of

    ended = make_session(folder / "runs", "session_20260102_030405_ended000")
    for number in (1, 2):
        add_iteration(ended, number)
    best = {"iterations": 2, "best_iteration": 2, "best_step": 256, "steps": 512}
    end(ended, summary_of(ended, outcome="not_passed", **best))
    request = Request(role="reviser", system="s", prompt="p", answer=Record)
    publish(ended.path / ORDERS, "a" * 16, request)
    written = folder / "written"
    written.mkdir()
    for name, text in (("suite", SUITE), ("pyproject", PROJECT)):
        (written / f"{name}.toml").write_text(text)
    (written / "a.npz").write_bytes(b"")


def files_of(folder: Path) -> list[Path]:
    """Return the files that are mutated."""
    return sorted(
        path
        for path in folder.rglob("*")
        if path.suffix in KINDS
        and path.is_file()
        and not any(each in str(path.relative_to(folder)) for each in _SKIPPED)
    )


def digest(folder: Path) -> dict[str, str]:
    """Return the hash of every file, by its place."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and ".git/" not in str(path) and not _is_written(path)
    }


def _is_written(path: Path) -> bool:
    """Say whether a verb that reads, `report`, writes this file."""
    return path.name in ("report.md", "report.html", "page.html") or "report" in path.parts


def mutate(path: Path, rng: random.Random) -> bytes:
    """Return the content of a file with one fault in it."""
    content = path.read_bytes()
    ways: list[Callable[[bytes, random.Random], bytes]] = [_flip, _cut, _insert, _repeat]
    if path.suffix == ".json":
        ways += [_change_value] * 8 + [_raw_value] * 2 + [_other_top]
    elif path.suffix == ".jsonl":
        ways += [_change_line] * 6 + [_tear]
    elif path.suffix == ".yaml":
        ways += [_change_yaml] * 6
    elif path.suffix == ".toml":
        ways += [_change_toml] * 6
    elif zipfile.is_zipfile(path):
        ways += [_change_entry] * 8
    return rng.choice(ways)(content, rng)


def _flip(content: bytes, rng: random.Random) -> bytes:
    changed = bytearray(content or b"x")
    for _ in range(rng.choice((1, 1, 3, 20))):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _cut(content: bytes, rng: random.Random) -> bytes:
    return content[: rng.randrange(len(content) + 1)]


def _insert(content: bytes, rng: random.Random) -> bytes:
    place = rng.randrange(len(content) + 1)
    new = rng.choice((b"\0", b"\xff\xfe", b"\x1b[2J", b"\n", b"[" * 3000, rng.randbytes(20)))
    return content[:place] + new + content[place:]


def _repeat(content: bytes, rng: random.Random) -> bytes:
    place = rng.randrange(len(content) + 1)
    return content[:place] + content[max(0, place - rng.randrange(1, 200)) :]


def _places(value: object, at: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
    inner = value.items() if isinstance(value, dict) else ()
    inner = enumerate(value) if isinstance(value, list) else inner
    return [at, *(place for key, each in inner for place in _places(each, (*at, key)))]


def _changed(value: object, rng: random.Random) -> object:
    """Return plain values with one of them replaced, removed or renamed."""
    value = copy.deepcopy(value)
    *way, last = ("top", *rng.choice(_places(value)))
    holder: dict = {"top": value}
    inside: object = holder
    for key in way:
        inside = inside[key]  # type: ignore[index]
    what = rng.randrange(8)
    if what == 0 and last != "top":
        del inside[last]  # type: ignore[attr-defined]
    elif what == 1 and isinstance(inside, dict) and last != "top":
        inside[str(last) + "\x1b"] = inside.pop(last)
    else:
        inside[last] = copy.deepcopy(rng.choice(HOSTILE))  # type: ignore[index]
    return holder["top"]


def _change_value(content: bytes, rng: random.Random) -> bytes:
    return json.dumps(_changed(json.loads(content), rng)).encode()


def _raw_value(content: bytes, rng: random.Random) -> bytes:
    marked = _mark(json.loads(content), rng)
    return json.dumps(marked).replace('"@@@"', rng.choice(_RAW), 1).encode(errors="surrogatepass")


def _mark(value: object, rng: random.Random) -> object:
    places = [place for place in _places(value) if place] or [()]
    if places == [()]:
        return "@@@"
    *way, last = rng.choice(places)
    inside = value
    for key in way:
        inside = inside[key]  # type: ignore[index]
    inside[last] = "@@@"  # type: ignore[index]
    return value


def _other_top(content: bytes, rng: random.Random) -> bytes:
    return json.dumps(rng.choice(HOSTILE)).encode()


def _change_line(content: bytes, rng: random.Random) -> bytes:
    lines = content.split(b"\n")
    place = rng.randrange(max(1, len(lines) - 1))
    if lines[place]:
        lines[place] = rng.choice((_change_value, _raw_value, _other_top, _cut))(lines[place], rng)
    return b"\n".join(lines)


def _tear(content: bytes, rng: random.Random) -> bytes:
    place = rng.randrange(len(content) + 1)
    return content[:place] + b"\n" + content[place:]


def _change_yaml(content: bytes, rng: random.Random) -> bytes:
    lines = content.decode().split("\n")
    place = rng.randrange(len(lines))
    key = lines[place].partition(":")[0]
    new = rng.choice(_YAML)
    lines[place] = f"{key}: {new}"
    return "\n".join(lines).encode()


def _change_toml(content: bytes, rng: random.Random) -> bytes:
    lines = content.decode().split("\n")
    place = rng.randrange(len(lines))
    key = lines[place].partition("=")[0]
    lines[place] = f"{key or 'x'}= {rng.choice(_TOML)}"
    return "\n".join(lines).encode()


def _change_entry(content: bytes, rng: random.Random) -> bytes:
    """Bend one entry of an archive, which stays whole: its sizes and check sums are right."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        entries = {each.filename: archive.read(each) for each in archive.infolist()}
    name = rng.choice(list(entries))
    what = rng.randrange(6)
    if what == 0:
        del entries[name]
    elif what == 1:
        entries[name + "x"] = entries.pop(name)
    elif what == 2:
        entries[name] = entries[rng.choice(list(entries))]
    else:
        entries[name] = rng.choice((_flip, _flip, _cut, _insert, _repeat))(entries[name], rng)
    bent = io.BytesIO()
    with zipfile.ZipFile(bent, "w") as archive:
        for each, data in entries.items():
            archive.writestr(each, data)
    return bent.getvalue()
