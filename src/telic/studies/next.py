"""The next safe action of a study: the first thing that applies, in a fixed order. Pure.

Nothing is done here and nothing is started: whoever asks gets the exact command and the reason.
"""

from __future__ import annotations

from collections.abc import Callable

from telic.studies.next_decision import next_decision
from telic.studies.outlook import ActionCode, NextAction, Outlook
from telic.studies.stops import Stop

CONFIRM = "RUN_CANDIDATE"
_REVIEW = "telic study review {} --exploit --says TEXT"


def next_action(outlook: Outlook) -> NextAction:
    """Return the first thing that applies."""
    for rule in _ORDER:
        found = rule(outlook)
        if found is not None:
            return found
    raise AssertionError("asking a person always applies")


def _repair(o: Outlook) -> NextAction | None:
    if not o.integrity:
        return None
    return NextAction(
        action="repair",
        why=o.integrity[0],
        blocking=o.integrity,
        command="telic study ledger verify",
    )


def _stop(o: Outlook) -> NextAction | None:
    if o.is_closed:
        said = "the study is closed; nothing more is launched"
        return NextAction(action="stop", args={"rule": "closed"}, why=said)
    if not o.stops:
        return None
    first = o.stops[0]
    return NextAction(
        action="stop",
        args={"rule": first.rule, "effect": first.effect, "kill_running": first.kill_running},
        why=first.why,
        blocking=tuple(f"{each.rule}: {each.why}" for each in o.stops),
        command=_way_out(o, first),
    )


def _way_out(o: Outlook, stop: Stop) -> str | None:
    """Return what lets a study go on after a stop, where something does."""
    if stop.rule == "hacking_high" and o.unreviewed:
        return _REVIEW.format(o.unreviewed[0])
    verb = {"pause": "resume", "close": "close"}.get(stop.effect)
    return None if verb is None else f"telic study {verb} --reason TEXT"


def _agree(o: Outlook) -> NextAction | None:
    if o.is_agreed and o.unwritten is None:
        return None
    missing = f"{o.unwritten} is not written" if o.unwritten else "no contract has been agreed on"
    scans = o.unwritten == "adapter.yaml"
    return NextAction(
        action="agree",
        why=missing,
        command="telic study audit --write" if scans else "telic study contract check",
    )


def _advance(o: Outlook) -> NextAction | None:
    if not o.passing:
        return None
    first = o.passing[0]
    return NextAction(
        action="advance",
        args={"candidate": first.candidate, "phase": first.to},
        why=first.why,
        command="telic study queue advance",
    )


def _launch(o: Outlook) -> NextAction | None:
    if o.ready:
        first = o.ready[0]
        job = first.job
        retry = f" --retry-of {first.retry_of}" if first.retry_of else ""
        return NextAction(
            action="launch",
            args={
                "candidate": job.candidate,
                "phase": job.phase,
                "seed": job.seed,
                "gpu": job.slot.gpu,
                "retry_of": first.retry_of,
            },
            why=f"{job.job_id} is ready",
            blocking=o.launch_blocks,
            command=f"telic study run {job.candidate} --phase {job.phase} --seed {job.seed}{retry} "
            f"--execute --confirm {CONFIRM}",
        )
    if o.unchecked:
        return NextAction(
            action="plan",
            args={"candidate": o.unchecked},
            why=f"{o.unchecked}: its claim was not checked on fresh seeds",
            command="telic study queue check-incumbent",
        )
    return None


def _first_of(
    field: str, action: ActionCode, what: str, why: str, command: str, *blocking: str
) -> Callable[[Outlook], NextAction | None]:
    """Return the rule that acts on the first name of a list of the outlook."""

    def rule(o: Outlook) -> NextAction | None:
        names: tuple[str, ...] = getattr(o, field)
        if not names:
            return None
        return NextAction(
            action=action,
            args={what: names[0], "others": list(names[1:])},
            why=f"{names[0]}: {why}",
            blocking=blocking,
            command=command.format(names[0]),
        )

    return rule


def _mend_draft(o: Outlook) -> NextAction | None:
    if not o.faulty:
        return None
    name, why = o.faulty[0]
    return NextAction(
        action="mend",
        args={"candidate": name, "others": [each for each, _ in o.faulty[1:]]},
        why=f"{name}: {why}",
        command=f"telic study candidate revise {name} --draft FILE",
    )


def _propose(o: Outlook) -> NextAction | None:
    if not o.has_baseline and not o.open_candidates:
        return NextAction(
            action="propose",
            args={"kind": "baseline"},
            why="nothing can be compared before a baseline is measured",
            command="telic study baseline",
        )
    # A live run may be the check of the incumbent that an idea would start from.
    if o.has_baseline and not o.open_candidates and not o.live:
        return NextAction(
            action="propose",
            args={"role": "candidate_proposer"},
            why="nothing is left to do with the candidates that there are",
            command="telic study candidate new TITLE --kind KIND --set PATH=VALUE",
        )
    return None


def _ask(o: Outlook) -> NextAction:
    if o.live:
        return NextAction(action="wait", args={"runs": list(o.live)}, why="runs are under way")
    return NextAction(
        action="ask",
        args={"candidates": list(o.open_candidates)},
        why="no rule says what to do with what is open",
        blocking=o.launch_blocks,
    )


_ORDER: tuple[Callable[[Outlook], NextAction | None], ...] = (
    _repair,
    _stop,
    _agree,
    _first_of(
        "crashed",
        "reconcile",
        "run",
        "it ended or vanished and is not settled",
        "telic study run --reconcile",
    ),
    _first_of(
        "unmeasured", "ingest", "run", "it finished and was not measured", "telic study analyze {}"
    ),
    _first_of(
        "unwatched",
        "monitor",
        "run",
        "it runs, and nobody looked at it for a while",
        "telic study monitor {}",
    ),
    _first_of(
        "unreviewed",
        "review",
        "candidate",
        "its reward may be gamed; is it?",
        _REVIEW,
        "somebody else than its author says whether it is (--no-exploit: it is not)",
    ),
    _first_of(
        "unaudited",
        "audit",
        "candidate",
        "its runs are measured, its claim is not audited",
        "telic study audit-result {}",
    ),
    next_decision,
    _advance,
    _first_of(
        "unreflected",
        "reflect",
        "run",
        "reward work goes on from what its terms did",
        "telic study reflect {}",
    ),
    _launch,
    _first_of(
        "unplanned",
        "plan",
        "candidate",
        "it is validated and has no jobs",
        "telic study queue plan {}",
    ),
    _first_of(
        "drafts",
        "validate",
        "candidate",
        "it is a draft that was not checked yet",
        "telic study candidate validate {}",
    ),
    _mend_draft,
    _first_of(
        "broken",
        "mend",
        "candidate",
        "it failed; mend it or give it up",
        "telic study candidate revise {} --draft FILE",
    ),
    _propose,
    _ask,
)
