"""The history in a session's report: iterations, curves, reward and judge, costs, the policy."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from telic.authors.candidate import (
    MemberScore,
    RewardCandidate,
    SessionIteration,
    latest_lessons,
)
from telic.core.text import MISSING, count, duration, figure, money, percent
from telic.judges.validation import Trial, text_hash
from telic.llm.answers import Replies
from telic.llm.client import REPLIES
from telic.report import document as doc
from telic.report.charts import (
    Bar,
    ChartLine,
    LineChart,
    Node,
    Point,
    Tree,
)
from telic.rewards.contract import RewardSpec
from telic.session.budget import paid
from telic.session.certificate import Certificate
from telic.session.control import DeliveredNotes
from telic.session.report._evidence import (
    Blocks,
    EndedSession,
    command,
    gauge,
    listed,
    score_text,
    step_count,
)
from telic.storage.files import read_fields, read_record
from telic.storage.layout import MemberFolder, RunFolder, SessionFolder
from telic.storage.reading import read_text
from telic.storage.scalars import Kind, read_rows

_CURVE_POINTS = 120
_MANIFEST = ("python", "platform", "processors", "created_at")


def _iterations(ended: EndedSession) -> Blocks:
    """Return the lineage and a row per iteration."""
    if not ended.history:
        return []

    def policies(members: Sequence[MemberScore], best: str | None = None) -> doc.Items:
        rows: list[doc.Words] = []
        for member in members:
            name = doc.Strong(member.member) if member.member == best else doc.Mono(member.member)
            rows.append((name, gauge(ended.config, member)))
        return doc.Items(tuple(rows), "rated")

    candidates = [ended.candidate(iteration.number) for iteration in ended.history]
    nodes: list[Node] = []
    rows: list[tuple[doc.Cell, ...]] = []
    for iteration, candidate in zip(ended.history, candidates, strict=True):
        name = f"{iteration.number}{' ★' if iteration is ended.best else ''}"
        nodes.append(
            Node(
                key=iteration.number,
                parent=iteration.parent,
                title=name,
                note=score_text(iteration.score),
                share=iteration.score,
                is_chosen=iteration is ended.best,
                hint=iteration.change,
            )
        )
        screening = (doc.Soft("screening runs"), policies(iteration.trials))
        trained = policies(iteration.members, iteration.best)
        rows.append(
            (
                name,
                MISSING if iteration.parent is None else str(iteration.parent),
                doc.Stack(tuple(_change(ended.folder, iteration, candidate))),
                doc.Stack((trained, *(screening if iteration.trials else ()))),
                "nothing" if iteration.passed else ", ".join(iteration.tags) or "nothing",
                duration(iteration.training_s),
                step_count(iteration.steps),
            )
        )
    heads = ("iteration", "from", "change", "policies", "failed", "training", "steps")
    note = (
        "Dots are scores, lines their 95 % intervals, the mark the threshold. "
        "★ is the best; a box shows the mean score of an iteration's policies."
    )
    learned = listed([f"{each.text} ({each.tier})" for each in latest_lessons(candidates)])
    return [
        Tree("Lineage of the iterations, with the mean score of iteration", tuple(nodes)),
        doc.Table(heads, rows, kind="attempts"),
        doc.Text(note, "note"),
        *([doc.Heading("Lessons"), *learned] if learned else []),
    ]


def _change(
    folder: SessionFolder, iteration: SessionIteration, candidate: RewardCandidate
) -> list[str]:
    """Return what an iteration changed, why, and which notes it answers."""
    lines = [iteration.change]
    if iteration.failure:
        lines.append(f"Could not be trained: {iteration.failure}")
    lines += [f"Alarm: {alarm}" for alarm in iteration.alarms]
    lines += [f"Not judged: {reason}" for reason in iteration.unjudged]
    lines += [f"Judge in doubt: {iteration.judge_doubted}"] if iteration.judge_doubted else []
    lines += [f"Why: {candidate.diagnosis}"] if candidate.diagnosis else []
    variants = candidate.variants if len(candidate.variants) > 1 else ()
    for number, variant in enumerate(variants, start=1):
        named = [*variant.structure]
        named += [f"{name} {figure(value)}" for name, value in variant.weights.items()]
        named += ["starts from the policies of its parent"] if variant.warm else []
        lines.append(f"Variant {number}: {', '.join(named) or 'as the reward says'}")
    path = folder.iteration(iteration.number).notes
    notes = read_record(path, DeliveredNotes).notes if path.exists() else ()
    return lines + [f"Answers: “{note.text}”" for note in notes]


def _analysis(ended: EndedSession) -> Blocks:
    found = ended.analysis
    return [] if found is None else [doc.Text(found.story), *listed(found.findings)]


def _curves(ended: EndedSession) -> Blocks:
    """Return the returns over training steps: a chart per run, a line per variant."""
    charts: list[doc.Block] = []
    runs = [
        (title, run, scores, each.variant)
        for each in ended.history
        for title, run, scores in (
            (
                f"Iteration {each.number}, screening",
                RunFolder(ended.folder.iteration(each.number).path / "trial"),
                each.trials,
            ),
            (f"Iteration {each.number}", ended.folder.iteration(each.number).run, each.members),
        )
    ]
    for title, run, scores, kept in runs:
        variants: dict[int, list[MemberFolder]] = {}
        for score in scores:
            variants.setdefault(score.variant, []).append(MemberFolder(run.path / score.member))
        lines: list[ChartLine] = []
        for variant, members in sorted(variants.items()):
            name = f"variant {variant + 1}{' ★' if variant == kept else ''}"
            marks = [Point(x, y, y, y) for x, y, *_ in _over_seeds(members, "eval", "mean_return")]
            points = _over_seeds(members, "train", "episodic_return")
            lines += [ChartLine(name, points, marks)] if points else []
        if lines:
            seeds = count(max(map(len, variants.values())), "seed")
            last = ", ".join(f"{line.name} ends at {figure(line.points[-1].y)}" for line in lines)
            label = f"{title}: return over steps, {seeds}; {last}"
            chart = LineChart(label, tuple(lines), "steps", "return")
            charts.append(doc.Figure(chart, title))
    note = (
        "Return under the iteration's own reward: the line is the mean over training seeds, the "
        "band their range, dots are evaluations without exploration. Rewards differ between "
        "iterations and variants, so compare heights within a line only."
    )
    return [doc.Beside(tuple(charts)), doc.Text(note, "note")] if charts else []


def _over_seeds(members: Sequence[MemberFolder], kind: Kind, name: str) -> list[Point]:
    """Return mean, least and most at every step that all members have a value for.

    Neighbours are averaged, with the widest band, until a chart can show them.
    """
    values: dict[int, list[float]] = {}
    for member in members:
        for row in read_rows(member.scalars, kind):
            if row.get(name) is not None:
                values.setdefault(row["global_step"], []).append(row[name])
    steps = [step for step, own in sorted(values.items()) if len(own) == len(members)]
    size = -(-len(steps) // _CURVE_POINTS) or 1
    points: list[Point] = []
    for group in (steps[start : start + size] for start in range(0, len(steps), size)):
        own = [values[step] for step in group]
        mean = sum(sum(each) / len(each) for each in own) / len(own)
        points.append(Point(group[-1], mean, min(map(min, own)), max(map(max, own))))
    return points


class TermShare(NamedTuple):
    """The share of a reward term in the return of an episode."""

    name: str
    words: str
    weight: float | None
    total: float | None
    """mean sum over an evaluation episode"""
    share: float | None
    """of all terms, by absolute value"""


def reward_terms(member: MemberFolder, step: int) -> list[TermShare]:
    """Return the terms of a policy's reward in the evaluation at `step`, the largest first."""
    spec = RewardSpec()
    if member.reward_spec.exists():
        spec = read_record(member.reward_spec, RewardSpec)
    rows = [row for row in read_rows(member.scalars, "eval") if row["global_step"] <= step]
    totals: dict[str, float] = rows[-1].get("reward_terms", {}) if rows else {}
    described = {term.name: term for term in spec.terms}
    size = sum(map(abs, totals.values()))
    shares: list[TermShare] = []
    for name in dict.fromkeys([*totals, *described]):
        term, total = described.get(name), totals.get(name)
        share = abs(total) / size if total is not None and size > 0.0 else None
        words = term.description if term else ""
        shares.append(TermShare(name, words, term.weight if term else None, total, share))
    return sorted(shares, key=lambda term: -(term.share or 0.0))


def _reward(ended: EndedSession) -> Blocks:
    """Return formula, share of each term, and code of the best policy's reward."""
    best, member = ended.best, ended.member
    if best is None or member is None:
        first = ended.author.reward if ended.author else None
        return [doc.Code(first, "python", "Reward as first written")] if first else []
    files = MemberFolder(ended.folder.iteration(best.number).run.path / member.member)
    spec = read_record(files.reward_spec, RewardSpec) if files.reward_spec.exists() else None
    rows: list[tuple[doc.Words, ...]] = []
    for term in reward_terms(files, member.step):
        is_cost = term.total is not None and term.total < 0
        share: doc.Words = MISSING
        if term.share is not None:
            text = f"{percent(term.share)}{' (a cost)' if is_cost else ''}"
            share = Bar(term.share, text, "cost" if is_cost else "")
        weight, total = figure(term.weight), figure(term.total)
        rows.append((doc.Mono(term.name), term.words, weight, total, share))
    findings: list[dict[str, Any]] = []
    if files.summary.exists():
        kind = list[dict[str, Any]] | None
        findings = read_fields(files.summary, findings=kind)["findings"] or []
    heads = ("term", "meaning", "weight", "over an episode", "share")
    return [
        *([doc.Formula(spec.latex)] if spec and spec.latex else []),
        *([doc.Table(heads, rows)] if rows else []),
        *listed([finding["message"] for finding in findings]),
        doc.Code(read_text(files.reward_code), "python", "Code of the reward, as trained"),
    ]


def _judge(ended: EndedSession) -> Blocks:
    """Return the code of the judge, its validation, and the certificate of its verdict."""
    if ended.author is None:
        return []
    note = "Hidden from reward authors. It runs confined, on recorded episodes."
    blocks: list[doc.Block] = [doc.Text(note, "note")]
    if ended.folder.trial.exists():
        trial = read_record(ended.folder.trial, Trial)
        rows = [
            (each.name, "good" if each.is_good else "bad", score_text(each.score), figure(each.pay))
            for each in trial.examples
        ]
        blocks += [
            doc.Heading("Validation on reference episodes, before any training"),
            doc.Table(("example", "should be", "judge's score", "reward pays"), rows),
            *listed((*trial.judge_problems, *trial.reward_problems)),
        ]
    if ended.author.objections:
        rows = [
            (each.about, each.text, f"withdrawn: {each.withdrawn}" if each.withdrawn else "open")
            for each in ended.author.objections
        ]
        blocks += [
            doc.Heading("Objections of reviewers"),
            doc.Table(("about", "objection", "state"), rows),
        ]
    if ended.folder.certificate.exists():
        certificate = read_record(ended.folder.certificate, Certificate)
        good = certificate.good or "none"
        mutants = [
            (
                each.criterion,
                f"{each.caught} of {each.total}",
                MISSING if each.changed is None else str(each.changed),
            )
            for each in certificate.mutants
        ]
        blocks += [
            doc.Heading("Can its verdict be trusted?"),
            doc.Text(f"Independent confirmation that what passed is good: {good}."),
        ]
        if mutants:
            heads = ("criterion", "mutants noticed", "mutants that change what it measures")
            what = "Mutants: passing episodes, frozen, cut, slowed, reversed, shuffled or mirrored."
            blocks += [doc.Text(what), doc.Table(heads, mutants)]
    return [*blocks, doc.Code(ended.author.judge, "python", "Code of the judge")]


def _costs(ended: EndedSession) -> Blocks:
    """Return time, steps and model costs."""
    replies = Replies(ended.folder.path / REPLIES).calls()
    answered = [reply.raw for reply in replies if reply.raw is not None]
    rows = [
        ("wall clock", duration(ended.summary.seconds)),
        ("training", duration(sum(each.training_s for each in ended.history))),
        ("judging", duration(sum(each.judging_s for each in ended.history))),
        ("environment steps", step_count(ended.summary.steps)),
    ]
    if replies:
        usd, calls = paid(ended.folder)
        tokens = [raw.tokens.total for raw in answered if raw.tokens.total is not None]
        rows += [
            ("waiting for models", duration(sum(reply.latency_s for reply in replies))),
            ("model", ", ".join(dict.fromkeys(reply.model for reply in replies))),
            ("model calls", f"{calls:,}"),
            ("tokens", f"{sum(tokens):,}" if len(tokens) == len(answered) else "unknown"),
            ("price", money(usd)),
        ]
    return [doc.FactSheet(rows, heads=("what", "how much"))]


def _policy(ended: EndedSession) -> Blocks:
    """Return where the policy is and what can be done with it."""
    best, member = ended.best, ended.member
    if best is None or member is None:
        return []
    run = ended.folder.iteration(best.number).run.path
    where = f"{run.relative_to(ended.folder.path)}/{member.member}"
    chosen = [str(run), "--member", member.member]
    judged = [*chosen, "--step", str(member.step)]
    commands = {
        "watch it": ["telic", "play", *judged],
        "export it (ONNX, NumPy)": ["telic", "export", *judged],
        "label it": ["telic", "label", ended.folder.name, "yes"],
        "see its training": ["telic", "show", *chosen],
    }
    blocks: list[doc.Block] = [doc.Text(("In the session's folder: ", doc.Mono(where), "."))]
    for what, line in commands.items():
        blocks += [doc.Heading(what), doc.ShellLine(shlex.join(line))]
    return blocks


def _again(ended: EndedSession) -> Blocks:
    """Return the command that repeats the session, and the versions it was made with."""
    best, member = ended.best, ended.member
    rows = [("session", ended.folder.name)]
    if best is not None and member is not None:
        run = ended.folder.iteration(best.number).run
        manifest = read_fields(run.manifest, versions=dict[str, Any] | None)
        versions = manifest["versions"] or {}
        named = {**versions, **{name: manifest.get(name) for name in _MANIFEST}}
        rows += [(name, str(value)) for name, value in named.items() if value]
        code = read_text(MemberFolder(run.path / member.member).reward_code)
        rows.append(("reward, SHA-256", text_hash(code)))
    rows += [("judge, SHA-256", text_hash(ended.author.judge))] if ended.author else []
    facts = [(name, doc.Mono(value)) for name, value in rows]
    return [
        doc.ShellLine(command(ended.config, ended.folder.config)),
        doc.FactSheet(facts, heads=("what", "version or hash")),
    ]


HISTORY: dict[str, Callable[[EndedSession], Blocks]] = {
    "Iterations": _iterations,
    "Analysis by the model": _analysis,
    "Learning curves": _curves,
    "The reward": _reward,
    "The judge": _judge,
    "Cost": _costs,
    "The policy": _policy,
    "Run it again": _again,
}
