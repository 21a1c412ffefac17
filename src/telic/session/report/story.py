"""Everything a report tells, gathered once from the session's records and files."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from telic.authors.answers import Analysis
from telic.authors.candidate import (
    Lesson,
    MemberScore,
    RewardCandidate,
    SessionIteration,
    latest_lessons,
)
from telic.composer.compose import Composition
from telic.core.stats import Interval, bootstrap
from telic.judges.trial import Trial
from telic.judges.verdict import Judgement
from telic.session.notes import Delivered
from telic.session.records import SessionConfig, SessionSummary
from telic.session.report.compare import Comparison, compare
from telic.session.report.costs import Costs, read_costs
from telic.session.report.curves import Curves, read_curves
from telic.session.report.pictures import Pictures, draw_pictures
from telic.session.report.rewards import RewardFacts, read_reward
from telic.session.report.troubles import Troubles
from telic.storage.files import read_json, read_record
from telic.storage.layout import RunFolder, SessionFolder


@dataclass(slots=True)
class Story:
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
    comparison: Comparison | None = None
    """the best policy against the runner-up"""
    curves: list[Curves] = field(default_factory=list)
    reward: RewardFacts | None = None
    """of the best policy"""
    costs: Costs | None = None
    manifest: dict[str, Any] = field(default_factory=dict)
    """versions and hashes of the best training run"""
    candidates: dict[int, RewardCandidate] = field(default_factory=dict)
    """by iteration"""
    notes: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """what people had said, by the iteration that answers it"""
    trial: Trial | None = None
    """reward and judge on examples whose worth is known"""
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


def gather(
    folder: SessionFolder,
    config: SessionConfig,
    author: Composition | None,
    history: list[SessionIteration],
    summary: SessionSummary,
    troubles: Troubles,
) -> Story:
    """Read and draw what the report needs; what cannot be had is noted and left out."""
    story = Story(folder, config, author, history, summary)
    story.best = next((each for each in history if each.number == summary.best_iteration), None)
    story.member = story.best.best_member if story.best else None
    with troubles.sparing("what it took"):
        story.costs = read_costs(folder, history, summary)
    with troubles.sparing("the trial on examples"):
        story.trial = read_record(folder.trial, Trial) if folder.trial.exists() else None
    with troubles.sparing("the analysis"):
        story.analysis = (
            read_record(folder.analysis, Analysis) if folder.analysis.exists() else None
        )
    for each in history:
        with troubles.sparing(f"what iteration {each.number} was"):
            _add_iteration(story, each)
    if story.best is not None and story.member is not None:
        _add_best(story, story.best, story.member, troubles)
    return story


def _add_iteration(story: Story, iteration: SessionIteration) -> None:
    files = story.folder.iteration(iteration.number)
    story.curves += read_curves(files, iteration)
    if files.notes.exists():
        said = read_record(files.notes, Delivered).notes
        story.notes[iteration.number] = tuple(each.text for each in said)
    story.candidates[iteration.number] = read_record(files.candidate, RewardCandidate)


def _add_best(
    story: Story, best: SessionIteration, member: MemberScore, troubles: Troubles
) -> None:
    files = story.folder.iteration(best.number)
    with troubles.sparing("the comparison"):
        story.comparison = compare(story.history, best, member, story.config.threshold)
    with troubles.sparing("the reward's terms"):
        story.reward = read_reward(files.run.path / member.member, member.step)
    with troubles.sparing("versions"):
        story.manifest = read_json(files.run.manifest)
    with troubles.sparing("pictures"):
        story.pictures = draw_pictures(story.folder, files, member, troubles)


def spread(judgement: Judgement) -> Interval | None:
    """Return the 95 % interval of a policy's score; None when fewer than two episodes have one."""
    return bootstrap([each.score for each in judgement.verdicts if each.score is not None])
