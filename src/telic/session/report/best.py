"""The best policy: pictures of it, and why it is the best, beside the runner-up.

Its median episode is shown as a video; a poor, the median and a good one as strips.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

from telic.authors.candidate import MemberScore, RewardCandidate, SessionIteration
from telic.core.text import count, figure, percent
from telic.judges.verdict import Judgement, Verdict
from telic.rendering import RenderJob, render
from telic.report import document as doc
from telic.report.charts import Bar, ColumnChart
from telic.report.html import LARGEST_INLINE
from telic.session.report import words
from telic.storage.layout import IterationFolder, SessionFolder
from telic.storage.trajectories import Environment

if TYPE_CHECKING:
    from telic.session.report.facts import SessionReportFacts

_SHARES = {"p10": 0.1, "median": 0.5, "p90": 0.9}
_WORDS = {
    "p10": "a poor episode (p10)",
    "median": "the median episode",
    "p90": "a good episode (p90)",
}


def looks(facts: SessionReportFacts) -> words.Blocks:
    """Return the video of the median episode and the strips of poor, median and good ones."""
    pictures = facts.pictures
    blocks: list[doc.Block] = []
    if pictures.video is not None:
        label = f"The median episode, score {words.score(pictures.score)}"
        film = doc.Video(pictures.video, label, pictures.inline)
        blocks.append(doc.Beside((film, *_episodes(facts, label)), "film"))
    for strip in pictures.strips:
        label = f"Six moments of {strip.words}, score {words.score(strip.score)}"
        blocks.append(doc.Picture(strip.path, label, label))
    return blocks


def _episodes(facts: SessionReportFacts, title: str) -> words.Blocks:
    """Return the scores of all judged episodes, those that are shown in full colour."""
    verdicts = facts.judgement.verdicts if facts.judgement else ()
    order = [index for index in worst_first(verdicts) if verdicts[index].score is not None]
    scores = [score for index in order if (score := verdicts[index].score) is not None]
    if not scores:
        return []
    shown = [order.index(index) for index in choose_episodes(verdicts).values() if index in order]
    label = f"Scores of {count(len(scores), 'episode')}, from {scores[0]:.2f} to {scores[-1]:.2f}"
    note = (
        f"{label}. Each began where training never did. In full colour: those shown here; the "
        "dashed line is what is needed."
    )
    chart = ColumnChart(label, tuple(scores), tuple(shown), facts.config.threshold)
    return [doc.Figure(chart, title, note)]


class Strip(NamedTuple):
    """Six moments of an episode."""

    path: Path
    words: str
    """which one it is"""
    score: float | None


class Pictures(NamedTuple):
    """What was drawn; missing where it could not be."""

    strips: tuple[Strip, ...] = ()
    video: Path | None = None
    inline: Path | None = None
    """a smaller one, where the video is too large for a page"""
    score: float | None = None
    """of the episode in the video"""


def draw_pictures(
    folder: SessionFolder,
    files: IterationFolder,
    member: MemberScore,
    environment: Environment,
    note: Callable[[str], None],
    redraws: bool = True,
) -> Pictures:
    """Draw the chosen episodes; what cannot be drawn is noted and left out.

    Pictures that are there are kept where it is known that the episodes are the same.
    """
    verdicts = member.judgement.verdicts
    chosen = choose_episodes(verdicts)
    episodes = {label: files.episode(member.member, index) for label, index in chosen.items()}
    env, env_args = environment

    def job(label: str, name: str) -> RenderJob:
        output = folder.report_dir / name
        return RenderJob(trajectory=episodes[label], output=output, env=env, env_args=env_args)

    video = job("median", "median.mp4")
    strips = {label: job(label, f"strip_{label}.png") for label in episodes}
    drawn = _draw([video, *strips.values()], note, redraws)
    small: Path | None = None
    if video.output in drawn and video.output.stat().st_size > LARGEST_INLINE:
        small = folder.report_dir / "median_small.mp4"
        smaller = video.model_copy(update={"output": small, "width": 240, "fps": 12.0})
        _draw([smaller], note, redraws)
    return Pictures(
        strips=tuple(
            Strip(job.output, _WORDS[label], verdicts[chosen[label]].score)
            for label, job in strips.items()
            if job.output in drawn
        ),
        video=video.output if video.output in drawn else None,
        inline=small,
        score=verdicts[chosen["median"]].score,
    )


class PicturesAhead:
    """Pictures of the policy that passed, drawn while other work goes on, by another process.

    with PicturesAhead(folder, env, candidate, passed) as pictures:
        ...  # what need not wait for them
        write_report(..., redraws=not pictures.are_of(best))

    Whoever leaves waits for them: nobody else may write the same files.
    """

    def __init__(
        self, folder: SessionFolder, env: str, candidate: RewardCandidate, passed: SessionIteration
    ) -> None:
        assert passed.best_member is not None  # a pass is somebody's
        self._passed, self._troubles = passed, list[str]()
        self._pool = ThreadPoolExecutor(1)
        self._drawing = self._pool.submit(
            draw_pictures,
            folder,
            folder.iteration(passed.number),
            passed.best_member,
            (env, candidate.env_args),
            self._troubles.append,
        )

    def are_of(self, best: SessionIteration | None) -> bool:
        """Wait for them, and say whether they all show the best policy of this iteration.

        If not, the report draws its own, and says what cannot be drawn. A branch may hand out a
        policy of the session that it came from.
        """
        is_whole = self._drawing.exception() is None and not self._troubles
        return is_whole and best is self._passed

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()


def choose_episodes(verdicts: Sequence[Verdict]) -> dict[str, int]:
    """Return which episodes are the p10, the median and the p90 of the scores."""
    order = worst_first(verdicts)
    return {label: order[round(share * (len(order) - 1))] for label, share in _SHARES.items()}


def worst_first(verdicts: Sequence[Verdict]) -> list[int]:
    """Return the numbers of the episodes by score; those without one come first."""

    def place(index: int) -> tuple[bool, float]:
        score = verdicts[index].score
        return score is not None, score or 0.0

    return sorted(range(len(verdicts)), key=place)


def _draw(jobs: list[RenderJob], note: Callable[[str], None], redraws: bool) -> list[Path]:
    """Draw episodes and return the files; an old file must not pass for a new one."""
    missing = [job for job in jobs if redraws or not job.output.exists()]
    for job in missing:
        job.output.unlink(missing_ok=True)
    for rendering in render(missing) if missing else ():
        if rendering.error:
            note(f"{rendering.output.name}: {rendering.error}")
    return [job.output for job in jobs if job.output.exists()]


def why_best(facts: SessionReportFacts) -> words.Blocks:
    """Return the best policy beside the runner-up, criterion by criterion."""
    rival = facts.runner_up
    if rival is None:
        return []
    rows = [
        (
            difference.title,
            f"{figure(difference.value)} {difference.unit}".strip(),
            f"{figure(difference.other_value)} {difference.unit}".strip(),
            credit_bar(difference.credit),
            credit_bar(difference.other_credit),
        )
        for difference in rival.differences
    ]
    heads = ("criterion", "best", "runner-up", "credit of the best", "credit of the runner-up")
    return [doc.Text(_runner_up(facts, rival)), doc.Table(heads, rows)]


def credit_bar(credit: float) -> Bar:
    """Return the credit of a criterion as a bar."""
    return Bar(credit, percent(credit), "good" if credit >= words.FULL_CREDIT else "middling")


def _runner_up(facts: SessionReportFacts, rival: RunnerUp) -> str:
    """Say in a few sentences what sets the best policy apart."""
    assert facts.member is not None
    other = rival.other
    who = (
        f"the same reward with training seed {other.seed}"
        if rival.same_reward
        else f"{other.member} of iteration {rival.iteration}"
    )
    mine, others = words.scored(facts.member), words.scored(other)
    said = [f"It scores {mine}; the runner-up, {who}, scores {others}."]
    if not rival.same_reward:
        own, theirs = rival.standing, rival.other_standing
        said.append(
            f"Of the {own.seeds} seeds of its reward {own.proving} prove "
            f"{facts.config.threshold:g}, and on average they prove {words.score(own.mean_low)}; "
            f"of the runner-up's, {theirs.proving} of {theirs.seeds} and "
            f"{words.score(theirs.mean_low)}."
        )
    first = next(iter(rival.differences), None)
    if first is None or abs(first.gain) < 0.005:
        return " ".join([*said, "Both earn the same on every criterion."])
    side = "more" if first.gain > 0 else "less"
    measured = f"{figure(first.value)} against {figure(first.other_value)} {first.unit}".strip()
    said.append(
        f"They differ most in “{first.title}”: {abs(first.gain):.0%} {side} credit ({measured})."
    )
    return " ".join(said)


class CriterionGap(NamedTuple):
    """One criterion, for the best policy and the runner-up."""

    title: str
    unit: str
    credit: float
    other_credit: float
    value: float | None
    other_value: float | None

    @property
    def gain(self) -> float:
        """Credit that the best policy has more."""
        return self.credit - self.other_credit


class SeedStanding(NamedTuple):
    """How the seeds of one reward stand; compared as a session decides."""

    proving: int
    """seeds that prove the threshold"""
    mean_low: float
    """mean of what they prove; a seed that could not be judged proves nothing"""
    seeds: int


class RunnerUp(NamedTuple):
    """The policy that stands second, beside the best."""

    iteration: int
    """of the runner-up"""
    other: MemberScore
    same_reward: bool
    """whether only the training seed differs"""
    standing: SeedStanding
    other_standing: SeedStanding
    differences: tuple[CriterionGap, ...]
    """the largest first"""


def compare(
    history: list[SessionIteration], best: SessionIteration, member: MemberScore, threshold: float
) -> RunnerUp | None:
    """Return the best policy against the best of another reward, or else of another seed."""
    groups: dict[tuple[int, int], list[MemberScore]] = {}
    for iteration in history:
        for score in iteration.members:
            groups.setdefault((iteration.number, score.variant), []).append(score)
    mine = (best.number, member.variant)
    standings = {key: _standing(score, threshold) for key, score in groups.items()}
    others = [key for key in groups if key != mine]
    rival = max(others, key=lambda key: standings[key], default=mine)
    rivals = [
        score
        for score in groups[rival]
        if score.judgement.score is not None and (rival != mine or score.seed != member.seed)
    ]
    if not rivals or member.judgement.score is None:
        return None
    other = max(rivals, key=lambda score: score.low)
    differences = _differences(member.judgement, other.judgement)
    return RunnerUp(rival[0], other, rival == mine, standings[mine], standings[rival], differences)


def _standing(members: list[MemberScore], threshold: float) -> SeedStanding:
    lows = [member.judgement.low or 0.0 for member in members]
    return SeedStanding(sum(low >= threshold for low in lows), sum(lows) / len(lows), len(lows))


def _differences(own: Judgement, other: Judgement) -> tuple[CriterionGap, ...]:
    differences: list[CriterionGap] = []
    for title, leaf in words.parts(own).items():
        if title in other.leaves:
            (credit, value), (other_credit, other_value) = own.leaves[title], other.leaves[title]
            differences.append(
                CriterionGap(title, leaf.unit, credit, other_credit, value, other_value)
            )
    return tuple(sorted(differences, key=lambda difference: -abs(difference.gain)))
