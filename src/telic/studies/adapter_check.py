"""Check adapter.yaml: schema, cited lines, commands; and record what a person confirmed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from telic.core.config import Record
from telic.errors import TelicError
from telic.storage.reading import LARGEST_TEXT, check_file
from telic.studies.approvals import Consent
from telic.studies.canonical import content_hash
from telic.studies.documents.adapter import FIELDS, Adapter, CommandSpec
from telic.studies.documents.base import Sha, update_yaml, value_at
from telic.studies.draft import OpenQuestion, stand_ins
from telic.studies.errors import GateRefused
from telic.studies.launch.command import shell_problems
from telic.studies.rules.gates import word_problems
from telic.studies.study import Study


class AdapterCheck(Record):
    """Problems and gaps of adapter.yaml."""

    file: str
    ok: bool
    problems: tuple[str, ...]
    unknown: tuple[str, ...] = ()
    """fields without a value"""
    unconfirmed: tuple[str, ...] = ()
    """fields that a launch needs and `telic study approve` asks a person to confirm"""
    questions: tuple[OpenQuestion, ...] = ()
    """fields that a new draft could not fill in"""


def check_adapter(study: Study, questions: tuple[OpenQuestion, ...] = ()) -> AdapterCheck:
    """Return the problems of adapter.yaml; a file that does not parse is a problem, too."""
    file = str(study.folder.adapter)
    try:
        adapter = study.folder.read_adapter()
    except TelicError as error:
        return AdapterCheck(file=file, ok=False, problems=(error.message,), questions=questions)
    problems = (*_uncited(study.root, adapter), *_command_problems(study.root, adapter))
    data, known = adapter.as_data(), adapter.provenance
    unknown = [field for field in FIELDS if field not in known or known[field].status == "unknown"]
    return AdapterCheck(
        file=file,
        ok=not problems,
        problems=problems,
        unknown=tuple(field for field in unknown if _is_empty(value_at(data, field))),
        unconfirmed=tuple(unconfirmed(study)),
        questions=questions,
    )


def _is_empty(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_is_empty, cast("dict[str, Any]", value).values()))
    return value in (None, False, "", [])


def _uncited(root: Path, adapter: Adapter) -> Iterator[str]:
    """Yield fields without a source, and sources that the repository does not have."""
    cited = [(name, each.evidence) for name, each in adapter.provenance.items()]
    cited += [(each.id, tuple(filter(None, each.evidence.split(", ")))) for each in adapter.hazards]
    for name, provenance in adapter.provenance.items():
        if provenance.status == "inferred" and not provenance.evidence:
            yield f"provenance.{name}: an inferred value cites the line it comes from (path:line)."
    for name, place in ((name, place) for name, places in cited for place in places):
        path, _, line = place.rpartition(":")
        path, number = (path, int(line)) if path and line.isdigit() else (place, 1)
        file = root / path
        try:
            if not file.resolve().is_relative_to(root.resolve()):
                yield f"{name}: {place} is outside of the repository."
                continue
            check_file(file, LARGEST_TEXT)
            count = file.read_bytes().count(b"\n") + 1
        except (OSError, TelicError):
            yield f"{name}: {place} is not a file of the repository."
            continue
        if not 1 <= number <= count:
            yield f"{name}: {place}: the file has {count} lines."


def _command_problems(root: Path, adapter: Adapter) -> Iterator[str]:
    train, seeds = adapter.commands.train, adapter.seeds
    for name in ("train", "eval", "smoke", "resume"):
        spec: CommandSpec | None = getattr(adapter.commands, name)
        if spec is not None:
            yield from (f"commands.{name}: {why}." for why in _spec_problems(root, spec))
    has_seed = train is not None and any("{seed}" in word for word in train.argv)
    if train and seeds.controllable and not (has_seed or seeds.flag or seeds.env_flag):
        yield "seeds: controllable, but neither a flag nor {seed} in commands.train sets the seed."


def _spec_problems(root: Path, spec: CommandSpec) -> Iterator[str]:
    yield from shell_problems(spec.argv)
    yield from word_problems(spec.argv)
    yield from (f'"{word}" stands for a value that is not given' for word in stand_ins(spec.argv))
    folder, program = (root / spec.cwd).resolve(), spec.argv[0]
    if not folder.is_dir() or not folder.is_relative_to(root.resolve()):
        yield f"{spec.cwd} is not a folder of the repository"
        return
    own = None if spec.activate is None else root / spec.activate.path / "bin" / program
    is_here = "/" in program and (folder / program).is_file()
    if not (is_here or shutil.which(program) or (own and own.is_file())):
        yield f"the program {program} was not found"
    for word in spec.argv[1:]:
        if word.endswith(".py") and not (folder / word).is_file():
            yield f"the file {word} was not found"


# ---------------------------------------------------------------------------- confirmation


def unconfirmed(study: Study) -> dict[str, Any]:
    """Return the values of the fields that a launch needs and no person has confirmed."""
    if not study.folder.adapter.is_file():
        return {}
    adapter, data = study.adapter, study.adapter.as_data()
    used = [name for name in ("train", "smoke", "eval") if getattr(adapter.commands, name)]
    needed = [*(f"commands.{name}" for name in used), "metrics", "seeds", "outputs"]
    confirmed = {name for name, x in adapter.provenance.items() if x.status == "confirmed"}
    return {
        field: value_at(data, field)
        for field in needed
        if field not in confirmed and field.partition(".")[0] not in confirmed
    }


def unconfirmed_hash(study: Study) -> Sha | None:
    """Return the hash of what is to be confirmed; None if there is nothing."""
    found = unconfirmed(study)
    return content_hash(found) if found else None


def confirm_all(study: Study, consent: Consent, seen: Sha) -> tuple[str, ...]:
    """Confirm all that a person was shown; raises GateRefused E_CHANGED if it changed since."""
    if unconfirmed_hash(study.refresh()) != seen:
        raise GateRefused("E_CHANGED", "adapter.yaml changed while you were asked.")
    fields = tuple(unconfirmed(study))
    confirmed = {field: {"status": "confirmed", "confidence": 1.0} for field in fields}
    update_yaml(study.folder.adapter, {"provenance": confirmed})
    note = {"text": f"{consent.actor.label} confirmed {', '.join(fields)} of adapter.yaml"}
    study.refresh().append("note.added", None, {**note, "fields": list(fields)}, consent.actor)
    return fields
