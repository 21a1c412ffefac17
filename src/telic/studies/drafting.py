"""Fill in what an author left open: seeds, isolation, invariants, base; pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from telic.studies.documents.contract import Contract, Phase
from telic.studies.errors import InvalidDocument
from telic.studies.launch.request import PHASE_SHARE
from telic.studies.state import StudyState
from telic.studies.validation.spending import LEAST_SEEDS, ROLES

AUTHORED = (
    "kind",
    "parents",
    "hypothesis",
    "change",
    "base_commit",
    "evidence_refs",
    "reflection_ref",
    "dr_probe_ref",
    "replicate_of",
    "invariants",
    "plan",
    "isolation",
    "origin",
    "curriculum",
)
"""what an author may write; everything else is kept by the system"""
_BASELINE_PHASES: tuple[Phase, ...] = ("smoke", "incumbent_validation")
_INVARIANTS = ({"check": "metric_untouched"}, {"check": "eval_untouched"})


def check_authored(draft: Mapping[str, Any]) -> None:
    """Refuse keys that only the system may write; raises InvalidDocument E_DRAFT."""
    foreign = [key for key in draft if key not in AUTHORED and not key.startswith("x-")]
    if foreign:
        raise InvalidDocument(
            "E_DRAFT",
            f"A draft cannot set {', '.join(sorted(foreign))}.",
            hint=f"It may set {', '.join(AUTHORED)}.",
        )


def filled(
    draft: Mapping[str, Any],
    contract: Contract,
    state: StudyState,
    head_commit: str | None,
    engine: str,
) -> dict[str, Any]:
    """Return the draft with sensible values for what it leaves out."""
    out = dict(draft)
    kind = out.get("kind")
    if kind == "baseline":
        _fill_baseline(out, contract)
    elif "parents" not in out:
        out["parents"] = [state.incumbent.candidate] if state.incumbent else []
    out.setdefault("invariants", list(_INVARIANTS))
    out.setdefault("origin", {"engine": engine})
    if head_commit is not None:
        out.setdefault("base_commit", head_commit)
    change = out.get("change") or {}
    brings_files = bool(change.get("patch") or change.get("files"))
    out.setdefault("isolation", {"mode": "worktree" if brings_files else "in_place"})
    out["plan"] = _filled_plan(
        dict(out.get("plan") or {}), contract, is_baseline=kind == "baseline"
    )
    return out


def _fill_baseline(out: dict[str, Any], contract: Contract) -> None:
    out.setdefault("parents", [])
    overrides = {path: {"from": to, "to": to} for path, to in contract.baseline.overrides.items()}
    out.setdefault("change", {"overrides": overrides})
    out.setdefault(
        "hypothesis",
        {
            "statement": "The repository as it is gives a level to measure others against.",
            "mechanism": "Nothing changes; several seeds show what luck alone does.",
            "falsifier": "A run does not finish, or the metric cannot be read from it.",
        },
    )


def _filled_plan(plan: dict[str, Any], contract: Contract, is_baseline: bool) -> dict[str, Any]:
    if is_baseline:
        plan.setdefault("phases", list(_BASELINE_PHASES))
    phases: list[Phase] = list(plan.setdefault("phases", ["smoke", "short_trial", "promotion"]))
    seeds = dict(plan.get("seeds") or {})
    if is_baseline and contract.baseline.seeds:
        seeds.setdefault("incumbent_validation", list(contract.baseline.seeds))
    for phase in phases:
        # Every candidate takes the first seeds of a pool, so that arms can be compared in pairs.
        seeds.setdefault(phase, sorted(_pool(contract, phase))[: LEAST_SEEDS.get(phase, 1)])
    est = dict(plan.get("est") or {})
    if plan.get("steps"):
        runs = sum(PHASE_SHARE[phase] * len(seeds[phase]) for phase in phases)
        est.setdefault("env_steps", round(plan["steps"] * runs))
    return {**plan, "seeds": seeds, "est": est}


def _pool(contract: Contract, phase: Phase) -> frozenset[int]:
    return contract.seeds.pool(ROLES[phase]) if phase in ROLES else frozenset()
