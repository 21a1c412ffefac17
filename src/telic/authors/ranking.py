"""Choose the rewards to train by ranking them on recorded episodes, without training.

Examples whose worth is known were paid by the reward, term by term, and scored by the judge; so are
the episodes that policies of the session played since. What another set of weights would have paid
follows from that. A reward that ranks them as the judge does is worth training; where the author's
own does not, others that do, in weights or in structure, are trained beside it for a short while.

A reward of another structure is offered if it runs, pays no bad habit more than the good example
unless the present reward does so as well, and ranks the recordings not clearly worse.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from telic.authors.author import Author, Brief, StructureAuthor, try_written
from telic.authors.candidate import (
    MemberScore,
    RewardCandidate,
    SessionIteration,
    Variant,
    check_reward,
    program_text,
    weights_in,
)
from telic.composer.compose import reshaped
from telic.composer.shapes import RewardShape
from telic.core.events import LogMessage
from telic.core.seeds import derive
from telic.errors import TelicError
from telic.judges.criteria import Composition
from telic.judges.payment import PaidOrder, pay_for
from telic.judges.recorder import RecordedFile, is_unchanged
from telic.judges.validation import ExampleResult, Trial, text_hash
from telic.storage.files import read_record
from telic.storage.layout import IterationFolder

_CLEAR = 0.8
"""agreement from which the author's own weights are trained alone"""
_NOTICED = 0.1
"""by how much others must agree better to be worth a trial"""
_FEWEST = 4
"""examples below which a ranking says nothing"""
_DRAWN = 200
_SPREAD = 0.7
"""of the logarithm of a weight that is drawn"""


def agreement(
    pays: Sequence[float], scores: Sequence[float], good: Sequence[bool] = ()
) -> float | None:
    """Return how far pay ranks examples as the judge does, from -1 to 1.

    Pairs that are paid in the judge's order, less those in the opposite one; equal pay is half of
    each. A pair counts as much as the judge tells it apart. None: there is none that it does.

    Args:
        pays: what each example was paid.
        scores: what the judge gave it.
        good: which ones are good examples; then only pairs with one of them count, because which
            of two bad habits is worse does not matter.
    """
    pay, score = np.asarray(pays, dtype=float), np.asarray(scores, dtype=float)
    gap = score[:, None] - score[None, :]
    if any(good):
        flags = np.asarray(good, dtype=bool)
        gap = gap * (flags[:, None] | flags[None, :])
    whole = np.abs(gap).sum()
    if not whole:
        return None
    return float((gap * np.sign(pay[:, None] - pay[None, :])).sum() / whole)


def pays_under(
    examples: Sequence[ExampleResult], own: Mapping[str, float], weights: Mapping[str, float]
) -> list[float]:
    """Return what examples would have been paid under other weights.

    A term that has no weight of its own, and one whose weight is 0, stays as it is.
    """
    pays: list[float] = []
    for example in examples:
        change = sum(
            paid * (weights.get(term, own[term]) / own[term] - 1.0)
            for term, paid in example.terms.items()
            if own.get(term)
        )
        pays.append((example.pay or 0.0) + change)
    return pays


def ranked(
    proposals: Sequence[Mapping[str, float]],
    examples: Sequence[ExampleResult],
    own: Mapping[str, float],
    played: Sequence[ExampleResult] = (),
) -> list[tuple[float, Mapping[str, float]]]:
    """Return sets of weights with their agreement, the best first; none where nothing is known.

    Args:
        proposals: the sets of weights.
        examples: bad habits and good examples, as the reward paid and the judge scored them.
        own: the weights that they were paid under.
        played: the same of episodes that policies played.
    """
    rated = [
        (found, weights)
        for weights in proposals
        if (found := agreeing(examples, played, own, weights)) is not None
    ]
    return sorted(rated, key=lambda row: -row[0])


def agreeing(
    examples: Sequence[ExampleResult],
    played: Sequence[ExampleResult],
    own: Mapping[str, float],
    weights: Mapping[str, float],
) -> float | None:
    """Return how far a reward ranks everything recorded so far as the judge does; None: unknown.

    Examples and played episodes count alike, however many there are of each. Among the played ones
    every pair counts: which of two attempts is the better one is just what a reward must tell.
    """
    found: list[float] = []
    for group, has_good in ((examples, True), (played, False)):
        known = [each for each in group if each.score is not None and each.pay is not None]
        if len(known) < _FEWEST:
            continue
        scores = [each.score for each in known if each.score is not None]
        good = [each.is_good for each in known] if has_good else ()
        value = agreement(pays_under(known, own, weights), scores, good)
        found += [] if value is None else [value]
    return sum(found) / len(found) if found else None


class TriedReward(NamedTuple):
    """A reward of another structure, and how it saw everything recorded so far."""

    variant: Variant
    """with its reward"""
    agreement: float | None
    """None: nothing is known"""
    words: str = ""
    """what it is, for people"""


def first_rewards(
    author: Author, written: Composition, examples: Sequence[ExampleResult], most: int
) -> tuple[Variant, ...]:
    """Return what to train first: the author's reward, and others where it ranks badly.

    Args:
        author: may offer rewards of another structure.
        written: the author's reward.
        examples: how the reward and the judge saw examples whose worth is known.
        most: rewards at most.
    """
    alone = (Variant(),)
    own = weights_in(written.reward)
    mine = agreeing(examples, (), own, own)
    if most < 2 or mine is None or mine >= _CLEAR:
        return alone
    others: Sequence[TriedReward] = ()
    if isinstance(author, StructureAuthor):
        others = author.first_structures(written)
    least = mine + _NOTICED
    known = [each for each in others if each.agreement is not None and each.agreement >= least]
    known.sort(key=lambda each: -(each.agreement or 0.0))
    structures = [each.variant for each in known[: most - 1]]
    drawn = draw_weights(own, derive("first weights", *sorted(own)), _SPREAD, _DRAWN)
    rated = ranked(drawn, examples, own) if len(own) > 1 else ()
    better = [dict(weights) for found, weights in rated if found >= least]
    chosen: list[dict[str, float]] = []
    # The best, then whatever is least like it.
    while better and len(chosen) + len(structures) < most - 1:
        chosen.append(better.pop(0))
        better.sort(key=lambda weights: -min(_distance(weights, each) for each in chosen))
    return (*alone, *structures, *(Variant(weights=weights) for weights in chosen))


def draw_weights(
    around: Mapping[str, float], seed: int, spread: float, count: int
) -> list[dict[str, float]]:
    """Return sets of weights drawn around others; `spread` is that of their logarithms."""
    random = np.random.default_rng(seed)
    return [
        {
            name: round(weight * math.exp(spread * random.standard_normal()), 4)
            for name, weight in around.items()
        }
        for _ in range(count)
    ]


def _distance(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    """Return how far two sets of weights are apart, by ratios."""
    return sum(
        abs(math.log(abs(weight) / abs(other[name])))
        for name, weight in one.items()
        if weight and other[name]
    )


# ------------------------------------------------------------------------------ other structures

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
                    env=brief.config.env,
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
        intent, spec, shown = self._brief.config.intent, self._brief.spec, self._brief.reference
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
