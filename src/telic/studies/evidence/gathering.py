"""From a study's ledger and files to the facts of a claim."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from telic.storage.files import read_json
from telic.studies.canonical import content_hash
from telic.studies.chain import LedgerEvent
from telic.studies.documents.contract import Phase
from telic.studies.documents.metrics import MetricSpec
from telic.studies.documents.runs import RunStatus
from telic.studies.errors import StudyError
from telic.studies.evidence.claims import Arm, ArmRun, Audit, ClaimFacts
from telic.studies.evidence.measuring import Measurement
from telic.studies.evidence.reading import fatal_alerts, is_reviewed, newest_level
from telic.studies.names import utc_now
from telic.studies.state import StudyState
from telic.studies.study import Study

_CLAIM_PHASES: tuple[Phase, ...] = ("promotion", "incumbent_validation")


class _Seen(NamedTuple):
    """The study at one moment."""

    study: Study
    state: StudyState
    events: Sequence[LedgerEvent]
    revisions: dict[str, int]
    spec: MetricSpec


def gather_claim(study: Study, candidate: str) -> ClaimFacts:
    """Return the facts of the claim that a candidate beats the incumbent (or is a baseline).

    Raises StudyError E_NO_INCUMBENT when there is nothing to compare with, E_IS_INCUMBENT when that
    would be itself.
    """
    state = study.state
    if candidate not in state.candidates:
        raise StudyError("E_NO_CANDIDATE", f"The ledger knows no candidate {candidate}.")
    events = study.events
    seen = _Seen(study, state, events, study.run_revisions, study.metric_spec)
    held = state.candidates[candidate]
    is_baseline = held.kind == "baseline" and (
        state.incumbent is None or state.incumbent.candidate == candidate
    )
    if not is_baseline and state.incumbent is None:
        raise StudyError(
            "E_NO_INCUMBENT",
            f"There is no incumbent to compare {candidate} with.",
            hint="Run and accept a baseline under this protocol first.",
        )
    if not is_baseline and state.incumbent and state.incumbent.candidate == candidate:
        raise StudyError(
            "E_IS_INCUMBENT",
            f"{candidate} is the incumbent: there is nobody to compare it with.",
            hint="Its claim was audited before it was accepted; see telic study report.",
        )
    ours = _arm(seen, candidate, _claim_phases(seen, candidate))
    theirs = None
    if not is_baseline and state.incumbent is not None:
        theirs = _control(seen, state.incumbent.candidate, ours)
    return _facts(seen, ours, theirs)


def _facts(seen: _Seen, ours: Arm, theirs: Arm | None) -> ClaimFacts:
    study, state, spec = seen.study, seen.state, seen.spec
    contract, protocol = study.contract, study.protocol
    pools = contract.seeds
    used = [run.run for arm in (ours, theirs) if arm for run in arm.runs]
    sheets = [name for name, each in state.evidence.items() if each.run in used]
    incumbent = theirs.candidate if theirs else None
    before = study.audits(ours.candidate)
    steps_known = all(run.steps is not None for arm in (ours, theirs) if arm for run in arm.runs)
    level = newest_level(study.folder, state, used)
    facts = ClaimFacts(
        id="a-",
        at="",
        candidate=ours,
        incumbent=theirs,
        is_baseline=theirs is None,
        primary=spec.primary,
        guardrails=spec.guardrails,
        replication_unit=spec.replication_unit,
        ledger_intact=study.ledger.verify().ok,
        evidence_intact=not study.altered(sheets),
        protocol_hash=state.protocol_hash or "",
        checkpoint_selection=protocol.checkpoint_selection,
        pools={
            "allowed": tuple(sorted(pools.pool("promotion") | pools.pool("validation"))),
            "selection": tuple(sorted(pools.pool("selection"))),
        },
        budget_unit="steps" if steps_known else "wall",
        open_fatal=fatal_alerts(seen.events, used),
        reflection_level=level,
        is_reflection_reviewed=level == "high" and is_reviewed(study.folder, state, ours.candidate),
        sigma_0=state.noise_floor,
        other_p=_other_p(seen, ours.candidate, incumbent),
        look=1 + sum(_is_earlier_look(each, ours) for each in before),
    )
    # Named by all it rests on: the same facts are the same audit, other facts another one.
    return facts.model_copy(
        update={"id": f"a-{content_hash(facts.as_data())[:12]}", "at": utc_now()}
    )


def _is_earlier_look(audit: Audit, ours: Arm) -> bool:
    """Tell whether an audit judged this claim with fewer runs and left it open."""
    now, then = {run.run for run in ours.runs}, set(audit.arms["x"].runs)
    return audit.verdict in ("inconclusive", "provisional") and then < now


def _other_p(seen: _Seen, candidate: str, incumbent: str | None) -> tuple[float, ...]:
    """Return the last p of every other candidate that was claimed against this incumbent."""
    found: list[float] = []
    for name in seen.state.candidates:
        audits = [] if name == candidate else seen.study.audits(name)
        same = [
            each
            for each in audits
            if each.incumbent == incumbent and each.protocol_hash == seen.state.protocol_hash
        ]
        if same and same[-1].stats.welch_p is not None:
            found.append(same[-1].stats.welch_p)
    return tuple(sorted(found))


def _claim_phases(seen: _Seen, candidate: str) -> tuple[Phase, ...]:
    """Return the phase that a claim rests on: promotion, or validation for a baseline."""
    is_baseline = seen.state.candidates[candidate].kind == "baseline"
    return ("incumbent_validation",) if is_baseline else ("promotion",)


def _control(seen: _Seen, incumbent: str, ours: Arm) -> Arm:
    """Return the incumbent's arm: its runs on our seeds where it has all of them, else all."""
    arm = _arm(seen, incumbent, _CLAIM_PHASES)
    wanted = {run.seed for run in ours.runs}
    common = {run.seed: run for run in arm.runs if run.seed in wanted}
    if wanted and common.keys() == wanted:
        return arm.model_copy(update={"runs": tuple(common.values()), "unfinished": ()})
    return arm


def _arm(seen: _Seen, candidate: str, phases: Iterable[Phase]) -> Arm:
    held = seen.state.candidates[candidate]
    runs: dict[int, ArmRun] = {}
    open_seeds: dict[int, str] = {}
    for phase in phases:
        for name, run in seen.state.runs_of(candidate, phase).items():
            if seen.revisions.get(name, held.revision) != held.revision:
                continue
            made = _arm_run(seen, name) if run.status == RunStatus.FINISHED else None
            if made is not None:
                runs[run.seed] = made
            else:
                open_seeds.setdefault(run.seed, f"{name} ({run.status})")
    planned = sorted(
        {seed for phase in phases for seed in seen.study.planned_seeds(candidate, phase)}
    )
    missing = [text for seed, text in open_seeds.items() if seed not in runs]
    missing += [f"seed {seed}" for seed in planned if seed not in runs and seed not in open_seeds]
    return Arm(
        candidate=candidate,
        content_hash=held.content_hash,
        runs=tuple(runs[seed] for seed in sorted(runs)),
        unfinished=tuple(missing),
    )


def _arm_run(seen: _Seen, run: str) -> ArmRun | None:
    """Return a finished run as an audit sees it; None while it is not measured."""
    sheet = seen.study.latest("metrics", run=run)
    if sheet is None:
        return None
    found = Measurement.model_validate(sheet.payload)
    if not found.scores:
        return None
    return ArmRun(
        run=run,
        seed=found.seed,
        scores=found.scores,
        guardrails=found.guardrails,
        protocol_hash=found.protocol_hash,
        metric_spec_hash=found.metric_spec_hash,
        code_hash=found.code_hash,
        content_hash=_launched_hash(seen.events, run),
        is_clean=_was_clean(seen, run),
        steps=found.steps,
        wall_s=found.wall_s,
        hardware=found.hardware,
    )


def _launched_hash(events: Iterable[LedgerEvent], run: str) -> str | None:
    """Return the content hash that the candidate had when the run was started."""
    held: dict[str, str] = {}
    for event in events:
        if event.type == "launch.intent" and event.data.get("run") == run:
            return event.data.get("content_hash") or held.get(str(event.data["candidate"]))
        if event.type.startswith("candidate.") and event.data.get("content_hash"):
            held[str(event.subject)] = event.data["content_hash"]
    return None


def _was_clean(seen: _Seen, run: str) -> bool | None:
    """Tell whether gate G18 found the tree as agreed; without gates, whether git saw no change."""
    intent = next(
        (e for e in seen.events if e.type == "launch.intent" and e.data.get("run") == run), None
    )
    gates = intent.data.get("gates", {}) if intent else {}
    if "G18" in gates:
        return bool(gates["G18"])
    path = seen.study.folder.run(run) / "git.json"
    return not read_json(path).get("changed", ["unknown"]) if path.is_file() else None
