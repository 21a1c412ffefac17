"""Catalogue of all operations by command, in the order in which users typically need them."""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from telic.core.verb import Verb


class VerbGroup(NamedTuple):
    """Group of several operations under one command."""

    help: str
    verbs: dict[str, str | VerbGroup]
    """"module:name" or a nested group, by word"""
    examples: str = ""


def load_verb(path: str) -> Verb[Any, Any]:
    """Import the operation specified as "module:name"."""
    module, _, name = path.partition(":")
    return getattr(import_module(_full_name(module)), name)


def summary(path: str) -> str:
    """Return the first help line of an operation, parsed from its source without importing it."""
    module, _, name = path.partition(":")
    found = re.search(
        rf'^def {name}\(.*?"""(.+?)(?:"""|$)', _source(module), re.DOTALL | re.MULTILINE
    )
    return found[1] if found else ""


def _full_name(module: str) -> str:
    return f"telic.{module}" if module in ("mcp", "web") else f"telic.verbs.{module}"


@cache
def _source(module: str) -> str:
    spec = find_spec(_full_name(module))
    return Path(spec.origin).read_text() if spec is not None and spec.origin else ""


_BENCH = VerbGroup(
    "Benchmarks: intents run as sessions.",
    {"intents": "machine:intents"},
)
_TRACK = VerbGroup(
    "Train, evaluate and export policies that track reference motions.",
    {"train": "track:train_tracking", "eval": "track:eval", "export": "track:export_tracking"},
)
_MOTIONS = VerbGroup(
    "Reference motions: generate, import, show and filter clips.",
    {
        "show": "motions:show_motions",
        "generate": "motions:generate_motions",
        "import": "motions:import_motions",
        "filter": "motions:filter_motions",
    },
)

_STUDY = VerbGroup(
    help="Experiments with a contract, a ledger and evidence, in any repository.",
    examples="""
telic study init --task g1-walk --study speed --behavior "walk at commanded speed"
telic study contract --set budget.gpu_h=96 --amend "first version"
telic study approve
telic study run --confirm RUN_CANDIDATE
Only the commands [bold]run[/] and [bold]adapter --smoke[/] start processes.
""",
    verbs={
        "init": "study:init",
        "adapter": "study:adapter",
        "contract": "study:contract",
        "approve": "study:approve_study",
        "propose": "study_candidates:propose",
        "run": "study_runs:run_steps",
        "status": "study_runs:status",
        "next": "study_runs:next_action",
        "audit": "study_runs:audit",
        "decide": "study_candidates:decide",
        "report": "study_runs:report_study",
    },
)


VERBS: dict[str, str | VerbGroup] = {
    "run": "session:run",
    "train": "train:train",
    "search": "search:search",
    "track": _TRACK,
    "pause": "control:pause",
    "stop": "control:stop",
    "resume": "control:resume",
    "note": "control:note",
    "approve": "control:approve",
    "branch": "control:branch",
    "label": "labels:label",
    "veto": "labels:veto",
    "orders": "session:orders",
    "list": "artifacts:list_artifacts",
    "show": "artifacts:show",
    "watch": "control:watch",
    "play": "artifacts:play_artifact",
    "judge": "compare:judge",
    "compare": "compare:compare",
    "report": "web:write_report",
    "delete": "artifacts:delete",
    "export": "artifacts:export",
    "pull": "artifacts:pull",
    "verify": "study_runs:verify",
    "study": _STUDY,
    "envs": "envs:envs",
    "robots": "envs:robots",
    "motions": _MOTIONS,
    "doctor": "machine:doctor",
    "bench": _BENCH,
    "jobs": "jobs:jobs",
    "plugin": "machine:build",
    "serve": "web:serve",
    "mcp": VerbGroup("Serve telic to coding agents.", {"serve": "mcp:serve_mcp"}),
}
PANELS: dict[str, str] = {
    "run": "Make a policy",
    "pause": "Control it",
    "list": "Look at results",
    "export": "Share it",
    "study": "Studies",
    "envs": "This machine",
}
"""title of each help panel, by its first command"""
