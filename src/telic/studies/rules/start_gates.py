"""G13 to G24: it may run here and now, and what is started is measured, confirmed and harmless."""

from __future__ import annotations

import re
import socket
from pathlib import Path

from telic.storage.reading import file_hash
from telic.studies import git_read
from telic.studies.budget import shortfalls
from telic.studies.documents.metrics import Protocol
from telic.studies.evidence.review import last_review
from telic.studies.launch.attempt import LaunchAttempt, launcher_is_confirmed
from telic.studies.launch.command import shell_problems
from telic.studies.launch.isolation import is_made, mode_of, tree_problems
from telic.studies.launch.launchers import ON_THIS_MACHINE
from telic.studies.launch.machine import preflight, run_probe
from telic.studies.rules.case import RuleFinding
from telic.studies.rules.change import changed_evaluators
from telic.studies.rules.checks import WRITES_CODE
from telic.studies.rules.stops import standing_stops

_NEEDS_CONFIRMED = ("commands", "metrics", "seeds")
_REFUSED_HAZARDS = {
    "installs_packages_at_runtime": "it installs packages while it runs",
    "deletes_results": "it deletes results",
}
_DESTRUCTIVE = re.compile(
    r"--?(?:delete|remove|wipe|purge|clean|overwrite|force[-_]?(?:delete|overwrite|clean)"
    r"|rm|reset[-_]?logs?|clear[-_]?(?:logs?|cache|results?))(?:=(?!false|0|no).*)?$",
    re.IGNORECASE,
)
_INSTALLERS = frozenset({"pip", "pip3", "uv", "conda", "mamba", "apt", "apt-get", "brew", "npm"})
_REMOVERS = frozenset({"rm", "rmdir", "shred", "dd", "mkfs", "truncate"})

# ---------------------------------------------------------------------------- G13 to G18


def hardware_is_approved(attempt: LaunchAttempt) -> RuleFinding:
    """G13: host, GPUs and launcher are those of the contract."""
    hardware, gpus, problems = attempt.study.contract.hardware, attempt.gpus, list[str]()
    here = {"local", "localhost", socket.gethostname()}
    if hardware.launcher in ON_THIS_MACHINE and here.isdisjoint(hardware.hosts):
        problems.append(f"{socket.gethostname()} is not one of {', '.join(hardware.hosts)}")
    if foreign := [gpu for gpu in gpus if gpu not in hardware.gpus]:
        problems.append(f"GPU {', '.join(map(str, foreign))} is not in the contract")
    kind = attempt.adapter.launcher.kind
    if kind != hardware.launcher:
        problems.append(
            f"the adapter starts runs with {kind}, the contract allows {hardware.launcher}"
        )
    return RuleFinding(problems, value={"launcher": hardware.launcher, "gpus": list(gpus)})


def fits_budget(attempt: LaunchAttempt) -> RuleFinding:
    """G14: what it reserves is left of every budget."""
    request, reservation = attempt.request, attempt.reservation
    problems = shortfalls(attempt.study.state, reservation, request.candidate, request.phase)
    return RuleFinding(problems, value=reservation.model_dump(exclude_none=True))


def nothing_says_stop(attempt: LaunchAttempt) -> RuleFinding:
    """G15: no stop rule fired."""
    return RuleFinding(tuple(f"{x.rule}: {x.why}" for x in standing_stops(attempt.study)))


def place_is_free(attempt: LaunchAttempt) -> RuleFinding:
    """G16: a place and a GPU are free, and the same run does not live already."""
    state, contract, problems = attempt.study.state, attempt.study.contract, list[str]()
    live = {name: state.runs[name] for name in state.active_runs}
    most = contract.scope.limits.max_concurrent
    if len(live) >= most:
        problems.append(f"{len(live)} of {most} runs are active: {', '.join(live)}")
    if contract.hardware.gpus and not attempt.gpus:
        problems.append("no GPU of the contract is free")
    wanted = (attempt.request.candidate, attempt.request.phase, attempt.request.seed)
    for name, run in live.items():
        if run.gpu is not None and run.gpu in attempt.gpus:
            problems.append(f"{name} has GPU {run.gpu}")
        if (run.candidate, run.phase, run.seed) == wanted:
            problems.append(f"{name} is this very run, and it lives")
    return RuleFinding(problems, value=f"{len(live)} of {most}")


def machine_is_ready(attempt: LaunchAttempt) -> RuleFinding:
    """G17: disk and GPU memory suffice, and the simulator starts where a probe is declared."""
    hardware, adapter = attempt.study.contract.hardware, attempt.adapter
    problems = preflight(
        attempt.machine,
        # Whether a GPU answers is only known to those who may ask its driver.
        gpus=attempt.gpus if attempt.processes else (),
        min_free_gpu_gb=hardware.min_free_gpu_gb,
        min_free_disk_gb=hardware.min_free_disk_gb,
    )
    probe = adapter.launcher.options.get("probe")
    # A probe may take a minute: it runs before the lock is taken, and only on a real request.
    if probe and attempt.request.execute and attempt.processes and not attempt.is_final:
        if not launcher_is_confirmed(adapter):
            problems.append("the adapter's probe is not run before its launcher is confirmed")
        else:
            words = tuple(str(word) for word in probe)
            where = attempt.tree if attempt.tree.is_dir() else attempt.study.root
            complaint = run_probe(words, where, attempt.environment.variables)
            problems += [complaint] if complaint else []
    return RuleFinding(problems, value={"free_disk_gb": attempt.machine.free_disk_gb})


def tree_is_isolated(attempt: LaunchAttempt) -> RuleFinding:
    """G18: it runs in its base with its change, and in nothing else.

    Before the tree is made, a look asks whether it can be made; the launch makes it and asks again.
    """
    study, candidate = attempt.study, attempt.candidate
    mode, base = mode_of(study.folder, candidate), candidate.base_commit
    waived = study.contract.excepted("worktree_required", attempt.now) is not None
    is_there = is_made(study.folder, candidate)
    if mode == "in_place" or is_there or attempt.is_final:
        problems = tree_problems(study.folder, candidate, excepted=waived)
        return RuleFinding(problems, value=mode)
    if mode == "worktree" and (base is None or not git_read.has_commit(study.root, base)):
        return RuleFinding((f"there is no commit {base} to make a worktree from",))
    return RuleFinding(value=f"{mode}, to be made")


# ---------------------------------------------------------------------------- G19 to G24


def measure_is_unchanged(attempt: LaunchAttempt) -> RuleFinding:
    """G19: evaluator and metric files are those of the protocol, in the tree that runs."""
    study, problems = attempt.study, list[str]()
    if not study.is_protocol_agreed:
        problems.append("eval_protocol.yaml is not the agreed one")
    if not study.is_metric_spec_agreed:
        problems.append("metric_spec.yaml is not the agreed one")
    trees = {study.root, attempt.tree} if attempt.tree.is_dir() else {study.root}
    changed = {tree: changed_evaluators(study, tree) for tree in sorted(trees)}
    problems += [
        f"{tree / path} is not the evaluator of the protocol"
        for path in study.protocol.evaluator_files
        for tree, paths in changed.items()
        if path in paths
    ]
    if why := _changed_dataset(study.protocol, study.root):
        problems.append(why)
    agreed = study.contract.evaluation.protocol_hash or ""
    return RuleFinding(problems, value=agreed[:12])


def _changed_dataset(protocol: Protocol, root: Path) -> str | None:
    if protocol.dataset is None:
        return None
    path = root / protocol.dataset
    if not path.is_file():
        return f"the dataset {protocol.dataset} is not there"
    same = file_hash(path) == protocol.dataset_hash
    return None if same else f"{protocol.dataset} is not the dataset of the protocol"


def command_is_confirmed(attempt: LaunchAttempt) -> RuleFinding:
    """G20: the command comes from a confirmed adapter and needs no shell."""
    problems = [
        f"the adapter's {name} are {status}, not confirmed by a person"
        for name in _NEEDS_CONFIRMED
        if (status := _provenance(attempt, name)) != "confirmed"
    ]
    if not launcher_is_confirmed(attempt.adapter):
        problems.append("the adapter's launcher runs commands that no person confirmed")
    problems += shell_problems(attempt.command.argv)
    return RuleFinding(problems, value=list(attempt.command.argv))


def network_is_settled(attempt: LaunchAttempt) -> RuleFinding:
    """G21: offline unless a person approved where it connects to."""
    if attempt.network_approved:
        return RuleFinding(value="approved")
    sources = attempt.adapter.logging.sources
    wants = [source.kind for source in sources if source.network and source.default]
    value = {"network": "offline", "neutralised": wants, "enforced_by": "environment"}
    return RuleFinding(attempt.environment.problems, value=value)


def generated_code_is_reviewed(attempt: LaunchAttempt) -> RuleFinding:
    """G22: code that a model wrote was allowed, and somebody else has looked at it."""
    study, candidate = attempt.study, attempt.candidate
    brings_code = bool(candidate.change.patch or candidate.change.files)
    is_generated = candidate.origin.model is not None or candidate.kind in WRITES_CODE
    if not brings_code or not is_generated:
        return RuleFinding(value="no generated code")
    problems, allowed = list[str](), study.contract.generated_code
    options = attempt.adapter.launcher.options
    if allowed is None or not allowed.allowed:
        problems.append("the contract does not allow generated code")
    elif study.standing("generated_code").status != "approved":
        problems.append("generated_code is not approved")
    elif allowed.sandbox == "confined" and options.get("sandbox") != "confined":
        problems.append("the contract wants it confined, and this launcher does not confine")
    if not _is_reviewed(attempt):
        problems.append("no review of it by somebody else passed")
    return RuleFinding(problems)


def command_is_harmless(attempt: LaunchAttempt) -> RuleFinding:
    """G23: it moves no hardware, deletes nothing and installs nothing."""
    problems: list[str] = []
    for hazard in attempt.adapter.hazards:
        if hazard.id in _REFUSED_HAZARDS:
            problems.append(f"{_REFUSED_HAZARDS[hazard.id]} ({hazard.detail or hazard.id})")
        elif hazard.id == "actuates_hardware" and not _may_move(attempt):
            problems.append(f"it moves hardware ({hazard.detail}), which needs its own approval")
    return RuleFinding((*problems, *word_problems(attempt.command.argv)))


def launcher_is_rendered(attempt: LaunchAttempt) -> RuleFinding:
    """G24: what starts it is written out, the same each time, and valid for its launcher."""
    again = attempt.launcher.render(attempt.order)
    problems = list(attempt.rendered.problems)
    if again.hash != attempt.rendered.hash:
        problems.append("the launcher writes something else each time")
    return RuleFinding(problems, value=attempt.rendered.hash[:12])


def word_problems(argv: tuple[str, ...]) -> list[str]:
    """Return which words of a command delete or install."""
    names = [word.rsplit("/", 1)[-1] for word in argv]
    problems = [f"{word} destroys what is there" for word in argv if _DESTRUCTIVE.match(word)]
    if names[0] in _REMOVERS:
        problems.append(f"{argv[0]} removes files")
    # The program itself, or a module: python -m pip install.
    programs = {names[0], *(names[i + 1] for i, w in enumerate(argv[:-1]) if w == "-m")}
    if programs & _INSTALLERS and "install" in argv:
        problems.append(f"{' '.join(argv[:4])} installs packages")
    return problems


def _may_move(attempt: LaunchAttempt) -> bool:
    standing = attempt.study.standing("physical_actuation", attempt.request.candidate)
    return standing.status == "approved"


def _provenance(attempt: LaunchAttempt, name: str) -> str:
    """Return how sure the adapter is of a section: of all of it, or of the part that is used."""
    adapter = attempt.adapter
    used = "smoke" if attempt.spec is adapter.commands.smoke else "train"
    part = adapter.provenance.get(f"{name}.{used}") if name == "commands" else None
    source = part or adapter.provenance.get(name)
    return source.status if source else "unknown"


def _is_reviewed(attempt: LaunchAttempt) -> bool:
    """Return whether the last review that counts is of what it is now, and found nothing."""
    study = attempt.study
    sheet = last_review(study, attempt.request.candidate)
    if sheet is None or study.altered([sheet.id]):
        return False
    is_same = sheet.payload.get("content_hash") == attempt.candidate.compute_hash()
    return is_same and sheet.payload.get("passed") is True
