"""V09 and V10: the change can be made, and leaves alone what it is measured with."""

from __future__ import annotations

from pathlib import Path

from telic.studies import git_read
from telic.studies.canonical import file_hash
from telic.studies.folder import STATE_FOLDER
from telic.studies.globs import first_match
from telic.studies.validation.subject import Finding, Subject


def patch_applies(subject: Subject) -> Finding:
    """V09: the patch applies cleanly to its base, and brought files are the ones described."""
    problems = list[str]()
    base = subject.candidate.base_commit
    if subject.is_git and base is not None and not git_read.has_commit(subject.root, base):
        problems.append(f"this clone has no commit {base[:12]}")
    elif (patch := subject.patch_file) is not None:
        problems += _patch_problems(subject, patch)
    for each in subject.candidate.change.files:
        path = subject.folder / "files" / each.path
        if not path.is_file():
            problems.append(f"files/{each.path} is missing")
        elif file_hash(path) != each.sha256:
            problems.append(f"files/{each.path} is not the file that was described")
    return Finding(tuple(problems))


def _patch_problems(subject: Subject, patch: Path) -> list[str]:
    if subject.patch is None:
        return [f"{patch.name} is missing or is not text beside candidate.json"]
    if file_hash(patch) != subject.candidate.change.patch_sha256:
        return [f"{patch.name} is not the patch that was described"]
    base = subject.candidate.base_commit if subject.is_git else None
    if why := git_read.why_patch_fails(subject.root, patch, base):
        return [f"{patch.name} does not apply: {why.splitlines()[0]}"]
    hidden = set(git_read.patched_paths(subject.root, patch)) - set(subject.patch.files)
    return [f"git would also write {path}, which the patch does not show" for path in hidden]


def measure_untouched(subject: Subject) -> Finding:
    """V10: evaluator, metric and protocol are what was agreed on, and the change avoids them."""
    protected = {
        "the evaluator": tuple(subject.protocol.evaluator_files),
        "an evaluator file of the adapter": subject.adapter.files.evaluator.globs,
        "the studies' own records": (f"{STATE_FOLDER}/**",),
    }
    if subject.metric_spec.extractor.kind == "python_file":
        protected["the metric extractor"] = (subject.metric_spec.extractor.path,)
    problems = [
        f"{path} is {what}"
        for path in subject.touched
        for what, patterns in protected.items()
        if first_match(path, patterns)
    ]
    return Finding((*problems, *_changed_measures(subject)))


def _changed_measures(subject: Subject) -> list[str]:
    contract, problems = subject.contract, list[str]()
    if subject.spec_hash != contract.metrics.spec_hash:
        problems.append("the metric spec is not the one the contract names")
    if subject.protocol_hash != contract.evaluation.protocol_hash:
        problems.append("the evaluation protocol is not the one the contract names")
    for path, agreed in subject.protocol.evaluator_files.items():
        file = subject.root / path
        if not file.is_file():
            problems.append(f"the evaluator {path} is missing")
        elif file_hash(file) != agreed:
            problems.append(f"the evaluator {path} is not the one of the protocol")
    return problems
