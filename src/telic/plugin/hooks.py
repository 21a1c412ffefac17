"""The hooks that hosts call: one JSON object in, at most one out.

`before-shell` denies shell commands that would train beside the launch gate or answer in a person's
place, and edits of a study's records; `at-stop` reminds an agent of approved work. Only the
standard library until something looks suspicious: a host waits at every shell command.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, cast

from telic.core.text import is_dict, is_row, is_text
from telic.errors import TelicError
from telic.plugin.shell import SHELLS, program, simple_commands
from telic.storage.reading import parse_json, read_bytes, read_text

_RECORD = re.compile(
    r"[^\s'\"`;|&<>()]*"
    r"(?:ledger\.(?:jsonl|torn-\d+)"
    r"|\.telic/\S*?/(?:state\.json|(?:runs|evidence|audits|decisions|revisions|contract\.history)/)"
    r"[^\s'\"`;|&<>()]*)"
)
_INTO = re.compile(r"(?:>>?\|?|\btee\b(?:\s+-\w+)*)\s*['\"]?$")
_WRITERS = re.compile(
    r"(?:^|[\s;|&(/])(?:rm|mv|cp|ln|dd|shred|truncate|touch|install|rsync|unlink|chmod|chattr|patch"
    r"|vi|vim|nano|ed|ex|emacs)\b[^;|&\n]*$"
)
_IN_PLACE = re.compile(r"\b(?:sed|perl|ruby|gawk|yq)\b[^;|&\n]*\s-\w*i")
_CODE = re.compile(
    r"\bwrite(?:_text|_bytes|lines|FileSync)?\s*\(|\bopen\([^)]*['\"][rb]*[wax+]|\bunlink\b|\bdump\("
    r"|\brename\b|\breplace\(|\btruncate\b|\bto_csv\(|\bto_json\(|\brmtree\b|\bcopy(?:file|2)?\("
)
_HARMLESS_GIT = re.compile(r"\bgit\s+(?:-\S+\s+)*(?:add|commit|log|diff|show|status|ls-files)\b")
_NEEDS_SOMEBODY = ("repair", "stop", "agree", "wait", "ask")
_LAUNCHES = ("train", "smoke", "resume")
_READERS = re.compile(
    "awk|bat|black|cat|cd|chmod|code|cp|diff|du|echo|export|file|find|flake8|git|grep|head|isort|"
    "jq|less|ls|man|md5sum|mkdir|more|mv|mypy|nano|nl|pip|pre-commit|printf|pyright|rg|rm|ruff|sed|"
    "sha256sum|sort|stat|tail|tar|telic|test|touch|tree|type|uniq|vi|vim|wc|which"
)
_READING_MODULES = re.compile(
    "ast|black|compileall|dis|flake8|isort|mypy|py_compile|pyright|pytest|ruff|tokenize"
)
_PERSONS = {"approve": "", "run": "--resume", "report": "--close"}
"""commands for people, and the option that makes them so"""
_PLACEHOLDER = re.compile(r"\{[a-z_]+\}")
_SECTION = re.compile(r"^commands:\s*\n(?:[ \t#].*\n?|\n)*", re.MULTILINE)
_LARGEST_SCRIPT = 65_536
_DEEPEST = 3

GATE = (
    "telic: this starts the training of a study outside of the launch gate. Ask `telic study next` "
    "what may be started; it prints the one command that passes the gates."
)
UNKNOWN = "telic: this may start training, and what may not be started cannot be told. {}"
PERSON = (
    "telic: {} is a person's word. Show the person the command; they type it in their own terminal."
)
RECORDS = (
    "telic: {} is a record of a study, which only telic writes; an edit would void what it proves. "
    "Corrections are new entries: do what `telic study next` names."
)


class Launch(NamedTuple):
    """What gives a command of the adapter away."""

    target: str
    """script, dotted module or installed command"""
    words: frozenset[str]
    """literal words that follow it"""


def answer(name: str, text: str) -> str:
    """Return what a hook answers to the host's event; nothing when it has nothing to say.

    Raises TelicError, never a usage error: hosts take exit code 2 for a denial.
    """
    try:
        event = parse_json(text, "The event")
    except TelicError:
        event = None
    if not isinstance(event, dict):
        raise TelicError("A hook reads one JSON object from standard input.")
    said = HOOKS[name](cast("dict[str, Any]", event))
    return "" if said is None else json.dumps(said) + "\n"


def at_stop(event: dict[str, Any]) -> dict[str, Any] | None:
    """Return the host's answer to an agent that wants to stop: a reminder, or None.

    An agent that was reminded once (`stop_hook_active`) may stop: nobody is held for ever.
    """
    root = study_root(_folder(event))
    if root is None or event.get("stop_hook_active"):
        return None
    for state in sorted(root.glob(".telic/tasks/*/studies/*/state.json")):
        try:
            if not _may_go_on_alone(parse_json(read_bytes(state), str(state))):
                continue
        except TelicError:  # a damaged study holds nobody
            continue
        reason = _open_work(root, task=state.parts[-4], study=state.parts[-2])
        if reason is not None:
            return {"decision": "block", "reason": reason}
    return None


def _folder(event: dict[str, Any]) -> Path:
    """Return where the host works; what cannot be a folder is here."""
    given = event.get("cwd")
    return Path(given) if isinstance(given, str) and is_text(given) else Path()


def _may_go_on_alone(state: object) -> bool:
    """Whether a person approved that the loop of a study goes on by itself, and it may."""
    if not is_dict(state):
        return False
    approvals, automation = state.get("approvals"), state.get("automation")
    approval = approvals.get("autonomy") if is_dict(approvals) else None
    return (
        is_dict(automation)
        and is_dict(approval)
        and bool(automation.get("autoloop"))
        and approval.get("status") == "approved"
        and state.get("study_status") == "open"
        and not state.get("fired_stops")
    )


def _open_work(root: Path, task: str, study: str) -> str | None:
    from telic.studies.next import next_step
    from telic.studies.study import Study

    step = next_step(Study.find(root, task, study))
    if step.action in _NEEDS_SOMEBODY or step.blocking:
        return None
    return (
        f"telic: the loop of {task}/{study} is approved and not finished. Next: {step.action}, "
        f"because {step.why}. {step.command or 'Ask telic study next.'}"
    )


def before_shell(event: dict[str, Any]) -> dict[str, Any] | None:
    """Return the host's answer to a shell command: a denial, or None to let it pass.

    Args:
        event: what the host writes: tool_input.command (text or words) and cwd.
    """
    tool = event.get("tool_input")
    asked = tool.get("command") if is_dict(tool) else None
    line = "\n".join(map(str, asked)) if is_row(asked) else str(asked or "")
    reason = _edited_record(tool) or refusal(line, _folder(event))
    if reason is None:
        return None
    denial = {"hookEventName": "PreToolUse", "permissionDecision": "deny"}
    return {"hookSpecificOutput": {**denial, "permissionDecisionReason": reason}}


def _edited_record(tool: object) -> str | None:
    """Return why a file may not be written by an editor; None when it may."""
    if not is_dict(tool):
        return None
    places = [str(tool[key]) for key in ("file_path", "notebook_path", "path") if tool.get(key)]
    patch = str(tool.get("input", ""))
    patched = re.findall(r"^\*\*\* (?:Update|Delete|Add) File: (.+)$", patch, re.M)
    record = next((x for x in map(record_in_path, (*places, *patched)) if x), None)
    return RECORDS.format(record) if record else None


def refusal(line: str, here: Path) -> str | None:
    """Return why a shell line may not run; None when nothing speaks against it."""
    root = study_root(here)
    if root is None:
        return None
    if record := written_record(line):
        return RECORDS.format(record)
    commands = list(_all_commands(line, here))
    for words in commands:
        if word := _persons_word(words):
            return PERSON.format(f"telic study {word}")
    adapters = list((root / ".telic" / "tasks").glob("*/adapter.yaml"))
    if not any(_is_mentioned(commands, path) for path in adapters):
        return None
    try:
        launches, other = _read(adapters)
    except TelicError as error:
        return UNKNOWN.format(error)
    is_launch = any(
        _names(words, launch.target) and not _is_other(words, launch, other)
        for words in commands
        if not _only_reads(words)
        for launch in launches
    )
    return GATE if is_launch else None


def study_root(here: Path) -> Path | None:
    """Return the nearest folder upwards that holds studies."""
    return next(
        (each for each in (here, *here.absolute().parents) if os.path.isdir(each / ".telic")),
        None,
    )


def _all_commands(line: str, here: Path, depth: int = 0) -> Iterator[list[str]]:
    """Yield the commands of a line, of quoted lines inside it, and of shell scripts it starts."""
    for words in simple_commands(line):
        yield words
        if depth >= _DEEPEST or _only_reads(words):
            continue
        for word in words:
            if re.search(r"\s", word):
                yield from _all_commands(word, here, depth + 1)
            elif word.endswith(".sh") or program(words) in SHELLS:
                yield from _all_commands(_script(here / word), here, depth + 1)


def _script(path: Path) -> str:
    try:
        return read_text(path, _LARGEST_SCRIPT, errors="replace")
    except TelicError:
        return ""


def _persons_word(words: list[str]) -> str | None:
    if "--help" in words:
        return None
    for place, word in enumerate(words[:-2]):
        if word.rsplit("/", 1)[-1] == "telic" and words[place + 1] == "study":
            command, rest = words[place + 2], words[place + 3 :]
            option = _PERSONS.get(command)
            if option is None or (option and option not in rest):
                return None
            return f"{command} {option}".strip()
    return None


def _is_mentioned(commands: list[list[str]], adapter: Path) -> bool:
    """Whether the adapter's file names anything that a command names; cheaper than reading it."""
    text = read_text(adapter, errors="replace")
    stems = {
        stem
        for words in commands
        if not _only_reads(words)
        for word in words
        for stem in re.findall(r"\w+", word)
        if stem not in ("py", "sh") and not stem.startswith("python")
    }
    return bool(stems & set(re.findall(r"\w+", text)))


def _read(adapters: list[Path]) -> tuple[list[Launch], list[Launch]]:
    """Return what launches and what evaluates, of every task."""
    launches: list[Launch] = []
    other: list[Launch] = []
    for path in adapters:
        for name, spec in _commands(path).items():
            launch = _launch(spec["argv"]) if spec and spec.get("argv") else None
            if launch is not None:
                (launches if name in _LAUNCHES else other).append(launch)
    return launches, other


def _commands(adapter: Path) -> dict[str, Any]:
    """Return the commands of an adapter; only that section is parsed, since parsing is slow.

    Raises TelicError when it is not YAML.
    """
    # Not through yaml_files: the records it comes with take longer to load than all of this.
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    text = read_text(adapter, errors="replace")
    section = _SECTION.search(text)
    try:
        yaml: Any = YAML(typ="safe", pure=True)
        data: Any = yaml.load(section[0] if section else text) or {}
    except (YAMLError, ValueError, RecursionError) as error:
        raise TelicError(f"{adapter} cannot be read: {error}") from None
    commands = data.get("commands") if is_dict(data) else None
    if not is_dict(commands) or not all(map(_is_command, commands.values())):
        raise TelicError(f"{adapter} cannot be read: its commands are no commands.")
    return commands


def _is_command(spec: object) -> bool:
    """Say whether a command of an adapter is one, or left out."""
    argv: object = spec.get("argv") if is_dict(spec) else spec
    return argv is None or (is_row(argv) and all(isinstance(word, str) for word in argv))


def _launch(argv: list[str]) -> Launch | None:
    """Return what a command starts: its script, else the module after -m, else its program."""
    words = [word for word in argv if not _PLACEHOLDER.search(word)]
    for place, word in enumerate(words):
        is_module = place > 0 and words[place - 1] == "-m" and not word.startswith("torch.")
        if is_module or word.endswith((".py", ".sh")):
            return Launch(word, frozenset(words[place + 1 :]))
    if not words or words[0].startswith("python"):
        return None  # whatever it starts is not said here
    return Launch(words[0], frozenset(words[1:]))


def _is_other(words: list[str], launch: Launch, other: list[Launch]) -> bool:
    """Whether it is the evaluation of a script that also trains, or another of its sub-commands."""
    for command in other:
        own = command.words - launch.words
        if command.target == launch.target and own and own <= set(words):
            return True
    is_file = launch.target.endswith((".py", ".sh")) or "." in launch.target
    verbs = {word for word in launch.words if word.isidentifier()}
    return not is_file and bool(verbs) and not verbs & set(words)


def _names(words: list[str], target: str) -> bool:
    dotted = _dotted(target)
    for place, word in enumerate(words):
        before = words[place - 1] if place else ""
        if before == "-m" and _ends_alike(_dotted(word), dotted, "."):
            return True
        if before == "-c" and _imports(word, dotted.rsplit(".", 1)[-1]):
            return True
        if _ends_alike(str(PurePosixPath(word)), str(PurePosixPath(target)), "/"):
            return True
    return False


def _imports(code: str, stem: str) -> bool:
    name = re.escape(stem)
    return bool(re.search(rf"\b(?:import|from)\b[^;\n]*\b{name}\b|\b{name}\.py\b", code))


def _dotted(name: str) -> str:
    return name.removesuffix(".py").removeprefix("./").replace("/", ".")


def _ends_alike(one: str, two: str, joint: str) -> bool:
    return one == two or one.endswith(joint + two) or two.endswith(joint + one)


def _only_reads(words: list[str]) -> bool:
    name = program(words)
    if (name == "find" and "-exec" in words) or (name == "git" and "bisect" in words):
        return False
    if _READERS.fullmatch(name):
        return True
    module = next((after for word, after in pairwise(words) if word == "-m"), "")
    return name.startswith("python") and _READING_MODULES.fullmatch(module) is not None


Hook = Callable[[dict[str, Any]], dict[str, Any] | None]
HOOKS: dict[str, Hook] = {"before-shell": before_shell, "at-stop": at_stop}


# ---------------------------------------------------------------------------- records
# Is somebody about to write where only telic writes: ledger, evidence, what runs left behind? A
# look at the words alone: it keeps an agent from doing harm by mistake or by habit. What it cannot
# see, hashes and seals find later (`telic study verify`).


def record_in_path(path: str) -> str | None:
    """Return the record that a file is; None for any other file."""
    found = _RECORD.search(path)
    return found[0] if found else None


def written_record(line: str) -> str | None:
    """Return the record that a shell line would write to; None when it writes to none."""
    for found in _RECORD.finditer(line):
        before, name = line[: found.start()], found[0]
        command = re.split(r"[;|&\n]", before)[-1]
        if _INTO.search(before):
            return name
        if _HARMLESS_GIT.search(command):
            continue
        if _WRITERS.search(f" {command}") and not _only_copies_from(command, line, found.end()):
            return name
        if _IN_PLACE.search(command) or _CODE.search(line):
            return name
    return None


def _only_copies_from(command: str, line: str, end: int) -> bool:
    """Say whether a record is what is copied, and not where it is copied to."""
    rest = re.split(r"[;|&\n]", line[end:])[0].strip("'\" ")
    target = rest.split()[-1] if rest.split() else ""
    return bool(re.search(r"\bcp\b", command)) and bool(target) and record_in_path(target) is None
