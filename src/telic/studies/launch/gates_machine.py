"""G13 to G18: it may run here and now: hardware, budget, stop rules, places, machine, tree."""

from __future__ import annotations

import socket

from telic.studies import git_read
from telic.studies.budget import shortfalls
from telic.studies.launch.choose import ON_THIS_MACHINE
from telic.studies.launch.hardware import preflight, run_probe
from telic.studies.launch.isolation import manifest_file, tree_problems
from telic.studies.launch.planning import launcher_is_confirmed
from telic.studies.launch.situation import Situation
from telic.studies.soundness import standing_stops
from telic.studies.validation.subject import Finding


def hardware_is_approved(s: Situation) -> Finding:
    """G13: host, GPUs and launcher are those of the contract."""
    hardware, problems = s.contract.hardware, list[str]()
    here = {"local", "localhost", socket.gethostname()}
    if hardware.launcher in ON_THIS_MACHINE and here.isdisjoint(hardware.hosts):
        problems.append(f"{socket.gethostname()} is not one of {', '.join(hardware.hosts)}")
    if foreign := [gpu for gpu in s.gpus if gpu not in hardware.gpus]:
        problems.append(f"GPU {', '.join(map(str, foreign))} is not in the contract")
    if s.adapter.launcher.kind != hardware.launcher:
        problems.append(
            f"the adapter starts runs with {s.adapter.launcher.kind}, the contract allows "
            f"{hardware.launcher}"
        )
    return Finding(tuple(problems), value={"launcher": hardware.launcher, "gpus": list(s.gpus)})


def fits_budget(s: Situation) -> Finding:
    """G14: what it reserves is left of every budget."""
    problems = shortfalls(s.state, s.reservation, s.request.candidate, s.request.phase)
    return Finding(tuple(problems), value=s.reservation.model_dump(exclude_none=True))


def nothing_says_stop(s: Situation) -> Finding:
    """G15: no stop rule fired."""
    return Finding(tuple(f"{x.rule}: {x.why}" for x in standing_stops(s.ledger, s.state)))


def place_is_free(s: Situation) -> Finding:
    """G16: a place and a GPU are free, and the same run does not live already."""
    problems: list[str] = []
    live = {name: s.state.runs[name] for name in s.state.active_runs}
    most = s.contract.scope.limits.max_concurrent
    if len(live) >= most:
        problems.append(f"{len(live)} of {most} runs are active: {', '.join(live)}")
    if s.contract.hardware.gpus and not s.gpus:
        problems.append("no GPU of the contract is free")
    wanted = (s.request.candidate, s.request.phase, s.request.seed)
    for name, run in live.items():
        if run.gpu is not None and run.gpu in s.gpus:
            problems.append(f"{name} has GPU {run.gpu}")
        if (run.candidate, run.phase, run.seed) == wanted:
            problems.append(f"{name} is this very run, and it lives")
    return Finding(tuple(problems), value=f"{len(live)} of {most}")


def machine_is_ready(s: Situation) -> Finding:
    """G17: disk and GPU memory suffice, and the simulator starts where a probe is declared."""
    hardware = s.contract.hardware
    problems = preflight(
        s.machine,
        # Whether a GPU answers is only known to those who may ask its driver.
        gpus=s.gpus if s.processes else (),
        min_free_gpu_gb=hardware.min_free_gpu_gb,
        min_free_disk_gb=hardware.min_free_disk_gb,
    )
    probe = s.adapter.launcher.options.get("probe")
    # A probe may take a minute: it runs before the lock is taken, and only on a real request.
    if probe and s.request.execute and s.processes and not s.is_final:
        if not launcher_is_confirmed(s.adapter):
            problems.append("the adapter's probe is not run before its launcher is confirmed")
        else:
            words = tuple(str(each) for each in probe)
            where = s.tree if s.tree.is_dir() else s.folder.root
            complaint = run_probe(words, where, s.environment.variables)
            problems += [complaint] if complaint else []
    return Finding(tuple(problems), value={"free_disk_gb": s.machine.free_disk_gb})


def tree_is_isolated(s: Situation) -> Finding:
    """G18: it runs in its base with its change, and in nothing else.

    Before the tree is made, a look asks whether it can be made; the launch makes it and asks again.
    """
    candidate = s.candidate
    waived = s.contract.excepted("worktree_required", s.now) is not None
    made = manifest_file(s.folder, candidate).exists()
    if candidate.isolation.mode == "in_place" or made or s.is_final:
        return Finding(
            tuple(tree_problems(s.folder, candidate, excepted=waived)),
            value=candidate.isolation.mode,
        )
    if candidate.isolation.mode == "worktree":
        base = candidate.base_commit
        if base is None or not git_read.has_commit(s.folder.root, base):
            return Finding((f"there is no commit {base} to make a worktree from",))
    return Finding(value=f"{candidate.isolation.mode}, to be made")
