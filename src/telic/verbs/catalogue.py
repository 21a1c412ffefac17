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

telic study contract check

telic study approve budget hardware

telic study state

telic study go --confirm RUN_CANDIDATE

All commands but [bold]run[/] and [bold]go[/] only read and write files under .telic/.
""",
    verbs={
        "init": "study:init",
        "contract": VerbGroup(
            help="What may be tried, and how it is judged.",
            verbs={
                "draft": "study_contract:draft",
                "check": "study_contract:check",
                "evaluator": "study_contract:evaluator",
                "amend": "study_contract:amend",
            },
        ),
        "approve": "study_approvals:approve",
        "state": "study_state:state",
        "pause": "study:pause",
        "resume": "study:resume",
        "close": "study:close",
        "ledger": VerbGroup(
            help="The append-only record of the study.",
            verbs={"verify": "study_state:verify", "adopt": "study_state:adopt"},
        ),
        "adapter": "study_contract:adapter",
        "confirm": "study_contract:confirm",
        "candidate": VerbGroup(
            help="Ideas, one bounded change each.",
            verbs={
                "new": "study_candidates:draft_candidate",
                "revise": "study_candidates:revise_candidate",
                "validate": "study_candidates:validate",
                "show": "study_candidates:show",
                "similar": "study_candidates:similar",
                "withdraw": "study_candidates:withdraw",
            },
        ),
        "baseline": "study_candidates:baseline",
        "queue": VerbGroup(
            help="Jobs by phase; nothing here starts one.",
            verbs={
                "plan": "study_runs:plan",
                "step": "study_runs:step",
                "advance": "study_runs:advance",
                "more-seeds": "study_runs:more_seeds",
                "check-incumbent": "study_runs:check_incumbent",
                "batch": "study_runs:batch",
                "reorder": "study_runs:reorder",
            },
        ),
        "next": "study_state:next_action",
        "go": "study_go:go",
        "decide": "study_evidence:decide",
        "revert": "study_evidence:revert",
        "run": "study_runs:launch_candidate",
        "metrics": "study_evidence:metrics",
        "analyze": "study_evidence:analyze",
        "monitor": "study_evidence:monitor",
        "reflect": "study_evidence:reflect",
        "review": "study_evidence:review",
        "dr-plan": "study_evidence:dr_plan",
        "dr-summary": "study_evidence:dr_summary",
        "audit-result": "study_evidence:audit_result",
        "report": "study_state:report",
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
