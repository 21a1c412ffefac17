"""Other structures of a composed reward, tried on everything recorded so far before any is trained.

Everything recorded are the examples of the first trial and the episodes that policies of the
session played since. A structure is offered that runs, that pays no bad habit more than the good
example unless the present reward does so as well, and that ranks the recordings not clearly worse.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from telic.authors.author import Brief, try_written
from telic.authors.candidate import (
    MemberScore,
    RewardCandidate,
    SessionIteration,
    Variant,
    check_reward,
    program_text,
    weights_in,
)
from telic.authors.ranking import TriedReward, agreeing
from telic.composer.compose import reshaped
from telic.composer.shapes import RewardShape
from telic.core.events import LogMessage
from telic.errors import TelicError
from telic.judges.criteria import Composition
from telic.judges.findings import ExampleResult
from telic.judges.payment import PaidOrder, pay_for
from telic.judges.recorder import RecordedFile, is_unchanged
from telic.judges.trial import Trial, text_hash
from telic.storage.files import read_record
from telic.storage.layout import IterationFolder

_MOST = 4
"""structures that are tried on the recordings"""
_EPISODES = 6
"""judged episodes of a policy that rewards are compared on"""
_RECENT = 4
"""iterations whose episodes they are compared on"""
_WORSE = 0.1
"""by how much a structure may rank worse than the present reward and still be offered"""


class PlayedEpisodes(NamedTuple):
    """Judged episodes of one policy."""

    order: PaidOrder
    scores: tuple[float | None, ...]


class RewardView(NamedTuple):
    """How a reward sees everything recorded so far, under the weights in its file."""

    examples: tuple[ExampleResult, ...]
    played: tuple[ExampleResult, ...]
    problems: tuple[str, ...]
    """bad habits that it pays more than the good example"""

    def agreement(self, text: str) -> float | None:
        """Return how far the reward ranks it all as the judge does; None: nothing is known."""
        own = weights_in(text)
        return agreeing(self.examples, self.played, own, own)


def played_episodes(
    brief: Brief, history: Sequence[SessionIteration], candidates: dict[int, RewardCandidate]
) -> list[PlayedEpisodes]:
    """Return the first judged episodes of every policy of the latest iterations."""
    found: list[PlayedEpisodes] = []
    for iteration in history[-_RECENT:]:
        files = brief.folder.iteration(iteration.number)
        for member in iteration.members:
            paths = list(_unchanged(files, member))
            scores = [verdict.score for verdict in member.judgement.verdicts[: len(paths)]]
            if paths:
                order = PaidOrder(
                    env=brief.env,
                    env_args=candidates[iteration.number].judged_args,
                    paths=tuple(paths),
                )
                found.append(PlayedEpisodes(order, tuple(scores)))
    return found


def _unchanged(files: IterationFolder, member: MemberScore) -> Iterator[str]:
    """Yield the paths of a policy's first episodes, as far as they are what was recorded."""
    for index, verdict in enumerate(member.judgement.verdicts[:_EPISODES]):
        path = files.episode(member.member, index)
        if verdict.recording is None or not is_unchanged(RecordedFile(path, verdict.recording)):
            return
        yield str(path.absolute())


class StructureSearch:
    """Looks for other structures of a reward that the composer wrote."""

    def __init__(
        self, brief: Brief, written: Composition, played: Sequence[PlayedEpisodes] = ()
    ) -> None:
        self._brief = brief
        self._written = written
        self._played = played

    def view(self, text: str, env_args: dict[str, object]) -> RewardView:
        """Return how a reward sees everything recorded so far."""
        trial = self._trial(text, env_args)
        return RewardView(trial.examples, self._paid(text), trial.reward_problems)

    def others(
        self,
        text: str,
        now: RewardView,
        candidate: RewardCandidate,
        have: tuple[str, ...],
        shapes: Iterable[RewardShape],
        tried: Collection[str] = (),
    ) -> list[TriedReward]:
        """Return other structures than a reward's, in the order of shapes.

        Args:
            text: the reward's file.
            now: how it sees everything recorded.
            candidate: where its environment and settings are from.
            have: the shapes that it has already.
            shapes: those to add, one at a time.
            tried: programs that were trained before.
        """
        least = now.agreement(text)
        found: list[TriedReward] = []
        seen = {program_text(text), *tried}
        for shape, other in self._reshaped(text, have, shapes):
            if program_text(other) in seen or len(found) >= _MOST:
                continue
            seen.add(program_text(other))
            view = self.view(other, candidate.env_args)
            agreement = view.agreement(other)
            is_worse = None not in (least, agreement) and (agreement or 0.0) < (
                (least or 0.0) - _WORSE
            )
            if not view.examples or is_worse or len(view.problems) > len(now.problems):
                continue
            variant = Variant(reward=other, structure=(*have, shape.name))
            found.append(TriedReward(variant, agreement, f"a reward that {shape.words}"))
        return found

    def offered(self, texts: Iterable[str], env_args: dict[str, object]) -> list[TriedReward]:
        """Return those of a model's other files that run and pay no bad habit; say why not."""
        found: list[TriedReward] = []
        for number, text in enumerate(texts, start=1):
            name = f"other file {number}"
            try:
                check_reward(text)
                view = self.view(text, env_args)
                problem = next(iter(view.problems), None)
                agreement = view.agreement(text) if view.examples else None
            except TelicError as error:
                problem, agreement = str(error), None
            if problem is not None:
                self._brief.tell(LogMessage(message=f"{name} is not tried: {problem}"))
                continue
            found.append(TriedReward(Variant(reward=text, structure=(name,)), agreement, name))
        return found

    def _reshaped(
        self, text: str, have: tuple[str, ...], shapes: Iterable[RewardShape]
    ) -> Iterator[tuple[RewardShape, str]]:
        """Yield rewards with one more shape; none where the present one is not the composer's."""
        intent, spec, shown = self._brief.intent, self._brief.spec, self._brief.reference
        present = reshaped(intent, spec, have, shown)
        if present is None or program_text(present) != program_text(text):
            return  # a note, a person or an earlier version had a hand in it
        for shape in shapes:
            if shape.name in have:
                continue
            other = reshaped(intent, spec, (*have, shape.name), shown)
            if other is not None:
                yield shape, other

    def _trial(self, text: str, env_args: dict[str, object]) -> Trial:
        """Return the trial of a reward; the first one's is on record."""
        path = self._brief.folder.trial
        if path.exists():
            first = read_record(path, Trial)
            is_first = first.reward_hash == text_hash(text) and first.env_args == env_args
            if is_first or (text == self._written.reward and first.reward_hash is None):
                return first
        changes = {"reward": text, "env_args": env_args}
        return try_written(self._brief, self._written.model_copy(update=changes))

    def _paid(self, text: str) -> tuple[ExampleResult, ...]:
        """Return what a reward pays for the episodes that were played."""
        if not self._played:
            return ()
        folder = self._brief.folder.path / "trial"
        try:
            pays = pay_for(text, [each.order for each in self._played], folder)
        except TelicError as error:
            message = f"a reward was not compared on the episodes played so far: {error}"
            self._brief.tell(LogMessage(message=message))
            return ()
        return tuple(
            ExampleResult(name=path, is_good=False, score=score, pay=pay.total, terms=pay.terms)
            for each, row in zip(self._played, pays, strict=True)
            for path, score, pay in zip(each.order.paths, each.scores, row, strict=True)
            if pay is not None
        )
