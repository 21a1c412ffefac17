"""The data of a session's report, gathered once from its records and files."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from telic.authors.answers import Analysis
from telic.authors.candidate import (
    Lesson,
    MemberScore,
    RewardCandidate,
    SessionIteration,
    latest_lessons,
)
from telic.core.confidence import proven_mean
from telic.core.events import Listener, LogMessage, read_events
from telic.core.stats import Interval, bootstrap
from telic.core.text import count, figure
from telic.envs import make
from telic.judges.criteria import Composition, Leaf
from telic.judges.obedience import ObeyedCommands, obedience
from telic.judges.trial import Trial
from telic.judges.verdict import Judgement
from telic.llm.events import ModelFailed, ModelReply, ModelSent
from telic.report.charts import ChartLine, LineChart, Point
from telic.report.document import Figure
from telic.rewards.contract import RewardSpec
from telic.session.budget import paid
from telic.session.certificate import Certificate
from telic.session.control import DeliveredNotes
from telic.session.pictures import Pictures, draw_pictures
from telic.session.records import SessionConfig, SessionSummary, read_summary
from telic.storage.facts import FindingFacts, ManifestFacts, MemberResultFacts
from telic.storage.files import read_facts, read_json_lines, read_record
from telic.storage.layout import IterationFolder, MemberFolder, RunFolder, SessionFolder
from telic.storage.reading import read_text
from telic.storage.scalars import Kind, read_rows
from telic.storage.trajectories import read_trajectory

_CURVE_POINTS = 120


class Troubles:
    """Lets parts of a report fail one by one: a session must not fail because of its report."""

    def __init__(self, tell: Listener) -> None:
        self.lines: list[str] = []
        self._tell = tell

    @contextmanager
    def sparing(self, what: str) -> Generator[None]:
        """Skip the rest of the block after an error, and note the error."""
        try:
            yield
        except Exception as error:  # the job boundary: the rest of the report may well be fine
            self.note(f"{what}: {type(error).__name__}: {error}")

    def note(self, line: str) -> None:
        """Record that something is missing, and why."""
        line = " ".join(line.split())
        self.lines.append(line)
        self._tell(LogMessage(message=f"Missing from the report: {line}"))


class SessionCosts(NamedTuple):
    """Seconds of wall clock by part, environment steps, and what was asked of models."""

    total_s: float
    training_s: float
    judging_s: float
    steps: int | None
    """environment steps of all policies together"""
    usd: float | None
    """paid to models; None: unknown"""
    calls: int
    """calls that were paid for, those without a valid answer included"""
    models: tuple[str, ...] = ()
    model_s: float = 0.0
    tokens: int | None = 0
    failed: int = 0
    """questions that never got a valid answer; their tokens are not in the sum, their price is"""

    @property
    def other_s(self) -> float | None:
        """Return what the parts leave over; None when the clock saw less than the parts took."""
        rest = self.total_s - self.training_s - self.judging_s - self.model_s
        return rest if rest >= 0.0 else None


class TermShare(NamedTuple):
    """What a term of the reward gave over an episode."""

    name: str
    words: str
    weight: float | None
    total: float | None
    """mean sum over an evaluation episode"""
    share: float | None
    """of all terms, by size without sign"""


class TrainedReward(NamedTuple):
    """A reward as it was trained."""

    latex: str
    code: str
    terms: tuple[TermShare, ...]
    findings: tuple[str, ...]
    """what the trainer noticed"""


@dataclass(slots=True)
class SessionReportData:
    """What there is to tell about a session; what could not be had stays empty."""

    folder: SessionFolder
    config: SessionConfig
    author: Composition | None
    """what was written first; None if the session ended before that"""
    history: list[SessionIteration]
    summary: SessionSummary
    best: SessionIteration | None = None
    member: MemberScore | None = None
    """the best policy"""
    pictures: Pictures = field(default_factory=Pictures)
    obeyed: list[ObeyedCommands] = field(default_factory=list[ObeyedCommands])
    """errors of the best policy by what it was commanded; empty: it was commanded nothing"""
    curves: list[Figure] = field(default_factory=list[Figure])
    reward: TrainedReward | None = None
    """of the best policy"""
    costs: SessionCosts | None = None
    manifest: dict[str, Any] = field(default_factory=dict[str, Any])
    """versions and hashes of the best training run"""
    candidates: dict[int, RewardCandidate] = field(default_factory=dict[int, RewardCandidate])
    """by iteration"""
    notes: dict[int, tuple[str, ...]] = field(default_factory=dict[int, tuple[str, ...]])
    """what people had said, by the iteration that answers it"""
    trial: Trial | None = None
    """reward and judge on examples whose worth is known"""
    certificate: Certificate | None = None
    """why the verdict can be believed, or not"""
    analysis: Analysis | None = None
    """what a model says of the whole"""

    @property
    def run(self) -> RunFolder | None:
        """Return the training run of the best policy."""
        return None if self.best is None else self.folder.iteration(self.best.number).run

    @property
    def lessons(self) -> list[Lesson]:
        """Return what was learned; of equal texts the latest tier holds."""
        return list(latest_lessons(self.candidates.values()))


def read_data(folder: SessionFolder) -> SessionReportData:
    """Return what the records of a session that has ended say, without drawing anything."""
    files = [folder.iteration(number).judgment for number in folder.iterations()]
    data = SessionReportData(
        folder,
        read_record(folder.config, SessionConfig),
        read_record(folder.author, Composition) if folder.author.exists() else None,
        [read_record(file, SessionIteration) for file in files if file.exists()],
        read_summary(folder),
    )
    _find_best(data)
    return data


def _find_best(data: SessionReportData) -> None:
    number = data.summary.best_iteration
    data.best = next((each for each in data.history if each.number == number), None)
    data.member = data.best.best_member if data.best else None


def gather(data: SessionReportData, troubles: Troubles, *, redraws: bool = True) -> None:
    """Read and draw what the report needs; what cannot be had is noted and left out."""
    folder, history, summary = data.folder, data.history, data.summary
    _find_best(data)
    with troubles.sparing("what it took"):
        data.costs = read_costs(folder, history, summary)
    with troubles.sparing("the trial on examples"):
        data.trial = read_record(folder.trial, Trial) if folder.trial.exists() else None
    with troubles.sparing("the certificate"):
        exists = folder.certificate.exists()
        data.certificate = read_record(folder.certificate, Certificate) if exists else None
    with troubles.sparing("the analysis"):
        exists = folder.analysis.exists()
        data.analysis = read_record(folder.analysis, Analysis) if exists else None
    for iteration in history:
        with troubles.sparing(f"what iteration {iteration.number} was"):
            _add_iteration(data, iteration)
    if data.best is not None and data.member is not None:
        _add_best(data, data.best, data.member, troubles, redraws)


def read_costs(
    folder: SessionFolder, history: list[SessionIteration], summary: SessionSummary
) -> SessionCosts:
    """Read what a session took from its records and events."""
    usd, calls = paid(folder)
    costs = SessionCosts(
        total_s=summary.seconds,
        training_s=sum(iteration.training_s for iteration in history),
        judging_s=sum(iteration.judging_s for iteration in history),
        steps=summary.steps or None,
        usd=usd,
        calls=calls,
    )
    for event in read_events(read_json_lines(folder.events)):
        match event:
            case ModelSent() if event.model not in costs.models:
                costs = costs._replace(models=(*costs.models, event.model))
            case ModelFailed():
                costs = costs._replace(failed=costs.failed + 1)
            case ModelReply(cached=False):
                parts = (costs.tokens, event.tokens.input, event.tokens.output)
                known = [part for part in parts if part is not None]
                costs = costs._replace(
                    model_s=costs.model_s + event.latency_s,
                    tokens=sum(known) if len(known) == len(parts) else None,
                )
            case _:
                pass
    return costs


def _add_iteration(data: SessionReportData, iteration: SessionIteration) -> None:
    files = data.folder.iteration(iteration.number)
    data.curves += read_curves(files, iteration)
    if files.notes.exists():
        said = read_record(files.notes, DeliveredNotes).notes
        data.notes[iteration.number] = tuple(note.text for note in said)
    data.candidates[iteration.number] = read_record(files.candidate, RewardCandidate)


def _add_best(
    data: SessionReportData,
    best: SessionIteration,
    member: MemberScore,
    troubles: Troubles,
    redraws: bool,
) -> None:
    files = data.folder.iteration(best.number)
    with troubles.sparing("the reward's terms"):
        data.reward = read_reward(files.run.path / member.member, member.step)
    with troubles.sparing("versions"):
        data.manifest = dict(read_facts(files.run.manifest, ManifestFacts))
    with troubles.sparing("how it obeys"):
        data.obeyed = read_obedience(data, best.number, member)
    with troubles.sparing("pictures"):
        candidate = data.candidates.get(best.number)  # one damaged file costs one section only
        asked = data.config.env, candidate.env_args if candidate else {}
        data.pictures = draw_pictures(data.folder, files, member, asked, troubles.note, redraws)


def read_obedience(
    data: SessionReportData, number: int, member: MemberScore
) -> list[ObeyedCommands]:
    """Return how well the best policy, of this iteration, did what its episodes commanded."""
    files, candidate = data.folder.iteration(number), data.candidates.get(number)
    if candidate is None or not candidate.env_args.get("commands"):
        return []
    where = data.config.env, candidate.env_args
    paths = [files.episode(member.member, row) for row in range(len(member.judgement.verdicts))]
    env = make(data.config.env, num_envs=1, **candidate.env_args)
    env.close()
    return obedience((read_trajectory(path, where) for path in paths if path.exists()), env.spec)


def read_reward(member: Path, step: int) -> TrainedReward:
    """Read the reward of a trained policy, and its terms in the evaluation at `step`."""
    files = MemberFolder(member)
    spec = read_record(files.reward_spec, RewardSpec) if files.reward_spec.exists() else None
    findings: list[FindingFacts] = []
    if files.summary.exists():
        findings = read_facts(files.summary, MemberResultFacts).get("findings", [])
    rows = [row for row in read_rows(files.scalars, "eval") if row["global_step"] <= step]
    return TrainedReward(
        latex=spec.latex if spec else "",
        code=read_text(files.reward_code),
        terms=_shares(spec or RewardSpec(), rows[-1].get("reward_terms", {}) if rows else {}),
        findings=tuple(finding["message"] for finding in findings),
    )


def _shares(spec: RewardSpec, totals: dict[str, float]) -> tuple[TermShare, ...]:
    described = {term.name: term for term in spec.terms}
    size = sum(map(abs, totals.values()))
    shares: list[TermShare] = []
    for name in dict.fromkeys([*totals, *described]):
        term, total = described.get(name), totals.get(name)
        share = abs(total) / size if total is not None and size > 0.0 else None
        words = term.description if term else ""
        shares.append(TermShare(name, words, term.weight if term else None, total, share))
    return tuple(sorted(shares, key=lambda term: -(term.share or 0.0)))


def read_curves(files: IterationFolder, iteration: SessionIteration) -> list[Figure]:
    """Return the learning curves of an iteration: of its short trials, if any, and in full."""
    title = f"Iteration {iteration.number}"
    charts = [_curves(title, files.run, iteration.members, iteration.variant)]
    if iteration.trials:
        trials = RunFolder(files.path / "trial")
        charts.insert(0, _curves(f"{title}, trials", trials, iteration.trials, iteration.variant))
    return [chart for chart in charts if chart is not None]


def _curves(title: str, run: RunFolder, scores: Sequence[MemberScore], kept: int) -> Figure | None:
    """Return a line per variant: the mean return over its seeds, and the range that they span."""
    variants: dict[int, list[MemberFolder]] = {}
    for score in scores:
        variants.setdefault(score.variant, []).append(MemberFolder(run.path / score.member))
    lines: list[ChartLine] = []
    for variant, members in sorted(variants.items()):
        name = f"variant {variant + 1}{' ★' if variant == kept else ''}"
        marks = [Point(x, y, y, y) for x, y, *_ in _over_seeds(members, "eval", "mean_return")]
        lines.append(
            ChartLine(name, _thin(_over_seeds(members, "train", "episodic_return")), marks)
        )
    lines = [line for line in lines if line.points]
    if not lines:
        return None
    seeds = count(max(map(len, variants.values())), "seed")
    last = ", ".join(f"{line.name} ends at {figure(line.points[-1].y)}" for line in lines)
    label = f"{title}: return over steps, {seeds}; {last}"
    return Figure(LineChart(label, tuple(lines), "steps", "return"), title)


def _over_seeds(members: Sequence[MemberFolder], kind: Kind, name: str) -> list[Point]:
    """Return mean, least and most at every step that all members have a value for."""
    values: dict[int, list[float]] = {}
    for member in members:
        for row in read_rows(member.scalars, kind):
            if row.get(name) is not None:
                values.setdefault(row["global_step"], []).append(row[name])
    return [
        Point(step, sum(own) / len(own), min(own), max(own))
        for step, own in sorted(values.items())
        if len(own) == len(members)
    ]


def _thin(points: list[Point]) -> list[Point]:
    """Return at most so many points that a chart can show: means of neighbours, widest band."""
    size = -(-len(points) // _CURVE_POINTS) or 1
    groups = [points[start : start + size] for start in range(0, len(points), size)]
    return [
        Point(
            group[-1].x,
            sum(point.y for point in group) / len(group),
            min(point.low for point in group),
            max(point.high for point in group),
        )
        for group in groups
    ]


def interval_of(judgement: Judgement) -> Interval | None:
    """Return the interval of a policy's score, at the confidence of its proof; None: unknown."""
    scores = [verdict.score for verdict in judgement.verdicts]
    known = [score for score in scores if score is not None]
    if judgement.alpha is None or judgement.low is None:  # of an earlier version
        return bootstrap(known)
    # Unknown episodes may be worth anything: nothing below, everything above.
    missing = [*(1.0 - score for score in known), *[0.0] * judgement.unknown]
    return Interval(judgement.low, 1.0 - proven_mean(missing, judgement.alpha))


def leaves_of(judgement: Judgement) -> dict[str, Leaf]:
    """Return the criteria of a judgement by title, as they stand in the first judged episode."""
    leaves: dict[str, Leaf] = {}
    for verdict in judgement.verdicts:
        for leaf in verdict.leaves:
            leaves.setdefault(leaf.title, leaf)
    return {title: leaves[title] for title in judgement.leaves if title in leaves}
