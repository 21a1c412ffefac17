"""The sections of the page; each returns None when there is nothing to show."""

from __future__ import annotations

import shlex

from telic.core.pages.charts import bar
from telic.core.pages.elements import amount, facts, listed, shell, table
from telic.core.pages.markup import Markup, join, tag
from telic.studies.report import pictures, words
from telic.studies.report.story import Story, Told

_HEAD_DIGITS = 16
_ABOUT_EFFECTS = {
    False: "Difference from the incumbent of its time. A claim must clear the shaded part, and its "
    "interval must not touch zero.",
    True: "Difference from the candidate that it was made from, shown for comparison only: the two "
    "may differ in how long they trained, too.",
}
"""by whether the study tells of work done elsewhere"""


def header(story: Story) -> Markup:
    """Whom the study trusts, and the study at a glance."""
    state, spec = story.state, story.spec
    held = state.incumbent
    title = story.contract.task.statement if story.contract else story.folder.name
    glance = [
        ("candidates", f"{len(state.candidates)}"),
        ("accepted", f"{state.counts.get('accepted', 0)}"),
        ("runs", f"{len(state.runs)}"),
        ("noise floor", words.number(state.noise_floor)),
        ("ledger", f"{state.ledger_head.seq} events"),
    ]
    parts = [
        tag("p", f"telic study · {state.study}", class_="where"),
        tag("h1", title),
    ]
    if held is None:
        parts.append(tag("p", words.status_line(story), class_="verdict"))
    else:
        metric = spec.primary.key if spec else "metric"
        target = spec.primary.target if spec else None
        goal = "" if target is None else f" The target is {words.number(target)}."
        parts.append(
            tag(
                "div",
                tag("p", words.number(held.iqm), class_="big"),
                tag(
                    "div",
                    tag("p", tag("strong", held.candidate), " is trusted."),
                    tag(
                        "p",
                        f"{metric}, {words.measured_over(story, held.n)}; with 95 % "
                        f"confidence {words.span(held.ci)}.{goal}",
                        class_="note",
                    ),
                ),
                class_="hero",
            )
        )
    if story.source is not None:
        parts.append(tag("p", words.told_of(story.source), class_="note"))
    state_word = tag("span", f"study {state.study_status}", class_="outcome")
    stops = [f"{each.rule}: {each.why}" for each in state.fired_stops]
    kind = "verdict passed" if state.study_status == "open" and not stops else "verdict"
    parts.append(tag("p", state_word, " ".join(stops), class_=kind))
    return join([*parts, facts(glance, "glance")])


def comparison(story: Story) -> Markup | None:
    """Runs side by side, and the differences."""
    drawn = [
        (
            "Every run of every audited candidate. The bar is the 95 % interval of the middle "
            "half, the tick its mean, the dashed line the target.",
            pictures.runs_side_by_side(story),
        ),
        (_ABOUT_EFFECTS[story.source is not None], pictures.effects(story)),
    ]
    figures = [
        tag("figure", tag("div", picture, class_="wide", tabindex=0), tag("figcaption", caption))
        for caption, picture in drawn
        if picture is not None
    ]
    return join(figures) if figures else None


def learning(story: Story) -> Markup | None:
    """The metric and what goes with it over training."""
    drawn = pictures.learning_curves(story)
    if not drawn:
        return None
    note = "Mean over seeds; the band reaches from the lowest seed to the highest."
    figures = [tag("figure", tag("figcaption", key), chart) for key, chart in drawn]
    return join([tag("div", *figures, class_="charts"), tag("p", note, class_="note")])


def candidates(story: Story) -> Markup | None:
    """Every candidate, and how they descend from each other."""
    if not story.candidates:
        return None
    heads = ["candidate", "hypothesis", "status", "verdict", "Δ", "95 %", "PoI"]
    rows = [_candidate(told) for told in story.candidates]
    return join([pictures.lineage(story) or Markup(), table(heads, rows, "candidates")])


def _candidate(told: Told) -> tuple[object, ...]:
    stats = told.audit.stats if told.audit else None
    status = told.held.status.value
    kind = f"{told.held.kind.replace('_', ' ')}, {words.phase(told)}"
    return (
        join([told.name, tag("br"), tag("span", kind, class_="note")]),
        words.statement(told),
        tag("span", status, class_=f"badge {status}"),
        words.verdict(told),
        amount(words.signed(stats and stats.delta)),
        amount(words.span(stats and stats.ci)),
        amount(words.percent(stats and stats.poi)),
    )


def reward(story: Story) -> Markup | None:
    """What the reward's terms did, and whether it is being gamed."""
    found = story.reflection
    if found is None:
        return None
    risk = found.hacking
    verdict = tag(
        "p",
        tag("span", f"hacking risk {risk.level}", class_=f"risk {risk.level}"),
        f" {risk.score:.2f} · run {found.run}",
    )
    drawn = [each for each in (pictures.term_curves(story),) if each is not None]
    advice = {each.term: each for each in found.advice}
    rows = [
        (
            each.name,
            words.percent(each.share),
            words.number(each.trend),
            words.number(each.alignment),
            ", ".join(each.flags) or words.MISSING,
            f"{advice[each.name].action}: {advice[each.name].why}",
        )
        for each in found.terms
    ]
    return join(
        [
            verdict,
            listed(risk.reasons) or Markup(),
            tag("figure", pictures.term_shares(story)),
            tag("div", *(tag("figure", each) for each in drawn), class_="charts one"),
            table(["term", "share", "trend", "alignment", "flags", "advice"], rows, "terms"),
        ]
    )


def robustness(story: Story) -> Markup | None:
    """How far the world may differ."""
    if story.probe is None:
        return None
    charts = [
        tag(
            "figure",
            tag("figcaption", f"{each.path}: holds from {words.span(each.feasible)}"),
            pictures.retention(each),
        )
        for each in story.probe.parameters
        if pictures.is_drawable(each)
    ]
    return tag("div", *charts, class_="charts")


def scorecard(story: Story) -> Markup | None:
    """A summary in bands; it decides nothing."""
    card = story.card
    if card is None:
        return None
    rows = [
        (
            each.key,
            words.number(each.value),
            words.span(each.ci),
            tag("span", each.band or "unknown", class_=f"badge {each.band or ''}"),
            words.percent(each.weight),
        )
        for each in card.items
    ]
    note = f"Total {words.percent(card.total)}. A summary beside the verdict, never instead of it."
    return join(
        [
            table(["what", "value", "95 %", "band", "weight"], rows),
            tag("p", note, class_="note"),
            listed(card.caveats) or Markup(),
        ]
    )


def budget(story: Story) -> Markup | None:
    """What is spent, and what is left."""
    rows = [
        (name, _used(gone, limit), words.number(spent), words.number(held), words.number(limit))
        for name, spent, held, limit, gone in words.budget_rows(story)
    ]
    return table(["resource", "", "spent", "reserved", "limit"], rows) if rows else None


def _used(gone: float, limit: float | None) -> Markup:
    if limit is None:
        return Markup()
    return bar(gone, f"{gone:.0%} gone", "part" if gone >= 0.8 else "")


def troubles(story: Story) -> Markup | None:
    """Alerts, and what did not work."""
    alerts = [
        (each.signature, each.severity, each.run, "open" if each.is_open else "over")
        for each in story.alerts
    ]
    lost = words.failures(story)
    parts: list[Markup] = []
    if alerts:
        parts.append(table(["alert", "severity", "run", "state"], alerts))
    if lost:
        parts += [tag("h3", "Tried, and did not work"), table(["candidate", "status", "why"], lost)]
    return join(parts) if parts else None


def agreement(story: Story) -> Markup | None:
    """The contract, and who approved what."""
    contract, state = story.contract, story.state
    if contract is None:
        return None
    rows: list[tuple[object, object]] = [
        ("contract", f"version {words.number(state.contract_version)}"),
        ("hash", words.short_hash(state.contract_hash)),
        ("protocol", words.short_hash(state.protocol_hash)),
        ("may be tuned", ", ".join(contract.scope.kinds)),
    ]
    names = {
        **dict.fromkeys(state.pending_approvals, "pending"),
        **{key: held.status for key, held in state.approvals.items()},
    }
    marks = [
        tag("li", key.replace("_", " "), class_="yes" if status == "approved" else "no")
        for key, status in sorted(names.items())
    ]
    if contract.task.success_definition:
        rows.append(("success", contract.task.success_definition))
    if story.source is not None and not marks:
        return join([facts(rows), tag("p", words.NOT_APPROVED_HERE, class_="note")])
    return join([facts(rows), tag("h3", "Approvals"), tag("ul", *marks, class_="checks")])


def upcoming(story: Story) -> Markup | None:
    """What to do next."""
    action = story.action
    if action is None:
        return None
    parts = [tag("p", tag("strong", action.action), f": {action.why}")]
    parts.append(listed(f"first: {each}" for each in action.blocking) or Markup())
    return join([*parts, shell(action.command) if action.command else Markup()])


def again(story: Story) -> Markup | None:
    """How the incumbent's runs were started, and what proves that nothing was changed."""
    head = story.state.ledger_head
    lines = [
        shell(text) for text in dict.fromkeys(map(shlex.join, story.commands.values())) if text
    ]
    proof = tag(
        "p",
        f"Ledger: {head.seq} events, head ",
        tag("code", head.hash[:_HEAD_DIGITS]),
        ". Check it with ",
        tag("code", "telic study ledger verify"),
        ".",
    )
    return join([*lines, proof])
