"""The report as Markdown: what the page says, without curves."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from telic.session.report import words
from telic.session.report.compare import parts
from telic.session.report.facts import (
    EXAMPLE_HEADS,
    SEEN_HEADS,
    SPENT_HEADS,
    cost_rows,
    disagreements,
    example_rows,
    seen_rows,
    spent_rows,
    version_rows,
)
from telic.session.report.story import Story
from telic.session.report.troubles import Troubles

_SPECIAL = re.compile(r"([\\`*_\[\]<>|#~$])")


def plain(value: object) -> str:
    """Return foreign text as one line that Markdown shows as it is."""
    return _SPECIAL.sub(r"\\\1", " ".join(str(value).split()))


def render_markdown(story: Story, troubles: Troubles) -> str:
    """Return the whole report; a part that cannot be written is noted and left out."""
    lines: list[str] = []
    for name, part in _PARTS.items():
        with troubles.sparing(f"{name} in Markdown"):
            lines += part(story)
    if troubles.lines:
        lines += _titled("What this report lacks", _items(map(plain, troubles.lines)))
    return "\n".join(lines).rstrip() + "\n"


def _head(story: Story) -> list[str]:
    summary, config = story.summary, story.config
    took = words.seconds(summary.seconds)
    lines = [
        f"# {plain(config.intent)}",
        "",
        f"{plain(config.env)}: **{words.OUTCOMES[summary.outcome].lower()}** after "
        f"{words.count(summary.iterations, 'iteration')} and {took}.",
        "",
        plain(words.proof(story)),
        "",
    ]
    lines += _items(f"not judged: {plain(each)}" for each in words.unjudged(story))
    if summary.outcome != "passed":
        lines += _items(plain(each) for each in words.lacking(story))
    steps = [
        line
        for what, command in words.next_steps(story)
        for line in (plain(what), "", *(_code(command, "bash") if command else ()))
    ]
    return lines + (_titled("What to try next", steps) if steps else [])


def _looks(story: Story) -> list[str]:
    pictures = story.pictures
    if not pictures.strips and not pictures.video:
        return []
    lines: list[str] = []
    for each in pictures.strips:
        name = each.path.relative_to(story.folder.path)
        label = f"Six moments of {each.words}, score {words.score(each.score)}"
        lines += [f"![{label}]({name})", "", label, ""]
    if pictures.video:
        name = pictures.video.relative_to(story.folder.path)
        lines += [f"[Video of the median episode]({name})", ""]
    return _titled("What it looks like", lines)


def _criteria(story: Story) -> list[str]:
    if story.member is None or not story.member.judgement.leaves:
        wanted = story.author.criteria if story.author else ()
        return _titled("Criteria", _items(plain(each.title) for each in wanted)) if wanted else []
    known = parts(story.member.judgement)
    rows = [
        (
            plain(title),
            words.counts(known[title], story),
            plain(words.target(known[title])),
            f"{words.number(value)} {plain(known[title].unit)}".strip(),
            words.percent(credit),
        )
        for title, (credit, value) in story.member.judgement.leaves.items()
    ]
    heads = ("criterion", "counts", "target", "measured (median)", "credit")
    return _titled("Criteria", _table(heads, rows))


def _seen(story: Story) -> list[str]:
    rows = [tuple(map(plain, row)) for row in seen_rows(story)]
    if not rows:
        return []
    differ = disagreements(story) or ["Code and eye agree."]
    return _titled("What was seen", [*_table(SEEN_HEADS, rows), *_items(map(plain, differ))])


def _words(story: Story) -> list[str]:
    lines = [*words.reading(story), f"written by {words.author(story.config)}"]
    return _titled("How the words were read", _items(map(plain, lines)))


def _tried(story: Story) -> list[str]:
    if not story.history:
        return []
    rows = [
        (
            f"{each.number}{' (best)' if each is story.best else ''}",
            words.MISSING if each.parent is None else str(each.parent),
            "<br>".join(map(plain, words.change(story, each))),
            "<br>".join(
                [f"{plain(one.member)}: {words.scored(one)}" for one in each.members]
                + [f"trial {plain(one.member)}: {words.scored(one)}" for one in each.trials]
            ),
            ", ".join(map(plain, each.tags)) or "nothing",
            words.seconds(each.training_s),
            words.steps(each.steps),
        )
        for each in story.history
    ]
    heads = ("iteration", "from", "change", "score (95 %)", "lacking", "training", "steps")
    lines = _table(heads, rows)
    learned = words.lessons(story)
    if learned:
        lines += ["Learned on the way:", "", *_items(map(plain, learned))]
    return _titled("What was tried", lines)


def _why(story: Story) -> list[str]:
    comparison = story.comparison
    if comparison is None:
        return []
    rows = [
        (
            plain(each.title),
            words.number(each.value),
            words.number(each.other_value),
            words.percent(each.credit),
            words.percent(each.other_credit),
        )
        for each in comparison.differences
    ]
    heads = ("criterion", "best", "runner-up", "credit of the best", "of the runner-up")
    lines = [plain(words.runner_up(story, comparison)), "", *_table(heads, rows)]
    return _titled("Why this one is the best", lines)


def _reward(story: Story) -> list[str]:
    reward = story.reward
    if reward is None:
        return []
    lines = _code(reward.latex, "latex") if reward.latex else []
    rows = [
        (
            plain(each.name),
            plain(each.words),
            words.number(each.weight),
            words.number(each.total),
            words.percent(each.share),
        )
        for each in reward.terms
    ]
    lines += _table(("term", "what it is", "weight", "over an episode", "share"), rows)
    lines += _items(map(plain, reward.findings))
    return _titled("The reward", [*lines, *_code(reward.code, "python")])


def _analysis(story: Story) -> list[str]:
    if story.analysis is None:
        return []
    lines = [plain(story.analysis.story), "", *_items(map(plain, story.analysis.findings))]
    return _titled("What a model makes of it", lines)


def _judge(story: Story) -> list[str]:
    if story.author is None:
        return []
    lines: list[str] = []
    if story.trial is not None:
        rows = [tuple(map(plain, row)) for row in example_rows(story.trial)]
        lines += _table(EXAMPLE_HEADS, rows)
        problems = (*story.trial.judge_problems, *story.trial.reward_problems)
        lines += _items(map(plain, problems))
    return _titled("The judge", [*lines, *_code(story.author.judge, "python")])


def _costs(story: Story) -> list[str]:
    if story.costs is None:
        return []
    lines, burned = _table(("what", "how much"), cost_rows(story.costs)), spent_rows(story)
    return _titled("What it took", lines + (_table(SPENT_HEADS, burned) if burned else []))


def _policy(story: Story) -> list[str]:
    lines = [f"{what}\n\n{_code(line, 'bash')[0]}" for what, line in words.commands(story).items()]
    again = [*_code(words.command(story.config, story.folder.config), "bash")]
    rows = [(plain(name), f"`{value}`") for name, value in version_rows(story)]
    return [
        *(_titled("The policy", lines) if lines else []),
        *_titled("Do it again", [*again, *_table(("what", "version or hash"), rows)]),
    ]


_PARTS: dict[str, Callable[[Story], list[str]]] = {
    "the verdict": _head,
    "what it looks like": _looks,
    "the criteria": _criteria,
    "what was seen": _seen,
    "how the words were read": _words,
    "what was tried": _tried,
    "why the best is best": _why,
    "the analysis": _analysis,
    "the reward": _reward,
    "the judge": _judge,
    "the costs": _costs,
    "the policy": _policy,
}


def _titled(title: str, lines: Iterable[str]) -> list[str]:
    return [f"## {title}", "", *lines, ""]


def _items(lines: Iterable[str]) -> list[str]:
    found = [f"- {each}" for each in lines]
    return [*found, ""] if found else []


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    drawn = [f"| {' | '.join(row)} |" for row in (heads, ["---"] * len(heads), *rows)]
    return [*drawn, ""]


def _code(source: str, language: str) -> list[str]:
    """Fence code with more backticks than it holds in a row, so that it cannot break out."""
    longest = max(map(len, re.findall(r"`+", source)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}{language}\n{source.rstrip()}\n{fence}", ""]
