"""Sections of the page about the result: the verdict, the episodes, the criteria, the attempts."""

from __future__ import annotations

from collections.abc import Sequence

from telic.authors.candidate import MemberScore, SessionIteration
from telic.core.pages.charts import Node, bar, columns, interval, tree
from telic.core.pages.elements import amount, facts, listed, shell, table
from telic.core.pages.markup import Markup, join, tag
from telic.session.report import words
from telic.session.report.compare import parts
from telic.session.report.facts import SEEN_HEADS, disagreements, seen_rows
from telic.session.report.pictures import choose_episodes, data_uri, worst_first
from telic.session.report.story import Story, spread


def verdict(story: Story) -> Markup:
    """Return the headline: the intent, the outcome, and the proof."""
    summary, config = story.summary, story.config
    steps = [
        tag("li", what, shell(command) if command else None)
        for what, command in words.next_steps(story)
    ]
    lacks = [] if summary.outcome == "passed" else words.lacking(story)
    return join(
        [
            tag("p", f"{config.env} · {summary.session}", class_="where"),
            tag("h1", config.intent),
            tag(
                "p",
                tag("strong", words.OUTCOMES[summary.outcome], class_="outcome"),
                " ",
                words.proof(story),
                class_=f"verdict {summary.outcome}",
            ),
            listed(f"Not judged: {each}" for each in words.unjudged(story)) or "",
            _seeds(story),
            _at_a_glance(story),
            tag("p", "Missing: ", "; ".join(lacks), ".") if lacks else "",
            tag("div", tag("h2", "What to try next"), tag("ul", *steps)) if steps else "",
        ]
    )


def _seeds(story: Story) -> Markup:
    """Return the proof as a picture: what each training seed proves, against the threshold."""
    if story.best is None:
        return Markup()
    own = [each for each in story.best.members if each.variant == story.best.variant]
    rows = [tag("li", tag("span", f"seed {each.seed}"), _interval(story, each)) for each in own]
    return tag("ul", *rows, class_="seeds")


def _interval(story: Story, member: MemberScore) -> Markup:
    """Return a policy's score as a picture and in numbers."""
    value, range_ = member.judgement.score, spread(member.judgement)
    if value is None:
        return tag("span", "unknown")
    low, high = range_ or (value, value)
    threshold = story.config.threshold
    label = f"score {words.scored(member)}, {threshold:g} needed"
    drawn = interval(low, value, high, threshold, label)
    return join([drawn, tag("span", words.scored(member), aria_hidden="true")])


def _at_a_glance(story: Story) -> Markup:
    costs, config = story.costs, story.config
    rows: list[tuple[str, str]] = [
        ("score", words.score(story.summary.score)),
        ("proven (95 %)", words.score(story.summary.low)),
        ("needed", f"{config.threshold:.2f}"),
        ("iterations", f"{story.summary.iterations} of {config.iterations}"),
        ("steps", words.steps(story.summary.steps)),
        ("time", words.seconds(story.summary.seconds)),
    ]
    if costs and costs.model.calls:
        rows.append(("models", words.money(costs.model.usd)))
    return facts(rows, "glance")


def looks(story: Story) -> Markup | None:
    """Return the video of the median episode and the strips of poor, median and good ones."""
    pictures = story.pictures
    if not pictures.strips and pictures.video is None:
        return None
    shown: list[Markup] = []
    if pictures.inline is not None:
        label = f"The median episode, score {words.score(pictures.score)}"
        film = tag(
            "video",
            "Your browser shows no video.",
            src=data_uri(pictures.inline),
            controls="",
            loop="",
            muted="",
            autoplay="",
            playsinline="",
            aria_label=label,
        )
        shown.append(tag("figure", film, tag("figcaption", label, _episodes(story)), class_="film"))
    elif pictures.video is not None:
        name = pictures.video.relative_to(story.folder.path)
        link = tag("a", str(name), href=str(name))
        shown.append(tag("p", "The video is too large for this page: ", link, "."))
    for each in pictures.strips:
        label = f"Six moments of {each.words}, score {words.score(each.score)}"
        image = tag("img", src=data_uri(each.path), alt=label)
        shown.append(tag("figure", _wide(label, image), tag("figcaption", label), class_="strip"))
    return join(shown)


def _episodes(story: Story) -> Markup | None:
    """Return the scores of all judged episodes, those that are shown in full colour."""
    if story.member is None:
        return None
    verdicts = story.member.judgement.verdicts
    order = [index for index in worst_first(verdicts) if verdicts[index].score is not None]
    scores = [score for index in order if (score := verdicts[index].score) is not None]
    if not scores:
        return None
    shown = [order.index(each) for each in choose_episodes(verdicts).values() if each in order]
    label = (
        f"Scores of {words.count(len(scores), 'episode')}, from {scores[0]:.2f} to {scores[-1]:.2f}"
    )
    note = (
        f"{label}. Each began where training never did. In full colour: those shown here; the "
        "dashed line is what is needed."
    )
    return tag("div", columns(scores, shown, story.config.threshold, label), tag("p", note))


def _wide(label: str, inside: Markup) -> Markup:
    """Return what may be wider than the page, so that it scrolls by itself."""
    return tag("div", inside, class_="wide", tabindex=0, role="region", aria_label=label)


def criteria(story: Story) -> Markup | None:
    """Return what was measured, against what was wanted."""
    if story.member is None or not story.member.judgement.leaves:
        return listed(each.title for each in story.author.criteria) if story.author else None
    known = parts(story.member.judgement)
    rows = [
        (
            title,
            words.counts(known[title], story),
            words.target(known[title]),
            f"{words.number(value)} {known[title].unit}".strip(),
            _credit(credit),
        )
        for title, (credit, value) in story.member.judgement.leaves.items()
    ]
    note = (
        f"Of the best policy ({story.member.member}), over {story.member.judgement.episodes} fresh "
        "episodes. A guard rules out look-alikes: the whole score is multiplied by its credit."
    )
    heads = ("criterion", "counts", "target", "measured (median)", "credit")
    return join([table(heads, rows), tag("p", note, class_="note")])


def _credit(credit: float) -> Markup:
    kind = "full" if credit >= 0.995 else "part"
    label = words.percent(credit)
    return tag("span", bar(credit, label, kind), tag("span", label), class_="credit")


def seen(story: Story) -> Markup | None:
    """Return what the vision judge saw, and where it differs from the code judge."""
    rows = seen_rows(story)
    if not rows:
        return None
    differ = listed(disagreements(story)) or tag("p", "Code and eye agree.", class_="note")
    return join([table(SEEN_HEADS, rows), differ])


def reading(story: Story) -> Markup:
    """Return how the words were taken."""
    said = listed(words.reading(story)) or tag("p", "No word was doubtful or left out.")
    return join([said, tag("p", f"Written by {words.author(story.config)}.", class_="note")])


def tried(story: Story) -> Markup | None:
    """Return the lineage and a row per iteration."""
    if not story.history:
        return None
    nodes = [
        Node(
            key=each.number,
            parent=each.parent,
            title=f"{each.number}{' ★' if each is story.best else ''}",
            note=words.score(each.score),
            share=each.score,
            is_chosen=each is story.best,
            hint=each.change,
        )
        for each in story.history
    ]
    says = "; ".join(
        f"iteration {each.number}"
        + ("" if each.parent is None else f" from {each.parent}")
        + f", score {words.score(each.score)}"
        for each in story.history
    )
    grown = _wide("Lineage of the iterations", tree(nodes, f"Lineage: {says}"))
    heads = ("iteration", "change", "policies", "lacking", "training", "steps")
    note = (
        "Dots are scores, lines their 95 % intervals, the mark what is needed. "
        "★ is the best; a box shows the mean score of an iteration's policies."
    )
    rows = [_attempt(story, each) for each in story.history]
    learned = listed(words.lessons(story))
    return join(
        [
            grown,
            table(heads, rows, "attempts"),
            tag("p", note, class_="note"),
            join([tag("h3", "Learned on the way"), learned]) if learned else "",
        ]
    )


def _attempt(story: Story, each: SessionIteration) -> tuple[object, ...]:
    trials = [tag("p", "short trials", class_="note"), _policies(story, each.trials)]
    return (
        f"{each.number}{' ★' if each is story.best else ''}",
        join([tag("p", line) for line in words.change(story, each)]),
        join([_policies(story, each.members, each.best), *(trials if each.trials else ())]),
        ", ".join(each.tags) or "nothing",
        amount(words.seconds(each.training_s)),
        amount(words.steps(each.steps)),
    )


def _policies(story: Story, members: Sequence[MemberScore], best: str | None = None) -> Markup:
    rows = [
        tag(
            "li",
            tag("code", each.member),
            _interval(story, each),
            class_="chosen" if each.member == best else None,
        )
        for each in members
    ]
    return tag("ul", *rows, class_="members")


def why_best(story: Story) -> Markup | None:
    """Return the best policy beside the runner-up, criterion by criterion."""
    comparison = story.comparison
    if comparison is None:
        return None
    rows = [
        (
            each.title,
            f"{words.number(each.value)} {each.unit}".strip(),
            f"{words.number(each.other_value)} {each.unit}".strip(),
            _credit(each.credit),
            _credit(each.other_credit),
        )
        for each in comparison.differences
    ]
    heads = ("criterion", "best", "runner-up", "credit of the best", "credit of the runner-up")
    return join([tag("p", words.runner_up(story, comparison)), table(heads, rows)])


def analysis(story: Story) -> Markup | None:
    """Return what a model says of the whole session."""
    if story.analysis is None:
        return None
    return join([tag("p", story.analysis.story), listed(story.analysis.findings) or ""])
