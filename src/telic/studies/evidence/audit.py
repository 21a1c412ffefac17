"""Audit a claim by collecting both arms, running twelve checks, and deriving a verdict.

Audits of identical facts are byte-identical.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pydantic import Field

from telic.core.stats import holm
from telic.studies.canonical import content_hash, utc_now
from telic.studies.documents.base import Document, DocumentPart, StudyActor
from telic.studies.documents.candidate import CheckResult, Evidence, RunStatus
from telic.studies.documents.contract import BudgetUnit, Guardrail, Primary, StudyPhase
from telic.studies.errors import StudyError
from telic.studies.evidence import _statistics as statistics
from telic.studies.evidence._statistics import FIRST_ALPHA, AuditStats, BootstrapInterval, oriented
from telic.studies.evidence.measurement import Measurement
from telic.studies.evidence.review import is_reviewed, newest_level
from telic.studies.evidence.store import add_evidence

if TYPE_CHECKING:
    from telic.studies.study import Study

AuditVerdict = Literal[
    "valid_improvement",
    "no_improvement",
    "inconclusive",
    "provisional",
    "baseline_established",
    "invalid",
]
AUDIT_CHECKS = {
    "A01": ("ledger and evidence intact", "restore the files from version control"),
    "A02": (
        "launched as validated, with a clean tree",
        "commit or remove uncommitted changes, then repeat the runs",
    ),
    "A03": ("same protocol and metric spec", "repeat the runs under the current protocol"),
    "A04": (
        "same evaluator, interpreter, packages and extractor",
        "restore evaluator, interpreter and packages, then repeat the runs",
    ),
    "A05": ("every planned run finished; none was dropped", "repair and repeat the runs"),
    "A06": (
        "unique seeds from their pool, not used for selection",
        "use new seeds of the promotion pool",
    ),
    "A07": ("checkpoint rule fixed in advance", "fix the rule in eval_protocol.yaml"),
    "A08": (
        "equal training budget",
        "give both arms the same plan.steps; set baseline.equal_budget for another unit",
    ),
    "A09": ("enough independent runs", "run more seeds"),
    "A10": ("guardrails hold", "change the candidate so that the guardrail holds"),
    "A11": ("no diverged run, no unreviewed hacking risk", "repair the run, or review it"),
    "A12": ("same hardware class", "repeat the runs of one arm on the same hardware as the other"),
}
"""title and remedy of each check"""

_BUDGET_TOLERANCE = 0.02
_LATER_ALPHA = 0.025
"""stricter significance level for claims that were audited before"""
_MIN_POI = 0.75
GAIN = "gain"
"""name in a falsifier of the primary metric's gain over the incumbent"""
_FORM = re.compile(r"\s*(\S+)\s*(<=|>=|<|>)\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*")
_COMPARE = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_VOIDING = {"A01", "A02", "A03", "A04", "A05", "A06", "A07", "A08", "A11"}
_BASELINE = {"A01", "A02", "A04", "A05", "A06", "A07", "A08", "A09", "A12"}


class ArmSummary(DocumentPart):
    """Summary of one arm in an audit."""

    n: int
    seeds: tuple[int, ...]
    runs: tuple[str, ...]
    scores: tuple[float, ...]
    """measured score of each run"""
    iqm: float | None
    ci: tuple[float, float] | None


class GuardrailResult(DocumentPart):
    """Interval for a guardrail's value (absolute) or change (non_inferior)."""

    key: str
    ci: tuple[float, float] | None
    passed: bool
    severity: Literal["block", "warn"]


class Audit(Document):
    """Audit of whether the evidence supports a claim (audits/<id>.json)."""

    schema_id: str = Field(default="telic.audit/1", alias="schema")
    id: str
    at: str
    candidate: str
    incumbent: str | None
    protocol_hash: str
    arms: dict[str, ArmSummary]
    checks: tuple[CheckResult, ...]
    stats: AuditStats
    guardrails: tuple[GuardrailResult, ...] = ()
    verdict: AuditVerdict
    reasons: tuple[str, ...] = ()
    label: str = "seed_claim"
    n_star: int | None = None
    prng_seed: str
    """integer as text, since it does not fit in a double"""


# ---------------------------------------------------------------------------- the claim


class Arm(DocumentPart):
    """Arm of a comparison, with runs in seed order."""

    candidate: str
    content_hash: str | None = None
    runs: tuple[Measurement, ...] = ()
    unfinished: tuple[str, ...] = ()
    """planned seeds whose run is missing or unfinished"""

    def scores(self, direction: str) -> list[float]:
        """Return one score per run, oriented so that larger is better."""
        return [oriented(run.value, direction) for run in self.runs]


class ClaimFacts(DocumentPart):
    """Inputs of an audit."""

    id: str
    at: str
    candidate: Arm
    incumbent: Arm | None
    """arm of the incumbent, or None for a baseline"""
    primary: Primary
    guardrails: tuple[Guardrail, ...] = ()
    altered: tuple[str, ...] = ()
    """altered ledger entries and evidence"""
    protocol_hash: str
    checkpoint_selection: str
    equal_budget: BudgetUnit = "steps"
    allowed_seeds: tuple[int, ...]
    selection_seeds: tuple[int, ...]
    """seeds used to select the candidate, excluded as evidence"""
    diverged: tuple[str, ...] = ()
    """series of runs that end without a finite value"""
    is_risk_unreviewed: bool = False
    """true if the last reflection has a high hacking risk and was not reviewed"""
    sigma_0: float | None = None
    other_p: tuple[float, ...] = ()
    """p-values of other candidates that reached promotion against this incumbent"""
    look: int = Field(default=1, ge=1)
    falsifier: str = ""
    """condition under which the author's hypothesis is refuted"""

    @property
    def arms(self) -> list[Arm]:
        """Arm of the candidate, and arm of the incumbent if there is one."""
        return [arm for arm in (self.candidate, self.incumbent) if arm is not None]

    @property
    def runs(self) -> list[Measurement]:
        """Runs of all arms."""
        return [run for arm in self.arms for run in arm.runs]


def _gather(study: Study, candidate: str) -> ClaimFacts:
    """Collect the facts of a claim that a candidate beats the incumbent (or is a baseline).

    Raises StudyError E_NO_INCUMBENT if there is nothing to compare with, or E_IS_INCUMBENT if the
    candidate is the incumbent.
    """
    incumbent = study.incumbent.candidate if study.incumbent else None
    is_baseline = study.candidate_state(candidate).kind == "baseline"
    ours = _arm(study, candidate, ("incumbent_validation",) if is_baseline else ("promotion",))
    theirs = None
    if not is_baseline or incumbent not in (None, candidate):
        if incumbent is None:
            raise StudyError(
                "E_NO_INCUMBENT",
                f"{candidate} needs an incumbent for comparison.",
                hint="Run and accept a baseline under this protocol first.",
            )
        if incumbent == candidate:
            raise StudyError(
                "E_IS_INCUMBENT",
                f"{candidate} is the incumbent and has nothing to be compared with.",
                hint="Its claim was audited before it was accepted; see telic study report.",
            )
        theirs = _arm(study, incumbent, ("promotion", "incumbent_validation"), is_control=True)
        wanted = {run.seed for run in ours.runs}
        common = tuple(run for run in theirs.runs if run.seed in wanted)
        if wanted and len(common) == len(wanted):  # restrict to our seeds if all exist
            theirs = theirs.model_copy(update={"runs": common, "unfinished": ()})
    spec, seeds, state = study.metric_spec, study.contract.seeds, study.state
    used = sorted(run.run for arm in (ours, theirs) if arm for run in arm.runs)
    sheets = [name for name, x in state.evidence.items() if x.run in used]
    parts = {"ledger": study.ledger.verify().ok, "evidence": not study.altered(sheets)}
    ran = {run.run for run in ours.runs}
    earlier = sum(  # earlier inconclusive audits of this claim with fewer runs
        audit.verdict in ("inconclusive", "provisional") and set(audit.arms["x"].runs) < ran
        for audit in study.audits(candidate)
    )
    claim = (theirs.candidate if theirs else None, state.protocol_hash)
    last_p = {
        name: audit.stats.welch_p
        for name in state.candidates
        if name != candidate
        for audit in study.audits(name)
        if (audit.incumbent, audit.protocol_hash) == claim
    }
    facts = ClaimFacts(
        id="a-",
        at="",
        candidate=ours,
        incumbent=theirs,
        primary=spec.primary,
        guardrails=spec.guardrails,
        altered=tuple(name for name, is_intact in parts.items() if not is_intact),
        protocol_hash=state.protocol_hash or "",
        checkpoint_selection=study.protocol.checkpoint_selection,
        equal_budget=study.contract.baseline.equal_budget,
        allowed_seeds=tuple(sorted(seeds.pool("promotion") | seeds.pool("validation"))),
        selection_seeds=tuple(sorted(seeds.pool("selection"))),
        diverged=tuple(
            f"{', '.join(run.diverged)} of {run.run}"
            for arm in (ours, theirs)
            for run in (arm.runs if arm else ())
            if run.diverged
        ),
        is_risk_unreviewed=newest_level(study, used) == "high"
        and not is_reviewed(study, candidate),
        sigma_0=state.noise_floor,
        other_p=tuple(sorted(p for p in last_p.values() if p is not None)),
        look=1 + earlier,
        falsifier=study.candidate(candidate).hypothesis.falsifier,
    )
    # The name is derived from all inputs, so identical facts give the same audit.
    name = f"a-{content_hash(facts.as_data())[:12]}"
    return facts.model_copy(update={"id": name, "at": utc_now()})


def _arm(
    study: Study, candidate: str, phases: Iterable[StudyPhase], *, is_control: bool = False
) -> Arm:
    """Return a candidate's arm. A control arm has the started runs and the original plan."""
    state = study.state.candidates[candidate]
    runs: dict[int, Measurement] = {}
    unmeasured: dict[int, str] = {}
    for phase in phases:
        for name, run in study.state.runs_of(candidate, phase).items():
            if run.revision != state.revision:
                continue
            measured = study.measurement(name)
            if run.status == RunStatus.FINISHED and measured is not None and measured.scores:
                runs[run.seed] = measured
            else:
                why = (measured.problem if measured else "") or run.status
                unmeasured.setdefault(run.seed, f"{name} ({why})")
    own = study.candidate(candidate).plan.seeds
    planned = {
        seed
        for phase in phases
        for seed in (own.get(phase, ()) if is_control else study.planned_seeds(candidate, phase))
    }
    missing = [text for seed, text in unmeasured.items() if seed not in runs]
    missing += [f"seed {seed}" for seed in sorted(planned - runs.keys() - unmeasured.keys())]
    return Arm(
        candidate=candidate,
        content_hash=state.content_hash,
        runs=tuple(runs[seed] for seed in sorted(runs)),
        unfinished=tuple(missing),
    )


# ---------------------------------------------------------------------------- the audit


def audit_result(study: Study, candidate: str, actor: StudyActor) -> Evidence:
    """Audit a candidate's claim and record it as evidence.

    If the facts have not changed, the audit is the same and is not recorded again.
    """
    facts = _gather(study, candidate)
    for name in study.evidence_names("audit", candidate=candidate):
        if study.sheet(name).payload["id"] == facts.id:
            return study.sheet(name)
    audit = audit_claim(facts)
    text = ": ".join([audit.verdict, *audit.reasons[:1]])
    return add_evidence(study, "audit", audit.as_data(), actor, candidate=candidate, summary=text)


def audit_claim(facts: ClaimFacts) -> Audit:
    """Return the audit of a claim."""
    seed = statistics.seed_of(facts.id)
    guardrails = tuple(_guardrail(facts, rule, seed) for rule in facts.guardrails)
    checks = _run_checks(facts, guardrails)
    stats = _stats(facts, seed)
    verdict, reasons = _verdict(facts, checks, stats)
    n_star = None
    if verdict in ("inconclusive", "provisional") and stats.delta_min is not None:
        n_star = statistics.seeds_needed(stats.sigma or 0.0, stats.delta_min)
        n_star = statistics.pairs_needed(stats.alpha) if stats.is_counted else n_star
    return Audit(
        id=facts.id,
        at=facts.at,
        candidate=facts.candidate.candidate,
        incumbent=facts.incumbent.candidate if facts.incumbent else None,
        protocol_hash=facts.protocol_hash,
        arms={
            name: _summary(facts, arm, seed) for name, arm in zip("xy", facts.arms, strict=False)
        },
        checks=tuple(checks),
        stats=stats,
        guardrails=guardrails,
        verdict=verdict,
        reasons=tuple(reasons),
        n_star=n_star,
        prng_seed=str(seed),
    )


def _summary(facts: ClaimFacts, arm: Arm, seed: int) -> ArmSummary:
    scores, sign = arm.scores(facts.primary.direction), oriented(1.0, facts.primary.direction)
    middle, interval = statistics.iqm(scores), statistics.iqm_interval(scores, seed)
    ends = sorted(sign * end for end in interval) if interval else None
    return ArmSummary(
        n=len(arm.runs),
        seeds=tuple(run.seed for run in arm.runs),
        runs=tuple(run.run for run in arm.runs),
        scores=tuple(run.value for run in arm.runs),
        iqm=None if middle is None else sign * middle,
        ci=None if ends is None else (ends[0], ends[1]),
    )


def _stats(facts: ClaimFacts, seed: int) -> AuditStats:
    if facts.incumbent is None:  # noise floor: spread over baseline seeds
        values = [run.value for run in facts.candidate.runs]
        floor = statistics.spread(values) if len(values) > 1 else None
        interval = statistics.spread_interval(values, seed)
        return AuditStats(sigma_0=floor, sigma_0_ci=interval, look=facts.look)
    alpha = FIRST_ALPHA if facts.look == 1 else _LATER_ALPHA
    if not facts.incumbent.runs or not facts.candidate.runs:
        return AuditStats(look=facts.look, alpha=alpha)
    primary = facts.primary
    ours, theirs = (arm.scores(primary.direction) for arm in facts.arms)
    our_seeds, their_seeds = ([run.seed for run in arm.runs] for arm in facts.arms)
    found = statistics.difference(ours, theirs, seed, common_seeds=our_seeds == their_seeds)
    least = max(
        primary.min_effect_abs,
        primary.min_effect_rel * abs(statistics.iqm(theirs) or 0.0),
        primary.noise_k * (facts.sigma_0 or 0.0),
    )
    more = {"delta_min": least, "holm_p": holm([found.welch_p, *facts.other_p])[0]}
    more |= {"sigma_0": facts.sigma_0, "look": facts.look, "alpha": alpha}
    return found.model_copy(update=more)


def _guardrail(facts: ClaimFacts, rule: Guardrail, seed: int) -> GuardrailResult:
    """Test whether the worse bound of a guardrail's interval passes."""
    arms = (facts.candidate, facts.incumbent or facts.candidate)
    passed, interval = False, None
    if all(arm.runs and all(rule.key in run.guardrails for run in arm.runs) for arm in arms):
        x, y = (
            [oriented(run.guardrails[rule.key], rule.direction) for run in arm.runs] for arm in arms
        )
        if rule.rule == "absolute":
            interval = statistics.iqm_interval(x, seed)
            limit = oriented(rule.threshold or 0.0, rule.direction)
        elif facts.incumbent is None:  # no reference to compare with yet
            return GuardrailResult(key=rule.key, ci=None, passed=True, severity=rule.severity)
        else:
            interval = statistics.difference_interval(x, y, seed)
            limit = -(rule.margin or 0.0)
        passed = interval is not None and interval.low >= limit
    if interval and rule.rule == "absolute" and rule.direction == "min":
        interval = BootstrapInterval(-interval.high, -interval.low)
    return GuardrailResult(key=rule.key, ci=interval, passed=passed, severity=rule.severity)


def _verdict(
    facts: ClaimFacts, checks: Sequence[CheckResult], stats: AuditStats
) -> tuple[AuditVerdict, list[str]]:
    failed = {check.id: check.why for check in checks if not check.passed}
    reasons = [f"{code}: {failed[code]}; {AUDIT_CHECKS[code][1]}" for code in sorted(failed)]
    is_baseline = facts.incumbent is None
    counting = failed.keys() & _BASELINE if is_baseline else failed.keys()
    if counting & _VOIDING:
        return "invalid", reasons
    if is_baseline:
        return ("inconclusive" if counting else "baseline_established"), reasons
    if refuted := _refutation(facts, stats):
        return "no_improvement", [refuted, *reasons]
    if stats.ci is not None and stats.delta_min is not None and stats.ci[1] < stats.delta_min:
        most = f"at most {stats.ci[1]:.4g} better, but {stats.delta_min:.4g} is required"
        return "no_improvement", [*reasons, most]
    short = _shortcomings(stats)
    if stats.is_counted and stats.sigma == 0:
        reasons.append("all seeds gave the same score: does the seed affect training?")
    if not short and not failed:
        return "valid_improvement", reasons
    if not short and set(failed) == {"A09"}:
        return "provisional", reasons
    return "inconclusive", reasons + short


class Condition(NamedTuple):
    """Comparison of a metric or the gain with a number, e.g. `success < 0.6`."""

    what: str
    comparison: str
    number: float


def read_condition(text: str) -> Condition | None:
    """Parse a condition, or return None for free text, which only people can check."""
    match = _FORM.fullmatch(text)
    return None if match is None else Condition(match[1], match[2], float(match[3]))


def _refutation(facts: ClaimFacts, stats: AuditStats) -> str | None:
    """Return why the falsifier is met, or None if it is not met or cannot be evaluated."""
    condition, value = read_condition(facts.falsifier), stats.delta
    if condition is None:
        return None
    if condition.what != GAIN:
        key, runs = facts.primary.key, facts.candidate.runs
        values = [{**run.guardrails, key: run.primary}.get(condition.what) for run in runs]
        value = None if None in values else statistics.iqm([x for x in values if x is not None])
    if value is None or not _COMPARE[condition.comparison](value, condition.number):
        return None
    return f"its falsifier is met: {facts.falsifier.strip()}, and the value is {value:.4g}"


def _shortcomings(stats: AuditStats) -> list[str]:
    """Return the reasons why the statistics do not show an improvement."""
    delta, poi = stats.delta or 0.0, stats.poi or 0.0
    least = math.inf if stats.delta_min is None else stats.delta_min
    why: list[str] = []
    if delta < least:
        why.append(f"the gain of {delta:.4g} is below the required {least:.4g}")
    if stats.ci is None or stats.ci[0] <= 0:
        why.append("the interval of the gain includes zero")
    if stats.holm_p is None:
        why.append("the runs have no variance, so no test applies")
    elif stats.holm_p >= stats.alpha:
        weak = f"the corrected p-value is {stats.holm_p:.3g}, not below {stats.alpha:g}"
        if stats.is_counted and stats.holm_p == stats.welch_p:
            needed = statistics.pairs_needed(stats.alpha)
            weak += f": too few pairs; a sign test requires {needed} unanimous pairs"
        why.append(weak)
    if poi < _MIN_POI:
        why.append(f"the probability that a run beats the incumbent's is only {poi:.2f}")
    return why


# ---------------------------------------------------------------------------- the twelve checks


def _run_checks(facts: ClaimFacts, guardrails: Iterable[GuardrailResult]) -> list[CheckResult]:
    """Return all twelve checks in order. Checks that do not apply to a baseline pass."""
    runs, arms = facts.runs, facts.arms
    owned = [(arm.content_hash, run) for arm in arms for run in arm.runs]
    other = [run.run for own, run in owned if run.content_hash is None or run.content_hash != own]
    dirty = [run.run for run in runs if run.is_clean is not True]
    protocol, spec = _same(facts, "protocol_hash"), _same(facts, "metric_spec_hash")
    if not protocol[1] and protocol[0] != [facts.protocol_hash]:
        protocol = (protocol[0], "measured under a different protocol than the study's")
    unfinished = [run for arm in arms for run in arm.unfinished]
    empty = [arm.candidate for arm in arms if not arm.runs]
    broken = [rail.key for rail in guardrails if not rail.passed and rail.severity == "block"]
    counts = [len(arm.runs) for arm in arms]
    risk = ["is high and not reviewed"] if facts.is_risk_unreviewed else []
    found: dict[str, tuple[Any, str]] = {
        "A01": ([*facts.altered], _listed({"altered": facts.altered})),
        "A02": (
            other + dirty,
            _listed({"launched with different content": other, "worktree not clean": dirty}),
        ),
        "A03": (protocol[0], protocol[1] or spec[1]),
        "A04": _same_code(facts),
        "A05": (unfinished, _listed({"not finished": unfinished, "no finished run": empty})),
        "A06": _seeds(facts),
        "A07": (facts.checkpoint_selection, ""),  # the protocol's only rule
        "A08": _budget(facts),
        "A09": (counts, "; ".join(f"an arm has {x} of 5 runs" for x in counts if x < 5)),
        "A10": (broken, _listed({"broken": broken})),
        "A11": ([*facts.diverged], _listed({"not finite": facts.diverged, "hacking risk": risk})),
        "A12": _same(facts, "hardware"),
    }
    return [
        CheckResult(id=code, title=AUDIT_CHECKS[code][0], passed=not why, value=value, why=why)
        for code, (value, why) in found.items()
    ]


def _same(facts: ClaimFacts, field: str) -> tuple[list[str], str]:
    """Check that a recorded field has equal values in all runs of both arms."""
    values = [getattr(run, field) for run in facts.runs]
    recorded = sorted({value for value in values if value is not None})
    if None in values:
        return recorded, f"{field} is not recorded for all runs"
    return recorded, "" if len(recorded) == 1 else f"{field} differs between runs"


def _same_code(facts: ClaimFacts) -> tuple[list[str], str]:
    """Check that all runs were measured by the same code and list the parts that differ."""
    hashes, why = _same(facts, "code_hash")
    names = ("evaluator", "interpreter", "packages or import paths", "extractor")
    parts = [value.split("-") for value in hashes]
    if why and {len(names), *map(len, parts)} == {len(names)}:
        columns = zip(names, *parts, strict=True)
        differ = [name for name, *column in columns if len(set(column)) > 1]
        why = f"{', '.join(differ)} differ between runs" if differ else why
    return hashes, why


def _listed(problems: Mapping[str, Sequence[str]]) -> str:
    return "; ".join(f"{text}: {', '.join(names)}" for text, names in problems.items() if names)


def _seeds(facts: ClaimFacts) -> tuple[list[str], str]:
    allowed, used = set(facts.allowed_seeds), set(facts.selection_seeds)
    problems: list[str] = []
    for arm in facts.arms:
        seeds = [run.seed for run in arm.runs]
        found = {
            "uses a seed twice": sorted({x for x in seeds if seeds.count(x) > 1}),
            "uses seeds outside the pool": sorted(set(seeds) - allowed),
            "uses seeds of the selection": sorted(set(seeds) & used),
        }
        problems += [f"{arm.candidate} {what}: {which}" for what, which in found.items() if which]
    return problems, "; ".join(problems)


def _budget(facts: ClaimFacts) -> tuple[Any, str]:
    """Compare the budgets of all runs, in {steps} of the commands or in the contract's unit."""
    is_timed = facts.equal_budget == "wall_clock"
    amounts = [run.wall_s if is_timed else run.launched_steps for run in facts.runs]
    if not is_timed and not any(amounts):
        return None, ""  # no {steps} in the command, so all runs have the same budget
    known = [amount for amount in amounts if amount is not None]
    if len(known) < len(amounts):
        return known, f"{facts.equal_budget} is not recorded for every run"
    low, high = min(known, default=0.0), max(known, default=0.0)
    is_equal = high - low <= (_BUDGET_TOLERANCE if is_timed else 0.0) * high
    why = f"runs were launched with {low:g} to {high:g} ({facts.equal_budget})"
    return [low, high], "" if is_equal else why
