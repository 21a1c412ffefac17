"""Sections of a session's report: evidence, criteria, history, reward, judge and costs."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from telic.authors.answers import Analysis
from telic.authors.candidate import MemberScore, RewardCandidate, SessionIteration, latest_lessons
from telic.authors.request import SessionConfig
from telic.core.confidence import proven_mean
from telic.core.config import Record
from telic.core.request import command_words
from telic.core.stats import Interval, bootstrap
from telic.core.text import MISSING, count, duration, figure, percent
from telic.envs.spec import RewardSpec
from telic.judges.criteria import Composition, scope_words
from telic.judges.validation import JudgeValidation
from telic.judges.verdict import Judgment
from telic.rendering import RenderJob, render
from telic.report import document as doc
from telic.report.charts import Bar, ChartLine, ColumnChart, Gauge, LineChart, Point
from telic.report.html import MAX_INLINE
from telic.session.certificate import Certificate
from telic.session.control import DeliveredNotes
from telic.session.labels import EpisodeLabel, Veto, calibration_of, choose_episodes, worst_first
from telic.session.records import SessionSummary
from telic.session.robustness import read_card
from telic.storage.files import read_record
from telic.storage.layout import MemberFolder, RunFolder, SessionFolder
from telic.storage.reading import read_text
from telic.storage.scalars import RowKind, read_findings, read_rows
from telic.storage.trajectories import Environment

Blocks = Sequence[doc.AnyBlock]
FULL_CREDIT = 0.995
_STRIPS = {
    "p10": "a poor episode (p10)",
    "median": "the median episode",
    "p90": "a good episode (p90)",
}


@dataclass(frozen=True, slots=True)
class EndedSession:
    """Records of a session that is finished or was stopped."""

    folder: SessionFolder
    config: SessionConfig
    author: Composition | None
    """first composition of the author, or None if the session ended before it was written"""
    history: list[SessionIteration]
    summary: SessionSummary
    redraws: bool = True
    """whether to render existing pictures again"""
    note: Callable[[str], None] = print
    """function called with messages about missing parts of the report"""

    @property
    def best(self) -> SessionIteration | None:
        """Return the iteration that contains the delivered policy."""
        number = self.summary.best_iteration
        return next((each for each in self.history if each.number == number), None)

    @property
    def member(self) -> MemberScore | None:
        """Return the best policy."""
        return self.best.best_member if self.best else None

    def candidate(self, number: int) -> RewardCandidate:
        """Return the candidate of an iteration."""
        return read_record(self.folder.iteration(number).candidate, RewardCandidate)

    @property
    def analysis(self) -> Analysis | None:
        """Return the model's analysis of the session, or None if the model wrote none."""
        path = self.folder.analysis
        return read_record(path, Analysis) if path.exists() else None

    @property
    def author_name(self) -> str:
        """Return the name of the author of criteria, reward and judge."""
        if self.config.model is None:
            return "the composer, without a model"
        others = ", ".join(f"{role}: {model}" for role, model in self.config.model_for.items())
        return f"{self.config.model} ({others})" if others else self.config.model


def listed(lines: Sequence[str]) -> list[doc.AnyBlock]:
    """Return a list block, or no block if the list is empty."""
    return [doc.Items(tuple(lines))] if lines else []


def score_text(value: float | None) -> str:
    """Format a score, or "unknown" for None."""
    return "unknown" if value is None else f"{value:.2f}"


def step_count(value: int | None) -> str:
    """Format a number of environment steps."""
    return f"{value:,}" if value else MISSING


def command(config: SessionConfig, request: Path) -> str:
    """Return the command that repeats a request stored in the file `request`."""
    others = SessionConfig.model_fields.keys() - {"intent", "env"}
    options = {name: getattr(config, name) for name in others}
    words = command_words(SessionConfig, options, str(request))
    return shlex.join(["telic", "run", config.intent, "--env", config.env, *words])


def gauge(config: SessionConfig, member: MemberScore) -> doc.Inline:
    """Return a policy's score as a gauge, or "unknown"."""
    value, interval = member.judgment.score, interval_of(member.judgment)
    if value is None:
        return "unknown"
    if interval is None:
        return Gauge(value, value, value, config.threshold, f"{value:.2f}")
    text = f"{value:.2f} ({interval.low:.2f} to {interval.high:.2f})"
    return Gauge(interval.low, value, interval.high, config.threshold, text)


def interval_of(judgment: Judgment) -> Interval | None:
    """Return the confidence interval of a policy's score, or None if unknown."""
    scores = [verdict.score for verdict in judgment.verdicts]
    known = [score for score in scores if score is not None]
    if judgment.alpha is None or judgment.low is None:  # record of an earlier version
        return bootstrap(known)
    # Unknown scores may take any value in [0, 1]: use 0 for the lower bound, 1 for the upper.
    missing = [*(1.0 - score for score in known), *[0.0] * judgment.unknown]
    return Interval(judgment.low, 1.0 - proven_mean(missing, judgment.alpha))


def draw_pictures(
    folder: SessionFolder,
    number: int,
    member: MemberScore,
    where: Environment,
    note: Callable[[str], None],
    redraws: bool = True,
) -> None:
    """Render median.mp4 and strips of the p10, median and p90 episodes, and note failures.

    If the video is too large to embed, a smaller version is added (median_small.mp4). Existing
    files are kept unless `redraws` is set.
    """
    jobs: dict[str, RenderJob] = {}
    for label, index in choose_episodes(member.judgment.verdicts).items():
        names = [f"strip_{label}.png"]
        names += ["median.mp4", "median_small.mp4"] if label == "median" else []
        for name in names:
            jobs[name] = RenderJob(
                trajectory=folder.iteration(number).episode(member.member, index),
                output=folder.report_dir / name,
                env=where[0],
                env_args=where[1],
            )
    small = jobs.pop("median_small.mp4").model_copy(update={"width": 240, "fps": 12.0})
    video = jobs["median.mp4"].output

    def draw(*wanted: RenderJob) -> None:
        missing = [each for each in wanted if redraws or not each.output.exists()]
        for each in missing:
            each.output.unlink(missing_ok=True)  # a stale file must not hide a failure
        for rendering in render(missing) if missing else ():
            if rendering.error:
                note(f"{rendering.output.name}: {rendering.error}")

    draw(*jobs.values())
    if video.exists() and video.stat().st_size > MAX_INLINE:
        draw(small)
    else:
        small.output.unlink(missing_ok=True)


def video_section(ended: EndedSession) -> Blocks:
    folder, best, member = ended.folder, ended.best, ended.member
    if best is None or member is None:
        return []
    where = ended.config.env, ended.candidate(best.number).env_args
    draw_pictures(folder, best.number, member, where, ended.note, ended.redraws)
    verdicts = member.judgment.verdicts
    chosen = choose_episodes(verdicts)
    blocks: list[doc.AnyBlock] = []
    video, small = folder.report_dir / "median.mp4", folder.report_dir / "median_small.mp4"
    if video.exists():
        title = f"The median episode, score {score_text(verdicts[chosen['median']].score)}"
        row: list[doc.AnyBlock] = [doc.Video(video, title, small if small.exists() else None)]
        order = [index for index in worst_first(verdicts) if verdicts[index].score is not None]
        scores = [score for index in order if (score := verdicts[index].score) is not None]
        if scores:
            shown = [order.index(index) for index in chosen.values() if index in order]
            span = f"from {scores[0]:.2f} to {scores[-1]:.2f}"
            label = f"Scores of {count(len(scores), 'episode')}, {span}"
            note = (
                f"{label}. Initial states were not used in training. The highlighted "
                "episodes are shown here, and the dashed line is the threshold."
            )
            chart = ColumnChart(label, tuple(scores), tuple(shown), ended.config.threshold)
            row.append(doc.Figure(chart, title, note))
        blocks.append(doc.SideBySide(tuple(row), "footage"))
    for name, title in _STRIPS.items():
        strip = folder.report_dir / f"strip_{name}.png"
        if strip.exists():
            label = f"Six frames of {title}, score {score_text(verdicts[chosen[name]].score)}"
            blocks.append(doc.Picture(strip, label, label))
    return blocks


def criteria_table(ended: EndedSession) -> Blocks:
    """Return a table of criteria with their targets and measured values."""
    member = ended.member
    if member is None or not member.judgment.criteria:
        return listed([each.title for each in ended.author.criteria] if ended.author else [])
    scores = {
        each.title: each
        for verdict in reversed(member.judgment.verdicts)
        for each in verdict.criteria
    }
    earned = member.judgment.criteria
    whole = sum(scores[title].weight for title in earned)
    rows: list[tuple[doc.Words, ...]] = []
    for title, (credit, value) in earned.items():
        each = scores[title]
        weight = percent(each.weight / whole) if whole else MISSING
        sign = "≥" if each.goal > each.zero else "≤"
        rows.append(
            (
                title,
                "constraint" if each.is_guard else weight,
                f"{sign} {each.goal:.4g} {each.unit}".strip(),
                f"{figure(value)} {each.unit}".strip(),
                Bar(credit, percent(credit), "good" if credit >= FULL_CREDIT else "middling"),
            )
        )
    # An open goal ("as fast as possible") is compared with the best known value for the robot.
    goals: list[str] = []
    for each in ended.author.criteria if ended.author else ():
        if each.is_open and each.title in earned:
            best = "no reference value is known for this robot"
            if each.best is not None:
                known = f"{each.best:.3g} {each.unit} ({each.best_source})"
                best = f"the best known value for this robot is {known}"
            value = figure(earned[each.title][1])
            goals.append(f"Open-ended: {value} {each.unit} was reached; {best}.")
    note = (
        f"Best policy ({member.member}), {member.judgment.episodes} new episodes. The total "
        "score is multiplied by the credit of each constraint."
    )
    heads = ("criterion", "weight", "target", "measured (median)", "credit")
    return [doc.Table(heads, rows), *listed(goals), doc.Text(note, "note")]


def robustness_table(ended: EndedSession) -> Blocks:
    """Return a table of the policy's results under conditions that were not used in training."""
    card = read_card(ended.folder)
    if card is None:
        return []
    rows = [
        (
            row.condition,
            row.words,
            (row.reason or "unknown")
            if row.passing is None
            else f"{row.passing} of {row.episodes}",
            MISSING if row.passing is None else score_text(row.score),
        )
        for row in card.rows
    ]
    note = (
        f"The delivered policy ({card.member}, {card.step:,} steps), scored by the code judge from "
        f"new initial states. An episode passes with {card.threshold:g}. This does not affect the "
        "verdict."
    )
    heads = ("condition", "difference", "episodes that pass", "mean score")
    return [doc.Table(heads, rows), doc.Text(note, "note")]


def seen_section(ended: EndedSession) -> Blocks:
    """Return the section on what the vision model saw, and on disagreements between judges."""
    rows: list[tuple[str, ...]] = []
    differ: list[str] = []
    verdicts = ended.member.judgment.verdicts if ended.member else ()
    for number, verdict in enumerate(verdicts, start=1):
        for seen in verdict.seen:
            is_timed = seen.start_s is not None and seen.end_s is not None
            when = f"{seen.start_s:.1f} to {seen.end_s:.1f} s" if is_timed else MISSING
            rows.append((str(number), seen.criterion, score_text(seen.score), when, seen.evidence))
        for conflict in verdict.disagreements:
            settled = "resolved by a closer look." if conflict.resolved else "not resolved."
            differ.append(
                f"Episode {number}, “{conflict.criterion}”: code gives {conflict.code:.2f} "
                f"({conflict.measured}), vision {conflict.vision:.2f} ({conflict.seen}); {settled}"
            )
    if not rows:
        return []
    heads = ("episode", "criterion", "score", "when", "observation")
    return [
        doc.Table(heads, rows),
        *(listed(differ) or [doc.Text("Code and vision judge agree.", "note")]),
    ]


def people_section(ended: EndedSession) -> Blocks:
    """Return the section on vetoes, labels, and disagreements between people and judges."""
    labels = EpisodeLabel.read(ended.folder.labels)
    blocks = listed([veto.words for veto in Veto.read(ended.folder.vetoes)])
    if not labels:
        return blocks
    rows = [
        (
            f"{label.iteration}, {label.member}, {label.episode}",
            "yes" if label.is_wanted else "no",
            score_text(label.score),
            MISSING if label.passed is None else "differ" if label.disagrees else "agree",
            label.author if label.by == "person" else f"{label.author} (an agent)",
            label.why or MISSING,
        )
        for label in labels
    ]
    heads = ("iteration, policy, episode", "wanted", "score", "person and judge", "who", "why")
    calibration = calibration_of(ended.folder, ended.config.threshold)
    return [*blocks, doc.Table(heads, rows), doc.Text(calibration.words, "note")]


def interpretation_section(ended: EndedSession) -> Blocks:
    """Return the section on ambiguous words with their interpretation, and on ignored words."""
    lines = list(ended.summary.doubts)
    if ended.author is not None:
        left = (*ended.author.not_understood, *ended.author.dropped)
        scope = scope_words([each.words for each in ended.author.covered], left)
        lines = [scope, *lines] if scope else lines
    words = listed(lines) or [doc.Text("No word was ambiguous or ignored.")]
    return [*words, doc.Text(f"Written by {ended.author_name}.", "note")]


_CURVE_POINTS = 120


def iterations_section(ended: EndedSession) -> Blocks:
    """Return a table of iterations with changes, reasons, policies and failures."""
    if not ended.history:
        return []

    def policies(members: Sequence[MemberScore], best: str | None = None) -> doc.Items:
        rows: list[doc.Words] = []
        for member in members:
            name = doc.Strong(member.member) if member.member == best else doc.Mono(member.member)
            rows.append((name, gauge(ended.config, member)))
        return doc.Items(tuple(rows), "rated")

    candidates = [ended.candidate(iteration.number) for iteration in ended.history]
    rows: list[tuple[doc.Cell, ...]] = []
    for iteration, candidate in zip(ended.history, candidates, strict=True):
        lines = [iteration.change]
        lines += [f"Could not be trained: {iteration.failure}"] if iteration.failure else []
        lines += [f"Alarm: {alarm}" for alarm in iteration.alarms]
        lines += [f"Not judged: {reason}" for reason in iteration.unjudged]
        lines += [f"Judge doubtful: {iteration.judge_doubted}"] if iteration.judge_doubted else []
        lines += [f"Why: {candidate.diagnosis}"] if candidate.diagnosis else []
        variants = candidate.variants if len(candidate.variants) > 1 else ()
        for number, variant in enumerate(variants, start=1):
            named = [*variant.structure]
            named += [f"{name} {figure(value)}" for name, value in variant.weights.items()]
            named += ["starts from the policies of its parent"] if variant.warm else []
            lines.append(f"Variant {number}: {', '.join(named) or 'as the reward says'}")
        path = ended.folder.iteration(iteration.number).notes
        notes = read_record(path, DeliveredNotes).notes if path.exists() else ()
        lines += [f"Answers: “{note.text}”" for note in notes]
        screening = (doc.Soft("screening runs"), policies(iteration.trials))
        trained = policies(iteration.members, iteration.best)
        rows.append(
            (
                f"{iteration.number}{' ★' if iteration is ended.best else ''}",
                MISSING if iteration.parent is None else str(iteration.parent),
                doc.Stack(tuple(lines)),
                doc.Stack((trained, *(screening if iteration.trials else ()))),
                "nothing" if iteration.passed else ", ".join(iteration.tags) or "nothing",
                duration(iteration.training_s),
                step_count(iteration.steps),
            )
        )
    heads = ("iteration", "from", "change", "policies", "failed", "training", "steps")
    note = "Dots are scores, lines 95 % intervals, and the mark is the threshold. ★ is the best."
    learned = listed([f"{each.text} ({each.tier})" for each in latest_lessons(candidates)])
    return [
        doc.Table(heads, rows, kind="attempts"),
        doc.Text(note, "note"),
        *([doc.Heading("Lessons"), *learned] if learned else []),
    ]


def analysis_section(ended: EndedSession) -> Blocks:
    found = ended.analysis
    return [] if found is None else [doc.Text(found.story), *listed(found.findings)]


def curves_section(ended: EndedSession) -> Blocks:
    charts: list[doc.AnyBlock] = []
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
            charts.append(doc.Figure(LineChart(label, tuple(lines), "steps", "return"), title))
    note = (
        "Return under the iteration's own reward. The line is the mean over training seeds, the "
        "band is their range, and dots are evaluations without exploration. Rewards differ between "
        "iterations and variants, so compare values within a line only."
    )
    return [doc.SideBySide(tuple(charts)), doc.Text(note, "note")] if charts else []


def _over_seeds(members: Sequence[MemberFolder], kind: RowKind, name: str) -> list[Point]:
    """Return the mean, minimum and maximum at every step for which all members have a value.

    Neighboring points are merged until they fit in the chart, keeping the widest band.
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


class RewardTermLine(Record):
    """Reward term with its sum over an evaluation episode."""

    name: str
    words: str
    weight: float | None
    total: float | None
    share: float | None
    """fraction of the sum of all terms' absolute values"""


def reward_terms(member: MemberFolder, step: int) -> list[RewardTermLine]:
    """Return a policy's reward terms in the evaluation at `step`, largest share first."""
    spec = RewardSpec()
    if member.reward_spec.exists():
        spec = read_record(member.reward_spec, RewardSpec)
    rows = [row for row in read_rows(member.scalars, "eval") if row["global_step"] <= step]
    totals: dict[str, float] = rows[-1].get("reward_terms", {}) if rows else {}
    described = {term.name: term for term in spec.terms}
    size = sum(map(abs, totals.values()))
    shares: list[RewardTermLine] = []
    for name in dict.fromkeys([*totals, *described]):
        term, total = described.get(name), totals.get(name)
        share = abs(total) / size if total is not None and size > 0.0 else None
        words, weight = (term.description, term.weight) if term else ("", None)
        shares.append(
            RewardTermLine(name=name, words=words, weight=weight, total=total, share=share)
        )
    return sorted(shares, key=lambda term: -(term.share or 0.0))


def reward_section(ended: EndedSession) -> Blocks:
    best, member = ended.best, ended.member
    if best is None or member is None:
        first = ended.author.reward if ended.author else None
        return [doc.Code(first, "python", "Reward as originally written")] if first else []
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
    heads = ("term", "meaning", "weight", "per episode", "share")
    return [
        *([doc.Formula(spec.latex)] if spec and spec.latex else []),
        *([doc.Table(heads, rows)] if rows else []),
        *listed([finding["message"] for finding in read_findings(files.summary)]),
        doc.Code(read_text(files.reward_code), "python", "Reward code used in training"),
    ]


def judge_section(ended: EndedSession) -> Blocks:
    if ended.author is None:
        return []
    note = "Hidden from reward authors. It runs in a sandboxed process on recorded episodes."
    blocks: list[doc.AnyBlock] = [doc.Text(note, "note")]
    if ended.folder.trial.exists():
        trial = read_record(ended.folder.trial, JudgeValidation)
        rows = [
            (each.name, "good" if each.is_good else "bad", score_text(each.score), figure(each.pay))
            for each in trial.examples
        ]
        blocks += [
            doc.Heading("Validation on reference episodes, before training"),
            doc.Table(("example", "expected", "judge's score", "reward pays"), rows),
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
            doc.Heading("Can the verdict be trusted?"),
            doc.Text(f"Independent confirmation of the passing behavior: {good}."),
        ]
        if mutants:
            heads = ("criterion", "mutants detected", "mutants that change what it measures")
            what = "Mutants: passing episodes frozen, cut, slowed, reversed, shuffled, mirrored."
            blocks += [doc.Text(what), doc.Table(heads, mutants)]
    return [*blocks, doc.Code(ended.author.judge, "python", "Code of the judge")]
