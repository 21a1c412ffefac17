"""The sentences of a session's report."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from telic.authors.candidate import MemberScore, SessionIteration, Variant
from telic.core.confidence import proven_mean
from telic.core.stats import Interval, bootstrap
from telic.core.text import MISSING, figure, is_dict, percent
from telic.judges.criteria import Leaf, scope_words
from telic.judges.verdict import Judgement
from telic.report import document as doc
from telic.session.outcome import outcome_words
from telic.session.records import SessionConfig, SessionSummary

if TYPE_CHECKING:
    from telic.session.report.facts import SessionReportFacts

Blocks = Sequence[doc.Block]
FULL_CREDIT = 0.995
_OPTIONS = {"max_usd": "budget_usd", "max_hours": "budget_hours", "max_steps": "budget_steps"}
_NO_OPTIONS = frozenset({"schema_version", "intent", "env", "criteria"})


def outcome(facts: SessionReportFacts) -> str:
    """Return what the outcome is called, as the beginning of a sentence."""
    words = outcome_words(facts.summary.outcome, facts.summary.limits)
    return words[0].upper() + words[1:]


def score(value: float | None) -> str:
    """Return a score; "unknown" when nobody could tell."""
    return "unknown" if value is None else f"{value:.2f}"


def scored(member: MemberScore) -> str:
    """Return a policy's score with its interval."""
    value, range_ = member.judgement.score, spread(member.judgement)
    return (
        score(value)
        if range_ is None
        else f"{score(value)} ({range_.low:.2f} to {range_.high:.2f})"
    )


def proof(facts: SessionReportFacts) -> str:
    """Say what was proven, and what was needed."""
    config, member, best = facts.config, facts.member, facts.best
    why = f" It stopped: {facts.summary.reason}" if facts.summary.reason else ""
    if not facts.history:
        return f"No iteration was finished, so there is nothing to judge yet.{why}"
    if best is None or member is None or member.judgement.score is None:
        return "No policy could be judged, so whether one does what was asked is unknown."
    low, is_moot = member.judgement.low, facts.summary.outcome == "unproven"
    lows = [each.low for each in best.members if each.variant == best.variant]
    proving = sum(low >= config.threshold for low in lows)
    proven = (
        "which proves nothing"
        if is_moot
        else "too few episodes could be judged to say how sure that is"
        if low is None
        else f"at least {low:.2f} with 95\u00a0% confidence"
    )
    return (
        f"The best policy scores {member.judgement.score:.2f} on {member.judgement.episodes} fresh "
        f"episodes{passing_episodes(member)}, {proven}. To pass, {config.needed} of "
        f"{len(config.seeds)} training seeds must prove {config.threshold:g}; "
        f"{proving} of {len(lows)} {'say so' if is_moot else 'did'}.{why}"
    )


def passing_episodes(member: MemberScore) -> str:
    """Say how many episodes of a policy reach the threshold; nothing where nobody counted."""
    passing = member.judgement.passing
    return "" if passing is None else f" ({passing} of {member.judgement.episodes} pass)"


def passing_share(summary: SessionSummary) -> str:
    """Return how many of the best policy's episodes pass: 60 of 64."""
    return MISSING if summary.passing is None else f"{summary.passing} of {summary.episodes}"


def unjudged(facts: SessionReportFacts) -> list[str]:
    """Say why episodes of the best policy have no score, each reason once."""
    if facts.member is None:
        return []
    reasons = {
        verdict.reason: None
        for verdict in facts.member.judgement.verdicts
        if verdict.score is None and verdict.reason
    }
    return [reason for reason in reasons if reason]


def target(leaf: Leaf) -> str:
    """Say which value earns full credit."""
    sign = "≥" if leaf.goal > leaf.zero else "≤"
    return f"{sign} {leaf.goal:.4g} {leaf.unit}".strip()


def counts(leaf: Leaf, facts: SessionReportFacts) -> str:
    """Say how much a criterion counts."""
    if leaf.is_guard:
        return "guard"
    assert facts.member is not None
    whole = sum(criterion.weight for criterion in parts(facts.member.judgement).values())
    return percent(leaf.weight / whole) if whole else MISSING


def lacking(facts: SessionReportFacts) -> list[str]:
    """Name the criteria that the best policy does not fully meet, the worst first."""
    if facts.member is None:
        return []
    missed = [
        (credit, title)
        for title, (credit, _) in facts.member.judgement.leaves.items()
        if credit < FULL_CREDIT
    ]
    return [f"“{title}” earned {credit:.0%}" for credit, title in sorted(missed)]


def next_steps(facts: SessionReportFacts) -> list[tuple[str, str | None]]:
    """Say what to do when a session did not pass, with the command where it is one."""
    config = facts.config
    if facts.summary.outcome == "stopped":
        return [("Go on where it stopped:", command(config, facts.folder.config))]
    if facts.summary.outcome == "passed":
        return []
    if facts.summary.outcome == "passed_in_part":
        accepted = config.replace(accept_partial=True)
        return [
            ("Say what is left out in words that can be measured, with numbers.", None),
            ("Or do without it:", command(accepted, facts.folder.config)),
        ]
    if facts.summary.outcome == "unproven":
        if facts.folder.vetoes.exists() and facts.best is not None:
            branch = ["telic", "branch", facts.folder.name, "--iteration", str(facts.best.number)]
            again = shlex.join([*branch, "--note", "what is wrong with it"])
            return [("Try again from its policies, and say what is wrong:", again)]
        return [
            ("Watch the episodes: nothing else says yet that they are what you meant.", None),
            ("Say it otherwise, with numbers, so that it can be measured and tried out.", None),
        ]
    if facts.analysis and facts.analysis.recommendations:
        return [(advice, None) for advice in facts.analysis.recommendations]
    more = config.replace(iterations=2 * config.iterations)
    return [
        ("Try more rewards:", command(more, facts.folder.config)),
        ("Train longer, if the learning curves were still rising: add --steps.", None),
        ("Let a model write the reward instead of the composer: add --model.", None)
        if config.model is None
        else ("Say it with numbers: a speed in m/s, a height in m, a count.", None),
    ]


def reading(facts: SessionReportFacts) -> list[str]:
    """Say how doubtful words were taken, and which were left out."""
    lines = list(facts.summary.doubts)
    if facts.author is None:
        return lines
    left = (*facts.author.not_understood, *facts.author.dropped)
    scope = scope_words([each.words for each in facts.author.covered], left)
    return [scope, *lines] if scope else lines


def beside_best(facts: SessionReportFacts) -> list[str]:
    """Say of what was to be as much as possible how much it became, and what the best known is."""
    criteria = facts.author.criteria if facts.author else ()
    reached = facts.member.judgement.leaves if facts.member else {}
    said: list[str] = []
    for each in criteria:
        if not each.is_open or each.title not in reached:
            continue
        best = "no best is known for this robot"
        if each.best is not None:
            known = f"{each.best:.3g} {each.unit} ({each.best_source})"
            best = f"the best known for this robot is {known}"
        value = figure(reached[each.title][1])
        said.append(f"As much as possible: {value} {each.unit} was reached; {best}.")
    return said


def change(facts: SessionReportFacts, iteration: SessionIteration) -> list[str]:
    """Say what an iteration changed, why, and whom it answers."""
    candidate = facts.candidates.get(iteration.number)
    lines = [iteration.change]
    if iteration.failure:
        lines.append(f"Could not be trained: {iteration.failure}")
    lines += [f"Alarm: {alarm}" for alarm in iteration.alarms]
    lines += [f"Not judged: {reason}" for reason in iteration.unjudged]
    lines += [f"Judge in doubt: {iteration.judge_doubted}"] if iteration.judge_doubted else []
    if candidate and candidate.diagnosis:
        lines.append(f"Why: {candidate.diagnosis}")
    if candidate and len(candidate.variants) > 1:
        lines += [
            f"Variant {number}: {_weights(variant)}"
            for number, variant in enumerate(candidate.variants, start=1)
        ]
    return lines + [f"Answers: “{note}”" for note in facts.notes.get(iteration.number, ())]


def _weights(variant: Variant) -> str:
    named = [*variant.structure]
    named += [f"{name} {figure(value)}" for name, value in variant.weights.items()]
    start = ["goes on from the policies of its parent"] if variant.warm else []
    return ", ".join(named + start) or "as the reward says"


def lessons(facts: SessionReportFacts) -> list[str]:
    """Say what was learned on the way."""
    return [f"{lesson.text} ({lesson.tier})" for lesson in facts.lessons]


def author(config: SessionConfig) -> str:
    """Say who wrote criteria, reward and judge."""
    if config.model is None:
        return "the composer, without a model"
    others = ", ".join(f"{role}: {model}" for role, model in config.model_for.items())
    return f"{config.model} ({others})" if others else config.model


def command(config: SessionConfig, request: Path) -> str:
    """Return the command that asks for the same again; `request` is the file that holds it."""
    words = ["telic", "run", config.intent, "--env", config.env]
    if config.criteria is not None:
        words += ["--criteria", str(request)]
    for name, field in SessionConfig.model_fields.items():
        value: object = getattr(config, name)
        if name in _NO_OPTIONS or value == field.default:
            continue
        option = "--" + _OPTIONS.get(name, name).replace("_", "-")
        if isinstance(value, bool):
            words.append(option if value else option.replace("--", "--no-", 1))
            continue
        if is_dict(value):
            for role, word in value.items():
                words += [option, f"{role}={word}"]
            continue
        many = cast("tuple[object, ...]", value) if isinstance(value, tuple) else (value,)
        written = ",".join(map(str, many))
        words += [option, written]
    return shlex.join(words)


def commands(facts: SessionReportFacts) -> dict[str, str]:
    """Return what can be done with the best policy."""
    run, member = facts.run, facts.member
    if run is None or member is None:
        return {}
    chosen = [str(run.path), "--member", member.member]
    judged = [*chosen, "--step", str(member.step)]
    return {
        "watch it": shlex.join(["telic", "play", *judged]),
        "export it (ONNX, TorchScript)": shlex.join(["telic", "export", *judged]),
        "say whether it is what you meant": shlex.join(
            ["telic", "label", facts.folder.name, "yes"]
        ),
        "see its training": shlex.join(["telic", "show", *chosen]),
    }


def out_of(write: Callable[[Any], str], spent: float | None, most: float | None) -> str:
    """Return what was spent, of what might be if there is a limit: 3 of 4."""
    return write(spent) if most is None else f"{write(spent)} of {write(most)}"


def steps(value: int | None) -> str:
    """Return a number of environment steps."""
    return MISSING if not value else f"{value:,}"


def spread(judgement: Judgement) -> Interval | None:
    """Return the interval of a policy's score, as sure as what it proves; None: not known."""
    scores = [verdict.score for verdict in judgement.verdicts]
    known = [score for score in scores if score is not None]
    if judgement.alpha is None or judgement.low is None:  # of an earlier version
        return bootstrap(known)
    # Unknown episodes may be worth anything: nothing below, everything above.
    missing = [*(1.0 - score for score in known), *[0.0] * judgement.unknown]
    return Interval(judgement.low, 1.0 - proven_mean(missing, judgement.alpha))


def parts(judgement: Judgement) -> dict[str, Leaf]:
    """Return the criteria of a judgement by title, as they stand in the first judged episode."""
    leaves: dict[str, Leaf] = {}
    for verdict in judgement.verdicts:
        for leaf in verdict.leaves:
            leaves.setdefault(leaf.title, leaf)
    return {title: leaves[title] for title in judgement.leaves if title in leaves}
