"""Every verb by its command, in the order in which a newcomer needs them."""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

from telic.core.verb import Verb


class VerbGroup(NamedTuple):
    """Verbs under one word."""

    help: str
    verbs: dict[str, str | VerbGroup]
    """by word, as "module:name" of this package, or a group again"""
    examples: str = ""
    own: str | None = None
    """the verb of the word alone"""


def load(path: str) -> Verb[Any, Any]:
    """Return the verb that "module:name" names."""
    module, _, name = path.partition(":")
    return getattr(import_module(f"telic.verbs.{module}"), name)


_SEARCH = VerbGroup(
    "Optimize the parameters of a small policy.",
    {name: f"search:{name}" for name in ("envs", "methods")},
    own="search:search",
)
_BENCH = VerbGroup(
    "Benchmarks: intents run as sessions, judges on labelled episodes.",
    {"intents": "machine:intents", "judges": "machine:judges"},
)
_TRACK = VerbGroup(
    "Train, evaluate and export policies that track reference motions.",
    {name: f"track:{name}" for name in ("train", "eval", "sweep", "export")},
)
_MOTIONS = VerbGroup(
    "Reference motions: generate, import, list, show, filter and mirror clips.",
    {
        "list": "motions:list_motions",
        "show": "motions:show_motion",
        "generate": "motions:generate_motions",
        "import": "motions:import_motions",
        "filter": "motions:filter_motions",
        "mirror": "motions:mirror_motions",
    },
)
_JOBS = VerbGroup(
    "Manage remote jobs: list, logs, stop, retry.",
    {"logs": "jobs:logs", "stop": "jobs:stop", "retry": "jobs:retry"},
    own="jobs:jobs",
)
_PLUGIN = VerbGroup(
    "Skills, agents and hooks for coding agents.",
    {"build": "machine:build", "hook": "machine:hook"},
)

_STUDY = VerbGroup(
    help="Experiments with a contract, a ledger and evidence, in any repository.",
    examples="""
telic study init --task g1-walk --study speed --says "walk at commanded speed"

telic study contract --set budget.gpu_h=96 --amend "first version"

telic study approve

telic study run --confirm RUN_CANDIDATE

Only [bold]run[/] and [bold]adapter --smoke[/] start processes.
""",
    verbs={
        "init": "study:init",
        "adapter": "study_agreement:adapter",
        "contract": "study_agreement:contract",
        "approve": "study_agreement:approve",
        "propose": "study_candidates:propose",
        "run": "study_runs:run",
        "status": "study_state:status",
        "next": "study_state:next_action",
        "audit": "study_evidence:audit",
        "probe": "study_evidence:probe",
        "decide": "study_candidates:decide",
        "report": "study_state:report",
        "verify": "study_state:verify",
        "pause": "study:pause",
        "resume": "study:resume",
    },
)


VERBS: dict[str, str | VerbGroup] = {
    "run": "session:run",
    "train": "train:train",
    "search": _SEARCH,
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
    "list": "things:list_things",
    "show": "things:show",
    "watch": "control:watch",
    "play": "play:play",
    "report": "things:report",
    "delete": "things:delete",
    "restore": "things:restore",
    "export": "things:export",
    "study": _STUDY,
    "envs": "machine:envs",
    "robots": "robots:robots",
    "motions": _MOTIONS,
    "presets": "train:presets",
    "doctor": "machine:doctor",
    "bench": _BENCH,
    "jobs": _JOBS,
    "plugin": _PLUGIN,
}
PANELS: dict[str, str] = {
    "run": "Make a policy",
    "pause": "Control it",
    "list": "Look at results",
    "export": "Share it",
    "study": "Studies",
    "envs": "This machine",
}
"""the first command of each panel of the help, and its title"""
