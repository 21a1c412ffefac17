"""Rows of facts that both forms of a report list: what it took, and what it was made with."""

from __future__ import annotations

import hashlib

from telic.judges.trial import Trial
from telic.session.report import words
from telic.session.report.costs import Costs
from telic.session.report.story import Story


def cost_rows(costs: Costs) -> list[tuple[str, str]]:
    """Return what a session took, line by line."""
    use = costs.model
    rows = [
        ("wall clock", words.seconds(costs.total_s)),
        ("training", words.seconds(costs.training_s)),
        ("judging", words.seconds(costs.judging_s)),
        ("waiting for models", words.seconds(use.seconds) if use.calls else "none was asked"),
        ("everything else", words.seconds(costs.other_s)),
        ("environment steps", words.steps(costs.steps)),
    ]
    if use.calls:
        rows += [
            ("model", ", ".join(use.names)),
            ("model calls", f"{use.calls:,}"),
            ("tokens", words.tokens(use.tokens)),
            ("price", words.money(use.usd)),
        ]
    if use.failed:
        rows.append(("questions without an answer", f"{use.failed:,}, not in the tokens"))
    return rows


SPENT_HEADS = ("after iteration", "time", "steps", "model calls", "price")


def spent_rows(story: Story) -> list[tuple[str, ...]]:
    """Return what was spent after each iteration, of what might be, line by line."""
    config, hours = story.config, story.config.max_hours
    most_s = None if hours is None else 3600 * hours
    return [
        (
            str(each.number),
            words.out_of(words.seconds, each.seconds, most_s),
            words.out_of("{:,}".format, each.steps, config.max_steps),
            words.out_of("{:,}".format, each.calls, config.max_calls),
            words.out_of(words.money, each.usd, config.max_usd),
        )
        for each in (story.costs.after if story.costs else ())
    ]


EXAMPLE_HEADS = ("example", "should be", "judge's score", "reward pays")


def example_rows(trial: Trial) -> list[tuple[str, ...]]:
    """Return how judge and reward did on examples whose worth is known, line by line."""
    return [
        (
            each.name,
            "good" if each.is_good else "bad",
            words.score(each.score),
            words.number(each.pay),
        )
        for each in trial.examples
    ]


SEEN_HEADS = ("episode", "criterion", "score", "when", "what was seen")


def seen_rows(story: Story) -> list[tuple[str, ...]]:
    """Return what the vision judge saw in the best policy's episodes, line by line."""
    verdicts = story.member.judgement.verdicts if story.member else ()
    return [
        (
            str(index + 1),
            each.criterion,
            words.score(each.score),
            words.MISSING
            if each.start_s is None or each.end_s is None
            else f"{each.start_s:.1f} to {each.end_s:.1f} s",
            each.evidence,
        )
        for index, verdict in enumerate(verdicts)
        for each in verdict.seen
    ]


def disagreements(story: Story) -> list[str]:
    """Say where code and eye differ about the best policy's episodes, and what came of it."""
    verdicts = story.member.judgement.verdicts if story.member else ()
    return [
        f"Episode {index + 1}, “{each.criterion}”: code gives {each.code:.2f} ({each.measured}), "
        f"the eye {each.vision:.2f} ({each.seen}); "
        + ("settled by a closer look." if each.resolved else "not settled.")
        for index, verdict in enumerate(verdicts)
        for each in verdict.disagreements
    ]


def version_rows(story: Story) -> list[tuple[str, str]]:
    """Return versions and hashes, line by line."""
    manifest = story.manifest
    rows = [("session", story.folder.name)]
    rows += [(name, str(value)) for name, value in manifest.get("versions", {}).items() if value]
    rows += [
        (name, str(manifest[name]))
        for name in ("python", "platform", "processors", "created_at")
        if manifest.get(name) is not None
    ]
    if story.reward:
        rows.append(("reward, SHA-256", _hash(story.reward.code)))
    if story.author:
        rows.append(("judge, SHA-256", _hash(story.author.judge)))
    return rows


def _hash(source: str) -> str:
    return hashlib.sha256(source.encode()).hexdigest()
