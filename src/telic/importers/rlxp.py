"""Take over the tree of an older tool (.rlxp): every byte is kept, and the source stays as it is.

What is imported is history, not evidence: its candidates are written as drafts that new ones can be
made from (`origin.imported_from`), but nothing in it counts as approved, measured or accepted here.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from telic.core.config import Record
from telic.importers.rlxp_drafts import map_candidate
from telic.storage.files import TEMPORARY_MARK, read_json_lines, write_json
from telic.storage.reading import file_hash
from telic.studies.administration import create_study
from telic.studies.canonical import content_hash, slug_of
from telic.studies.documents.base import StudyActor, read_yaml
from telic.studies.errors import BrokenIntegrity, StudyError
from telic.studies.state import IMPORTED
from telic.studies.study import Study

SOURCE = ".rlxp"
_SHOWN = ("kind", "status", "phase", "hypothesis", "parents", "verdict")


@dataclass(frozen=True)
class _Found:
    """A study in the old tree: its name, and old file to where its copy goes."""

    task_id: str
    study_id: str
    folder: Path
    files: dict[Path, str]


class RlxpDraft(Record):
    """An old candidate as a draft."""

    file: str
    """for telic study candidate new TITLE --draft"""
    unmapped: tuple[str, ...]
    """fields that it does not carry"""


class RlxpImport(Record):
    """What became of one old study."""

    study: str
    layout: str
    folder: str
    files: int
    ledger_lines: int
    candidates: dict[str, dict[str, Any]]
    drafts: dict[str, RlxpDraft]
    """of those of its candidates that could be read"""
    manifest_hash: str
    is_new: bool


def import_rlxp(root: Path, actor: StudyActor, source: Path | None = None) -> list[RlxpImport]:
    """Copy every study of `root`/.rlxp (or `source`) into .telic; doing it again changes nothing.

    The tree may be scoped (tasks/<task>/studies/<study>) or flat (one study at the top).
    """
    tree = source or root / SOURCE
    if not tree.is_dir():
        raise StudyError("E_NO_SOURCE", f"There is no folder {tree}.", hint="Name it with --from.")
    layout = "scoped" if (tree / "tasks").is_dir() else "legacy_flat"
    found = _scoped(tree) if layout == "scoped" else [_flat(tree)]
    if not found:
        raise StudyError("E_NO_SOURCE", f"{tree} holds no studies.")
    return [_import(root, tree, layout, each, actor) for each in found]


# ---------------------------------------------------------------------------- reading the old tree


def _scoped(tree: Path) -> list[_Found]:
    shared = {path: f"shared/{path.relative_to(tree)}" for path in _files(tree, skip="tasks")}
    found: list[_Found] = []
    for task in sorted(each for each in (tree / "tasks").iterdir() if each.is_dir()):
        of_task = {p: f"task/{p.relative_to(task)}" for p in _files(task, skip="studies")}
        studies = task / "studies"
        for study in sorted(each for each in studies.iterdir() if each.is_dir()):
            own = {path: f"study/{path.relative_to(study)}" for path in _files(study)}
            files = {**shared, **of_task, **own}
            task_id, study_id = (slug_of(x.name, longest=63) for x in (task, study))
            found.append(_Found(task_id, study_id, study, files))
    return found


def _flat(tree: Path) -> _Found:
    files = {path: f"study/{path.relative_to(tree)}" for path in _files(tree)}
    return _Found("default", "default", tree, files)


def _files(folder: Path, skip: str | None = None) -> list[Path]:
    """Return every file below; a link could lead outside the repository and is refused."""
    found: list[Path] = []
    for path in sorted(folder.rglob("*")):
        if skip is not None and path.relative_to(folder).parts[0] == skip:
            continue
        if path.is_symlink():
            raise BrokenIntegrity("E_OUTSIDE", f"{path} is a link; only plain files are imported.")
        if path.is_file():
            found.append(path)
    return found


def _candidates(folder: Path) -> dict[str, dict[str, Any]]:
    """Return what old candidate files say; one that says nothing is named all the same."""
    found: dict[str, dict[str, Any]] = {}
    home = folder / "candidates"
    for path in sorted(home.rglob("*.json")) + sorted(home.rglob("*.yaml")):
        relative = path.relative_to(home)
        name = relative.parts[0] if len(relative.parts) > 1 else path.stem
        if len(relative.parts) > 2 or name in found:
            continue
        # JSON is YAML, and one reader refuses duplicate keys in both.
        data: Any = read_yaml(path)
        told = cast("dict[str, Any]", data) if isinstance(data, dict) else {}
        found[name] = told
    return found


# ---------------------------------------------------------------------------- writing the new one


def _import(root: Path, tree: Path, layout: str, found: _Found, actor: StudyActor) -> RlxpImport:
    manifest = {place: file_hash(path) for path, place in found.files.items()}
    digest = content_hash(manifest)
    candidates = _candidates(found.folder)
    lines = sum(1 for _ in read_json_lines(found.folder / "ledger.jsonl"))
    study = create_study(root, found.task_id, found.study_id, actor)
    home = study.folder.path / "imported" / digest[:12]
    if not home.is_dir():
        _copy(found, manifest, home)
    drafts = _write_drafts(root, home, candidates)
    is_new = _record(study, home, layout, digest, len(manifest), candidates, actor)
    return RlxpImport(
        study=study.name,
        layout=layout,
        folder=str(home.relative_to(root.absolute())),
        files=len(manifest),
        ledger_lines=lines,
        candidates={
            name: {key: told[key] for key in _SHOWN if key in told}
            for name, told in candidates.items()
        },
        drafts=drafts,
        manifest_hash=digest,
        is_new=is_new,
    )


def _write_drafts(
    root: Path, home: Path, candidates: dict[str, dict[str, Any]]
) -> dict[str, RlxpDraft]:
    """Write every old candidate as a draft, beside the copy: the copy is what was there."""
    drafts: dict[str, RlxpDraft] = {}
    for name, told in candidates.items():
        mapped = map_candidate(told, name)
        path = home.with_name(f"{home.name}-drafts") / f"{slug_of(name, longest=63)}.json"
        if not told:
            continue
        if not path.is_file():  # a person may have gone on writing it
            path.parent.mkdir(parents=True, exist_ok=True)
            write_json(path, mapped.draft)
        file = str(path.relative_to(root.absolute()))
        drafts[name] = RlxpDraft(file=file, unmapped=mapped.unmapped)
    return drafts


def _copy(found: _Found, manifest: dict[str, str], home: Path) -> None:
    """Copy beside, check every byte, then rename: a killed import leaves no half of one."""
    fresh = home.with_name(f"{TEMPORARY_MARK}{os.getpid()}-{home.name}")
    shutil.rmtree(fresh, ignore_errors=True)
    for path, place in found.files.items():
        target = fresh / place
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
        if file_hash(target) != manifest[place]:
            raise BrokenIntegrity("E_IMPORT", f"{path} changed while it was copied.")
    write_json(fresh / "manifest.json", {"schema": "telic.import/1", "files": manifest})
    os.rename(fresh, home)


def _record(
    study: Study,
    home: Path,
    layout: str,
    digest: str,
    files: int,
    candidates: dict[str, dict[str, Any]],
    actor: StudyActor,
) -> bool:
    with study.locked():
        for event in study.events_of(IMPORTED):
            if event.data["manifest_hash"] == digest:
                return False
        facts = {
            "layout": layout,
            "manifest_hash": digest,
            "files": files,
            "folder": str(home.relative_to(study.folder.path)),
            "candidates": sorted(candidates),
        }
        study.append(IMPORTED, None, facts, actor)
    return True
