"""Read a repository and say how it trains, evaluates, logs, rewards, and what is risky about it."""

from __future__ import annotations

import gc
import time
from pathlib import Path

from telic.studies.scan.config_system import find_config_system
from telic.studies.scan.entry_points import RepositoryScan
from telic.studies.scan.hazards import HARM, RESULTS, Findings, find_hazards
from telic.studies.scan.hazards_running import RUNNING
from telic.studies.scan.records import Archetype, RepositoryAudit
from telic.studies.scan.runs import (
    find_evaluation,
    find_metrics,
    find_outputs,
    find_seeds,
    find_unignored,
)
from telic.studies.scan.sinks import find_sinks
from telic.studies.scan.task_sources import find_task_sources
from telic.studies.scan.tree import RepositoryTree

RULES = (*HARM, *RESULTS, *RUNNING)
"""every hazard rule; the name of each is the hazard it looks for"""
_SINGLE_FILES = 3


def audit_repository(root: Path) -> RepositoryAudit:
    """Return what can be known of a repository by reading it; nothing is run or written."""
    collecting = gc.isenabled()
    gc.disable()  # syntax trees hold no cycles; looking for some would double the time
    try:
        return _audit(RepositoryTree(root), time.perf_counter())
    finally:
        if collecting:
            gc.enable()


def _audit(tree: RepositoryTree, started: float) -> RepositoryAudit:
    scan = RepositoryScan(tree)
    found = Findings(
        scan,
        find_config_system(scan),
        find_sinks(scan),
        find_task_sources(scan),
        find_evaluation(scan),
        find_seeds(scan),
        find_outputs(scan),
    )
    archetype = _archetype(found)
    return RepositoryAudit(
        name=tree.root.name,
        archetype=archetype,
        summary=_summary(found, archetype),
        files=len(tree.paths),
        python_files=len(tree.python),
        seconds=round(time.perf_counter() - started, 3),
        train=tuple(scan.train),
        evaluate=tuple(scan.evaluate),
        config=found.config,
        sinks=found.sinks,
        sources=found.sources,
        evaluation=found.evaluation,
        seeds=found.seeds,
        outputs=found.outputs,
        unignored=find_unignored(tree.root, found.outputs, found.sinks),
        metrics=find_metrics(scan),
        hazards=tuple(find_hazards(RULES, found)),
        packages=_packages(scan),
        unreadable=tuple(
            facts.path for facts in scan.repository.modules.values() if facts.broken is not None
        ),
    )


def _packages(scan: RepositoryScan) -> tuple[str, ...]:
    inits = (path for path in scan.tree.python if path.endswith("/__init__.py"))
    own = {path.split("/")[-2] for path in inits}
    origins = (origin for facts in scan.sources() for origin in facts.import_lines)
    imported = {origin.partition(".")[0] for origin in origins}
    return tuple(sorted(own | imported))


def _archetype(found: Findings) -> Archetype:
    scan = found.scan
    if not scan.train:
        own_reward = not found.sources.reward.external
        return "environments" if own_reward and len(scan.learners) < _SINGLE_FILES else "library"
    if all(scan.tree.place(entry.path) == "example" for entry in scan.train):
        return "library_with_examples"
    alone = [entry for entry in scan.train if entry.path in scan.learners]
    if len(alone) >= _SINGLE_FILES and 2 * len(alone) > len(scan.train):
        return "single_file_trainers"
    return "framework"


def _summary(found: Findings, archetype: Archetype) -> str:
    scan = found.scan
    if not scan.train:
        what = "A library of environments" if archetype == "environments" else "A library"
        trains = f"{what}: no training command."
    else:
        more = f", and {len(scan.train) - 1} more" if len(scan.train) > 1 else ""
        trains = f"Trains with `{' '.join(scan.train[0].argv)}`{more}."
    reward = found.sources.reward
    where = (
        "Rewards are outside this repository."
        if reward.external
        else f"Rewards are in {reward.files[0]}"
        + (f" and {len(reward.files) - 1} more files." if len(reward.files) > 1 else ".")
    )
    sinks = ", ".join(dict.fromkeys(sink.name for sink in found.sinks if sink.default)) or "nothing"
    return f"{trains} {where} Logs to {sinks} by default."
