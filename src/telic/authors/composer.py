"""The composer as a session's author: no model, no eyes, the same answer every time.

What it tries next is decided in `telic.authors.revision`, by what is gathered here: what failed,
which other structures its reward could have (`telic.authors.structures`), and how far it got.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from telic.authors.author import Brief, MeasurableIntent
from telic.authors.candidate import (
    RewardCandidate,
    SessionIteration,
    Variant,
    program_text,
    read_candidates,
    reward_texts,
    same_memory,
    structure_text,
    weights_in,
    worth,
)
from telic.authors.ranking import TriedReward
from telic.authors.revision import (
    ParentEvidence,
    apply_wishes,
    goes_on,
    has_free_length,
    lacks,
    next_candidate,
    still_rises,
)
from telic.authors.structures import StructureSearch, played_episodes
from telic.composer.compose import compose
from telic.composer.notes import Wish, read_wish
from telic.composer.shapes import SHAPES
from telic.errors import NotUnderstood
from telic.judges.criteria import Composition, Criterion
from telic.judges.trial import Trial
from telic.judges.verdict import Verdict
from telic.storage.files import read_json_lines, read_record
from telic.training.plan import steps_factor

_LACKS = 3
"""failure tags against which other structures are looked for"""


class ComposerAuthor:
    """Writes by rules; see `telic.composer`."""

    def __init__(self, brief: Brief) -> None:
        self._brief = brief

    def read(self) -> MeasurableIntent:
        """Read the intent by the composer's grammar."""
        composed = self._composed(self._brief.criteria)
        return MeasurableIntent(
            criteria=composed.criteria,
            doubts=composed.doubts,
            not_understood=composed.not_understood,
            dropped=composed.dropped,
            covered=composed.covered,
        )

    def write(self, wanted: MeasurableIntent) -> Composition:
        """Write both files from the words and the agreed criteria."""
        composed = self._composed(wanted.criteria)
        steps = composed.steps * steps_factor(self._brief.device)
        return composed.model_copy(update={"steps": steps})

    def _composed(self, criteria: Sequence[Criterion] | None) -> Composition:
        brief = self._brief
        return compose(brief.intent, brief.spec, criteria, brief.reference)

    def review(self, written: Composition, trial: Trial) -> Composition | None:
        """Change nothing: rules do not depend on findings, which the report lists."""
        return None

    def first_structures(self, written: Composition) -> Sequence[TriedReward]:
        """Return other structures of the first reward, tried on the same examples."""
        first = RewardCandidate(reward=written.reward, env_args=written.env_args, steps=1)
        search = StructureSearch(self._brief, written)
        now = search.view(written.reward, written.env_args)
        return search.others(written.reward, now, first, (), SHAPES.values())

    def revise(self, history: list[SessionIteration], notes: Sequence[str]) -> RewardCandidate:
        """Search structures and weights; notes change terms and weights, or are not understood."""
        candidates = read_candidates(self._brief.folder, history)
        evidence = self._evidence(history, candidates)
        revision = next_candidate(history, candidates, evidence)
        return self._with_notes(revision, notes) if notes else revision

    def _evidence(
        self, history: list[SessionIteration], candidates: dict[int, RewardCandidate]
    ) -> ParentEvidence:
        """Return what is known about the best iteration; nothing without what was first written."""
        folder, parent = self._brief.folder, max(history, key=worth)
        if not folder.author.exists() or not folder.trial.exists():
            return ParentEvidence()
        written = read_record(folder.author, Composition)
        base = candidates[parent.number]
        text, chosen = structure_text(base, parent.variant), base.variants[parent.variant]
        played = played_episodes(self._brief, history, candidates)
        search = StructureSearch(self._brief, written, played)
        now = search.view(text, base.env_args)
        tags = lacks(parent, written.criteria)[:_LACKS]
        shapes = [shape for tag in tags for shape in SHAPES.values() if tag in shape.against]
        tried = set(map(program_text, reward_texts(candidates.values())))
        found = search.others(text, now, base, chosen.structure, dict.fromkeys(shapes), tried)
        checkpoints = list(read_json_lines(folder.iteration(parent.number).checkpoints))
        rises = self._brief.steps is None and still_rises(checkpoints, parent.score)
        is_warm, is_stuck = goes_on(parent, rises), parent is not history[-1]
        return ParentEvidence(
            examples=now.examples,
            played=now.played,
            criteria=written.criteria,
            structures=[
                _carried(each, text, chosen, is_warm)
                for each in found
                # A policy from scratch cannot keep up with a continued one, unless that is stuck.
                if not is_warm or is_stuck or same_memory(each.variant.reward or text, text)
            ],
            rises=rises,
            seconds=self._free_seconds(base),
        )

    def _free_seconds(self, base: RewardCandidate) -> float | None:
        """Return the length of an episode where no word of the intent decides it."""
        dt, steps = self._brief.spec.dt_s, base.env_args.get("max_episode_steps")
        if dt is None or not isinstance(steps, int):
            return None
        return steps * dt if has_free_length(self._brief.intent, self._brief.spec) else None

    def _with_notes(self, revision: RewardCandidate, notes: Sequence[str]) -> RewardCandidate:
        """Return a revision that follows notes, in every one of its variants."""
        wishes: list[Wish] = []
        changes: list[str] = []
        intent = self._brief.intent
        for note in notes:
            try:
                wish = read_wish(note, intent, self._brief.spec, self._brief.reference)
            except NotUnderstood as error:
                changes.append(error.message)
                continue
            wishes.append(wish)
            changes.append(f"follows “{note}”")
            intent = f"{intent.rstrip(' .!')}, {wish.words}" if wish.reward else intent
        return apply_wishes(revision, wishes, changes)

    def watch(self, episodes: list[Path], verdicts: list[Verdict]) -> list[Verdict]:
        """It has no eyes: what code says stands."""
        return verdicts

    def analyse(self, history: list[SessionIteration]) -> None:
        """It has no words beyond the report's own."""


def _carried(found: TriedReward, text: str, chosen: Variant, is_warm: bool) -> TriedReward:
    """Return a structure with the weights that its parent was trained with, and its policies."""
    other = found.variant.reward or text
    own = weights_in(other)
    kept = {name: value for name, value in chosen.weights.items() if name in own}
    warm = is_warm and same_memory(other, text)
    return found._replace(
        variant=found.variant.model_copy(update={"weights": {**own, **kept}, "warm": warm})
    )
