"""The files that measure a result, hashed into the protocol so that nobody does it by hand."""

from __future__ import annotations

from collections.abc import Sequence

from telic.studies.canonical import file_hash
from telic.studies.documents.base import Sha
from telic.studies.documents.metrics import Protocol
from telic.studies.errors import StudyError
from telic.studies.folder import StudyFolder
from telic.studies.yaml_files import read_document, update_yaml


def hash_evaluator(folder: StudyFolder, files: Sequence[str] = ()) -> dict[str, Sha]:
    """Write the hashes of evaluator files into eval_protocol.yaml and return all it names.

    Without files it is those that the protocol names already, or else those that the adapter says
    evaluate. The contract has to be amended after that: the protocol is another one now.
    """
    names = list(files) or list(folder.read_protocol().evaluator_files) or _of_adapter(folder)
    if not names:
        raise StudyError(
            "E_NO_FILE",
            "Neither the protocol nor the adapter names a file that evaluates.",
            hint="Name them: telic study contract evaluator PATH ...",
        )
    hashes = {name: _hash(folder, name) for name in names}
    update_yaml(folder.protocol, {"evaluator_files": hashes})
    return read_document(folder.protocol, Protocol).evaluator_files


def _of_adapter(folder: StudyFolder) -> list[str]:
    if not folder.adapter.is_file():
        return []
    found = [
        path.relative_to(folder.root).as_posix()
        for pattern in folder.read_adapter().files.evaluator.globs
        for path in sorted(folder.root.glob(pattern))
        if path.is_file()
    ]
    return list(dict.fromkeys(found))


def _hash(folder: StudyFolder, name: str) -> Sha:
    path = folder.root / name
    if not path.resolve().is_relative_to(folder.root.resolve()) or not path.is_file():
        raise StudyError("E_NO_FILE", f"{name} is not a file of the repository {folder.root}.")
    return file_hash(path)
