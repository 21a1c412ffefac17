"""Sections of the page about the making: curves, reward, judge, costs, and how to go on."""

from __future__ import annotations

from telic.core.pages.charts import COLOURS, bar, line_chart
from telic.core.pages.elements import code, facts, listed, shell, table
from telic.core.pages.markup import Markup, join, tag
from telic.session.report import words
from telic.session.report.curves import Curves
from telic.session.report.facts import (
    EXAMPLE_HEADS,
    SPENT_HEADS,
    cost_rows,
    example_rows,
    spent_rows,
    version_rows,
)
from telic.session.report.formula import formula
from telic.session.report.story import Story


def curves(story: Story) -> Markup | None:
    """Return a chart of returns per iteration."""
    charts = [_chart(each) for each in story.curves]
    if not charts:
        return None
    note = (
        "Return under the iteration's own reward: the line is the mean over training seeds, the "
        "band their range, dots are evaluations without exploration. Rewards differ between "
        "iterations and variants, so heights are comparable within a line only."
    )
    return join([tag("div", *charts, class_="charts"), tag("p", note, class_="note")])


def _chart(made: Curves) -> Markup:
    last = ", ".join(
        f"{each.name} ends at {words.number(each.points[-1].y)}" for each in made.lines
    )
    label = f"{made.title}: return over steps, {words.count(made.seeds, 'seed')}; {last}"
    drawn = line_chart(made.lines, label=label, x_name="steps", y_name="return")
    legend = [
        tag("li", tag("span", class_=f"key c{index % COLOURS + 1}"), each.name)
        for index, each in enumerate(made.lines)
    ]
    names = tag("ul", *legend, class_="legend") if len(legend) > 1 else None
    return tag("figure", tag("figcaption", made.title), drawn, names)


def reward(story: Story) -> Markup | None:
    """Return formula, share of each term, and code of the best policy's reward."""
    facts_ = story.reward
    if facts_ is None:
        return code("Reward as first written", story.author.reward) if story.author else None
    rows = [
        (
            tag("code", each.name),
            each.words,
            words.number(each.weight),
            words.number(each.total),
            words.MISSING if each.share is None else _share(each.share, each.total),
        )
        for each in facts_.terms
    ]
    heads = ("term", "what it is", "weight", "over an episode", "share")
    return join(
        [
            tag("p", formula(facts_.latex), class_="wide") if facts_.latex else "",
            table(heads, rows) if rows else "",
            listed(facts_.findings) or "",
            code("Code of the reward, as trained", facts_.code),
        ]
    )


def _share(share: float, total: float | None) -> Markup:
    kind = "cost" if total is not None and total < 0 else "gain"
    label = f"{share:.0%}{' (a cost)' if kind == 'cost' else ''}"
    return tag("span", bar(share, label, kind), tag("span", label), class_="credit")


def judge(story: Story) -> Markup | None:
    """Return the code of the judge, and how it did on examples whose worth is known."""
    if story.author is None:
        return None
    note = "Whoever writes rewards never sees it. It runs on recorded episodes, confined."
    shown = [tag("p", note, class_="note")]
    if story.trial is not None:
        shown.append(tag("h3", "Tried on examples whose worth is known, before any training"))
        shown.append(table(EXAMPLE_HEADS, example_rows(story.trial)))
        problems = listed((*story.trial.judge_problems, *story.trial.reward_problems))
        shown += [problems] if problems else []
    return join([*shown, code("Code of the judge", story.author.judge)])


def costs(story: Story) -> Markup | None:
    """Return where the time went, and what models were paid."""
    spent = story.costs
    if spent is None:
        return None
    kinds = (
        ("training", spent.training_s),
        ("judging", spent.judging_s),
        ("waiting for models", spent.model.seconds),
        ("everything else", spent.other_s or 0.0),
    )
    whole = sum(value for _, value in kinds) or 1.0
    parts = [
        tag("span", class_=f"c{index}", style=f"flex-grow:{value / whole:.4f}", title=name)
        for index, (name, value) in enumerate(kinds, start=1)
        if value > 0.0
    ]
    keys = {name: index for index, (name, _) in enumerate(kinds, start=1)}
    rows = [
        (join([tag("span", class_=f"key c{keys[name]}"), name]) if name in keys else name, value)
        for name, value in cost_rows(spent)
    ]
    burned = spent_rows(story)
    return join(
        [
            tag("div", *parts, class_="stack", aria_hidden="true"),
            facts(rows),
            table(SPENT_HEADS, burned) if burned else "",
        ]
    )


def policy(story: Story) -> Markup | None:
    """Return where the policy is and what can be done with it."""
    if story.run is None or story.member is None:
        return None
    where = tag("code", f"{story.run.path.relative_to(story.folder.path)}/{story.member.member}")
    lines = [
        part
        for what, line in words.commands(story).items()
        for part in (tag("h3", what), shell(line))
    ]
    return join([tag("p", "In the session's folder: ", where, "."), *lines])


def again(story: Story) -> Markup:
    """Return the command that asks for the same again, and what it was made with."""
    rows = [(name, tag("code", value)) for name, value in version_rows(story)]
    return join([shell(words.command(story.config, story.folder.config)), facts(rows)])
