"""The sentences of a report, the same on the page and in Markdown."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

from telic.authors.candidate import MemberScore, SessionIteration, Variant
from telic.judges.criteria import Leaf
from telic.session.records import SessionConfig
from telic.session.report.compare import Comparison, parts
from telic.session.report.story import Story, spread

OUTCOMES = {"passed": "Passed", "not_passed": "Did not pass", "stopped": "Stopped"}
MISSING = "–"
_OPTIONS = {"max_usd": "budget_usd", "max_hours": "budget_hours", "max_steps": "budget_steps"}
_NO_OPTIONS = frozenset({"schema_version", "intent", "env", "criteria"})


def number(value: float | None) -> str:
    """Return a number in few digits; a dash when it is missing."""
    if value is None:
        return MISSING
    written = f"{value:,.0f}" if abs(value) >= 1e4 else f"{value:.3g}"
    return written.replace("-", "−")


def score(value: float | None) -> str:
    """Return a score; "unknown" when nobody could tell."""
    return "unknown" if value is None else f"{value:.2f}"


def percent(value: float | None) -> str:
    """Return a share."""
    return MISSING if value is None else f"{value:.0%}"


def seconds(value: float | None) -> str:
    """Return a duration: 12.3 s, 4 min 10 s, 2 h 5 min."""
    if value is None:
        return "unknown"
    if value < 60.0:
        return f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def count(value: int, word: str) -> str:
    """Return a number of things: 1 iteration, 2 iterations."""
    return f"{value:,} {word}{'' if value == 1 else 's'}"


def scored(member: MemberScore) -> str:
    """Return a policy's score with its interval."""
    value, range_ = member.judgement.score, spread(member.judgement)
    return (
        score(value)
        if range_ is None
        else f"{score(value)} ({range_.low:.2f} to {range_.high:.2f})"
    )


def proof(story: Story) -> str:
    """Say what was proven, and what was needed."""
    config, member, best = story.config, story.member, story.best
    why = f" It stopped: {story.summary.reason}" if story.summary.reason else ""
    if not story.history:
        return f"No iteration was finished, so there is nothing to judge yet.{why}"
    if best is None or member is None or member.judgement.score is None:
        return "No policy could be judged, so whether one does what was asked is unknown."
    low = member.judgement.low
    own = [each for each in best.members if each.variant == best.variant]
    proving = sum(each.low >= config.threshold for each in own)
    proven = (
        "too few episodes could be judged to say how sure that is"
        if low is None
        else f"at least {low:.2f} with 95\u00a0% confidence"
    )
    return (
        f"The best policy scores {member.judgement.score:.2f} on {member.judgement.episodes} fresh "
        f"episodes, {proven}. To pass, {config.needed} of {len(config.seeds)} training seeds must "
        f"prove {config.threshold:g}; {proving} of {len(own)} did.{why}"
    )


def unjudged(story: Story) -> list[str]:
    """Say why episodes of the best policy have no score, each reason once."""
    if story.member is None:
        return []
    reasons = {
        each.reason: None
        for each in story.member.judgement.verdicts
        if each.score is None and each.reason
    }
    return [reason for reason in reasons if reason]


def target(leaf: Leaf) -> str:
    """Say which value earns full credit."""
    sign = "≥" if leaf.goal > leaf.zero else "≤"
    return f"{sign} {leaf.goal:.4g} {leaf.unit}".strip()


def counts(leaf: Leaf, story: Story) -> str:
    """Say how much a criterion counts."""
    if leaf.is_guard:
        return "guard"
    assert story.member is not None
    whole = sum(each.weight for each in parts(story.member.judgement).values())
    return percent(leaf.weight / whole) if whole else MISSING


def lacking(story: Story) -> list[str]:
    """Name the criteria that the best policy does not fully meet, the worst first."""
    if story.member is None:
        return []
    missed = [
        (credit, title)
        for title, (credit, _) in story.member.judgement.leaves.items()
        if credit < 0.995
    ]
    return [f"“{title}” earned {credit:.0%}" for credit, title in sorted(missed)]


def next_steps(story: Story) -> list[tuple[str, str | None]]:
    """Say what to do when a session did not pass, with the command where it is one."""
    config = story.config
    if story.summary.outcome == "stopped":
        return [("Go on where it stopped:", command(config, story.folder.config))]
    if story.summary.outcome == "passed":
        return []
    if story.analysis and story.analysis.recommendations:
        return [(each, None) for each in story.analysis.recommendations]
    more = config.replace(iterations=2 * config.iterations)
    return [
        ("Try more rewards:", command(more, story.folder.config)),
        ("Train longer, if the learning curves were still rising: add --steps.", None),
        ("Let a model write the reward instead of the composer: add --model.", None)
        if config.model is None
        else ("Say it with numbers: a speed in m/s, a height in m, a count.", None),
    ]


def reading(story: Story) -> list[str]:
    """Say how doubtful words were taken, and which were left out."""
    lines = list(story.summary.doubts)
    if story.summary.not_understood:
        lines.append(f"not understood: {', '.join(story.summary.not_understood)}")
    return lines


def change(story: Story, iteration: SessionIteration) -> list[str]:
    """Say what an iteration changed, why, and whom it answers."""
    candidate = story.candidates.get(iteration.number)
    lines = [iteration.change]
    if iteration.failure:
        lines.append(f"Could not be trained: {iteration.failure}")
    lines += [f"Alarm: {each}" for each in iteration.alarms]
    if candidate and candidate.diagnosis:
        lines.append(f"Why: {candidate.diagnosis}")
    if candidate and len(candidate.variants) > 1:
        lines += [
            f"Variant {number}: {_weights(each)}"
            for number, each in enumerate(candidate.variants, start=1)
        ]
    return lines + [f"Answers: “{each}”" for each in story.notes.get(iteration.number, ())]


def _weights(variant: Variant) -> str:
    named = [f"{name} {number(value)}" for name, value in variant.weights.items()]
    start = ["goes on from the policies of its parent"] if variant.warm else []
    return ", ".join(named + start) or "as the reward says"


def lessons(story: Story) -> list[str]:
    """Say what was learned on the way."""
    return [f"{each.text} ({each.tier})" for each in story.lessons]


def runner_up(story: Story, comparison: Comparison) -> str:
    """Say in a few sentences what sets the best policy apart."""
    assert story.member is not None
    other = comparison.other
    who = (
        f"the same reward with training seed {other.seed}"
        if comparison.same_reward
        else f"{other.member} of iteration {comparison.iteration}"
    )
    said = [f"It scores {scored(story.member)}; the runner-up, {who}, scores {scored(other)}."]
    if not comparison.same_reward:
        own, theirs = comparison.standing, comparison.other_standing
        said.append(
            f"Of the {own.seeds} seeds of its reward {own.proving} prove "
            f"{story.config.threshold:g}, and on average they prove {score(own.mean_low)}; of the "
            f"runner-up's, {theirs.proving} of {theirs.seeds} and {score(theirs.mean_low)}."
        )
    first = next(iter(comparison.differences), None)
    if first is None or abs(first.gain) < 0.005:
        return " ".join([*said, "Both earn the same on every criterion."])
    side = "more" if first.gain > 0 else "less"
    measured = f"{number(first.value)} against {number(first.other_value)} {first.unit}".strip()
    said.append(
        f"They differ most in “{first.title}”: {abs(first.gain):.0%} {side} credit ({measured})."
    )
    return " ".join(said)


def author(config: SessionConfig) -> str:
    """Say who wrote criteria, reward and judge."""
    return "the composer, without a model" if config.model is None else config.model


def command(config: SessionConfig, request: Path) -> str:
    """Return the command that asks for the same again; `request` is the file that holds it."""
    words = ["telic", "run", config.intent, "--env", config.env]
    if config.criteria is not None:
        words += ["--criteria", str(request)]
    for name, field in SessionConfig.model_fields.items():
        value = getattr(config, name)
        if name in _NO_OPTIONS or value == field.default:
            continue
        option = "--" + _OPTIONS.get(name, name).replace("_", "-")
        if isinstance(value, bool):
            words.append(option if value else option.replace("--", "--no-", 1))
            continue
        written = ",".join(map(str, value)) if isinstance(value, tuple) else f"{value}"
        words += [option, written]
    return shlex.join(words)


def commands(story: Story) -> dict[str, str]:
    """Return what can be done with the best policy."""
    run, member = story.run, story.member
    if run is None or member is None:
        return {}
    chosen = [str(run.path), "--member", member.member]
    judged = [*chosen, "--step", str(member.step)]
    return {
        "watch it": shlex.join(["telic", "play", *judged]),
        "export it (ONNX, TorchScript)": shlex.join(["telic", "export", *judged]),
        "see its training": shlex.join(["telic", "show", *chosen]),
    }


def money(usd: float | None) -> str:
    """Return a price."""
    return "unknown" if usd is None else f"${usd:.2f}" if usd >= 0.1 or usd == 0 else f"${usd:.4f}"


def out_of(write: Callable[[Any], str], spent: float | None, most: float | None) -> str:
    """Return what was spent, of what might be if there is a limit: 3 of 4."""
    return write(spent) if most is None else f"{write(spent)} of {write(most)}"


def steps(value: int | None) -> str:
    """Return a number of environment steps."""
    return MISSING if not value else f"{value:,}"


def tokens(value: int | None) -> str:
    """Return a number of tokens."""
    return "unknown" if value is None else f"{value:,}"
