"""What a run left when it ended, by hash; numbers are only read from bytes that are still the same.

The supervisor lists every file with its hash the moment the run is over, and seals its record with
a key that is made for this run from the user's own. The ledger keeps the hash of the list.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from telic.storage.keys import SigningKey
from telic.storage.reading import file_hash, read_bytes
from telic.studies.errors import BrokenIntegrity

if TYPE_CHECKING:
    from telic.studies.study import Study

MANIFEST = "artefacts.json"


def seal_key(key: SigningKey, nonce: str) -> str:
    """Return the key with which the supervisor of one launch seals what it records."""
    return hmac.new(key.secret, f"telic run {nonce}".encode(), hashlib.sha256).hexdigest()


def why_unsealed(record: dict[str, Any], folder: Path, key: str) -> str | None:
    """Return why the record of a run's end is not what its supervisor wrote; None when it is."""
    from telic.studies.launch.supervisor import seal_of

    if not hmac.compare_digest(seal_of(record, key).encode(), str(record.get("seal")).encode()):
        return "exit.json is not what the supervisor of the run wrote"
    listed = folder / MANIFEST
    if record.get("artefacts") and not listed.is_file():
        return f"{MANIFEST}, the list of what the run left, is gone"
    if record.get("artefacts") and file_hash(listed) != record["artefacts"]:
        return f"{MANIFEST} is not the list that the supervisor of the run wrote"
    return None


def altered_artefacts(study: Study, run: str, below: Path | None = None) -> list[str]:
    """Return what is wrong with the files that a run left; empty when all are as they were.

    Args:
        study: of the run.
        run: that has ended; one of an earlier version, without a list, is not looked at.
        below: file or folder to look at; all that the run left, and what came since, if left out.
    """
    state, folder = study.state.runs[run], study.folder.run(run)
    if state.artefacts is None:
        return []
    listed = folder / MANIFEST
    if not listed.is_file() or file_hash(listed) != state.artefacts:
        return [f"{MANIFEST} of {run} is gone or is not what the ledger recorded"]
    left: dict[str, str] = json.loads(read_bytes(listed))
    there = {*left, *_there(folder)}
    names = [each for each in there if below is None or _is_below(folder / each, below)]
    return [
        said for name in sorted(names) if (said := _altered(folder / name, name, left.get(name)))
    ]


def require_unaltered(study: Study, run: str, below: Path) -> None:
    """Raise BrokenIntegrity E_ARTEFACTS when a file, or one of a folder, is not what was left."""
    if wrong := altered_artefacts(study, run, below):
        raise BrokenIntegrity(
            "E_ARTEFACTS",
            f"{run} is not measured: {wrong[0]}.",
            hint="Restore the file. If it is lost, say so: telic study audit RUN --unusable",
        )


def _is_below(path: Path, place: Path) -> bool:
    return path.resolve().is_relative_to(place.resolve())


def _there(folder: Path) -> list[str]:
    inside = folder / "artefacts"
    inner = [path.relative_to(folder).as_posix() for path in inside.rglob("*") if path.is_file()]
    return inner


def _altered(path: Path, name: str, before: str | None) -> str | None:
    if before is None:
        return f"{name} was not there when the run ended"
    if not path.is_file():
        return f"{name} is gone since the run ended"
    return None if file_hash(path) == before else f"{name} was changed after the run ended"
