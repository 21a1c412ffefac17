"""The vision judge's forms, the verdict they become, and one verdict from two judges.

A model fills in two forms: before it sees anything, what each criterion should look like; then, on
pictures of one episode, how much of it they show. Every criterion is a field of its own, so that an
answer that leaves one out is not valid.

Code is exact about what it measures and blind to the rest; vision sees the whole and is imprecise.
So code weighs more where they agree, and where they do not, nothing passes that either one doubts:

    agree (within the margin)     0.7 code + 0.3 vision
    disagree                      the lower of the two, and a Disagreement that says why
    one of them unknown           the other one's
    both unknown                  unknown

The margin is 0.25, or the spread of vision's own repeated answers where that is larger: a
difference that vision has with itself is no evidence against the code. The score is the rule
applied to the whole. Where they agree on the whole but not on a criterion, it is capped at what the
criteria add up to when that one counts the lower score.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from statistics import fmean, median_low
from typing import Any, Literal, Self

from pydantic import Field, create_model, model_validator

from telic.core.config import Record
from telic.judges.criteria import Leaf, total
from telic.judges.verdict import WHOLE, Disagreement, Seen, Source, Verdict, unknown

Tag = Literal[
    "never_moves",
    "wrong_way",
    "too_slow",
    "too_fast",
    "wrong_speed",
    "stops",
    "falls",
    "drifts",
    "jitters",
    "too_low",
    "too_high",
    "too_far",
    "under_rotates",
    "over_rotates",
    "no_landing",
    "one_sided",
    "drags",
    "ends_early",
]


class LookFor(Record):
    """How one criterion would show in pictures."""

    visible: str = Field(min_length=1, description="what is seen when it is fulfilled")
    how: str = Field(min_length=1, description="where to look, and what to compare with what")
    not_this: str = Field(min_length=1, description="what looks alike and is not it")
    measure: str | None = Field(
        default=None, description="the quantity that would settle it, from the list; else null"
    )


class Sighting(Record):
    """What the pictures show of one criterion."""

    evidence: str = Field(min_length=1, description="one sentence: what is seen, and when")
    start_s: float | None = Field(description="start of the time where it shows; null: no clock")
    end_s: float | None = Field(description="end of that time")
    tenths: int | None = Field(
        ge=0, le=10, description="score by the rubric, 0 to 10; null: cannot be seen"
    )

    @model_validator(mode="after")
    def _check_window(self) -> Self:
        if (self.start_s is None) != (self.end_s is None):
            raise ValueError("start_s and end_s are given together or not at all")
        if self.start_s is not None and self.end_s is not None and self.end_s < self.start_s:
            raise ValueError(f"end_s {self.end_s:g} is before start_s {self.start_s:g}")
        return self

    @property
    def score(self) -> float | None:
        """Return the score, 0 to 1."""
        return None if self.tenths is None else self.tenths / 10


class WholeSighting(Sighting):
    """What the pictures show of the intent as a whole."""

    tags: tuple[Tag, ...] = Field(default=(), description="what is lacking, the worst first")


def look_for_form(criteria: Sequence[str], quantities: Sequence[str]) -> type[Record]:
    """Return the record to be filled in before anything is seen, a field per criterion."""
    part = LookFor
    if quantities:
        choice: Any = StrEnum("Quantity", {each: each for each in quantities})
        words = LookFor.model_fields["measure"].description
        measure: dict[str, Any] = {"measure": (choice | None, Field(None, description=words))}
        part = create_model("LookFor", __base__=LookFor, **measure)
    return _form("LookForAll", dict.fromkeys(criteria, part), criteria)


def sighting_form(criteria: Sequence[str]) -> type[Record]:
    """Return the record to be filled in on an episode: a field per criterion, and the whole."""
    parts = dict.fromkeys(criteria, Sighting)
    return _form("Sightings", {**parts, WHOLE: WholeSighting}, criteria)


def filled(form: Record, criteria: Sequence[str]) -> dict[str, Any]:
    """Return what a filled-in form says, by criterion; the whole, if asked for, comes last."""
    names = {**_names(criteria), WHOLE: "whole"}
    return {title: getattr(form, name) for title, name in names.items() if hasattr(form, name)}


def verdict_of(forms: Sequence[Record], criteria: Sequence[str]) -> Verdict:
    """Return the verdict on an episode that was looked at once or several times.

    Each score is the median of the answers that have one, the lower one of two. The spread is the
    range of the scores for the whole.
    """
    answers = [filled(form, criteria) for form in forms]
    seen = tuple(
        _seen(title, [answer[title] for answer in answers]) for title in (*criteria, WHOLE)
    )
    whole = seen[-1]
    if whole.score is None:
        return unknown("vision", f"it cannot be seen: {whole.evidence}").model_copy(
            update={"seen": seen}
        )
    scores = [answer for answer in whole.answers if answer is not None]
    tags = [
        tag
        for answer in answers
        if answer[WHOLE].score == whole.score
        for tag in answer[WHOLE].tags
    ]
    return Verdict(
        source="vision",
        score=whole.score,
        tags=tuple(dict.fromkeys(tags)),
        seen=seen,
        spread=max(scores) - min(scores) if len(scores) > 1 else None,
    )


def worth_watching(code: Sequence[Verdict]) -> list[int]:
    """Return which episodes to watch: at the 10th, 50th and 90th percentile of the code score.

    From worst to best. Without any score they are taken evenly: there is nothing to rank by.
    """
    ranked = sorted(
        (verdict.score, index) for index, verdict in enumerate(code) if verdict.score is not None
    )
    order = [index for _, index in ranked] or list(range(len(code)))
    last = len(order) - 1
    places = {round(last * share) for share in (0.1, 0.5, 0.9)} if order else set[int]()
    return [order[place] for place in sorted(places)]


def _names(criteria: Sequence[str]) -> dict[str, str]:
    return {title: f"criterion_{number}" for number, title in enumerate(criteria, 1)}


def _form(name: str, parts: dict[str, type[Record]], criteria: Sequence[str]) -> type[Record]:
    names = {**_names(criteria), WHOLE: "whole"}
    fields: dict[str, Any] = {
        names[title]: (part, Field(description=title)) for title, part in parts.items()
    }
    return create_model(name, __base__=Record, **fields)


def _seen(title: str, sightings: Sequence[Sighting]) -> Seen:
    """Sum up the answers on one criterion, with the evidence of the one that stands."""
    scores = [sighting.score for sighting in sightings if sighting.score is not None]
    score = median_low(scores) if scores else None
    stands = next(sighting for sighting in sightings if sighting.score == score)
    return Seen(
        criterion=title,
        score=score,
        answers=tuple(sighting.score for sighting in sightings),
        start_s=stands.start_s,
        end_s=stands.end_s,
        evidence=stands.evidence,
    )


CODE_WEIGHT = 0.7
MARGIN = 0.25
_ROUNDING = 1e-9


def fuse(code: Verdict, vision: Verdict) -> Verdict:
    """Return the verdict that two judges of the same episode amount to."""
    if code.score is None or vision.score is None:
        return _one_alone(code, vision)
    margin = max(MARGIN, vision.spread or 0.0)
    disagreements = _disagreements(code, vision, margin)
    leaves = _lowered(code.leaves, disagreements)
    score = CODE_WEIGHT * code.score + (1 - CODE_WEIGHT) * vision.score
    if any(dispute.criterion == WHOLE for dispute in disagreements):
        score = min(code.score, vision.score)
    elif disagreements:
        score = min(score, total(leaves))
    lowered = [new.tag for new, old in zip(leaves, code.leaves, strict=True) if new != old]
    return Verdict(
        source="fused",
        score=score,
        leaves=leaves,
        tags=tuple(dict.fromkeys(tag for tag in (*lowered, *code.tags, *vision.tags) if tag)),
        seen=vision.seen,
        spread=vision.spread,
        by_judge=_by_judge(code, vision),
        disagreements=disagreements,
    )


def resolve(
    code: Verdict, vision: Verdict, again: Verdict, disputes: Sequence[Disagreement]
) -> Verdict:
    """Return the verdict after vision has looked `again` at what was in dispute.

    What it saw the second time replaces what it saw first; what it could not see does not. The
    disputes stay on record, resolved or not.
    """
    newer = {sight.criterion: sight for sight in again.seen if sight.score is not None}
    seen = tuple(newer.get(sight.criterion, sight) for sight in vision.seen)
    score = vision.score if again.score is None else again.score
    tags = vision.tags if again.score is None else again.tags
    amended = vision.model_copy(update={"seen": seen, "score": score, "tags": tags})
    fused = fuse(code, amended)
    still = {dispute.criterion: dispute for dispute in fused.disagreements}
    kept = [
        dispute.model_copy(
            update={
                "asked_again": newer[dispute.criterion].score
                if dispute.criterion in newer
                else None,
                "resolved": dispute.criterion not in still,
            }
        )
        for dispute in disputes
    ]
    before = {dispute.criterion for dispute in disputes}
    kept += [dispute for dispute in still.values() if dispute.criterion not in before]
    return fused.model_copy(update={"disagreements": tuple(kept)})


def extend(code: Sequence[Verdict], fused: Mapping[int, Verdict]) -> list[Verdict]:
    """Return a verdict for every episode of a policy of which only some were watched.

    An episode that was not watched loses what the watched ones nearest to it in code score have
    lost by fusing, on average; nothing is gained that way. So a policy that only looks right to the
    code cannot pass on the episodes nobody watched.
    """
    losses = [
        (own.score, own.score - verdict.score)
        for index, verdict in fused.items()
        if (own := code[index]).score is not None and verdict.score is not None
    ]
    return [fused[i] if i in fused else _less(own, losses) for i, own in enumerate(code)]


def _less(own: Verdict, losses: Sequence[tuple[float, float]]) -> Verdict:
    """Lower an episode that was not watched; `losses` holds code score and loss of the others."""
    score = own.score
    if score is None or not losses:
        return own
    nearest = min(abs(other - score) for other, _ in losses) + _ROUNDING
    loss = fmean(loss for other, loss in losses if abs(other - score) <= nearest)
    if loss <= _ROUNDING:
        return own
    return own.model_copy(
        update={
            "source": "fused",
            "score": max(0.0, score - loss),
            "by_judge": _by_judge(own, None),
            "reason": f"not watched; lowered by {loss:.2f} as the nearest episodes that were",
        }
    )


def _one_alone(code: Verdict, vision: Verdict) -> Verdict:
    if code.score is None and vision.score is None:
        why = f"code: {code.reason}; vision: {vision.reason}"
        return unknown("fused", why).model_copy(update={"by_judge": _by_judge(code, vision)})
    judge, other = (code, vision) if vision.score is None else (vision, code)
    return judge.model_copy(
        update={
            "source": "fused",
            "seen": vision.seen,
            "by_judge": _by_judge(code, vision),
            "reason": f"{judge.source} alone; {other.source} is unknown: {other.reason}",
        }
    )


def _by_judge(code: Verdict, vision: Verdict | None) -> dict[Source, float | None]:
    return {"code": code.score, "vision": None if vision is None else vision.score}


def _disagreements(code: Verdict, vision: Verdict, margin: float) -> tuple[Disagreement, ...]:
    disputes: list[Disagreement] = []
    for seen in vision.seen:
        leaf = next((part for part in code.leaves if _is_about(part, seen.criterion)), None)
        own = code.score if seen.criterion == WHOLE else _measured_score(leaf)
        if own is None or seen.score is None or abs(own - seen.score) <= margin + _ROUNDING:
            continue
        disputes.append(
            Disagreement(
                criterion=seen.criterion,
                code=own,
                vision=seen.score,
                margin=margin,
                start_s=seen.start_s,
                end_s=seen.end_s,
                measured=_words(leaf, code),
                seen=seen.evidence,
            )
        )
    return tuple(disputes)


def _measured_score(leaf: Leaf | None) -> float | None:
    return None if leaf is None or leaf.value is None else leaf.counted


def _is_about(leaf: Leaf, criterion: str) -> bool:
    """Say whether a leaf measures a criterion; `score_near` adds its tolerance to the title."""
    own, title = leaf.title.casefold(), criterion.casefold()
    return own == title or own.startswith(f"{title} (within ")


def _words(leaf: Leaf | None, code: Verdict) -> str:
    leaves = code.leaves if leaf is None else (leaf,)
    return "; ".join(
        f"{part.title}: {'not measured' if part.value is None else f'{part.value:g} {part.unit}'}"
        f" (nothing at {part.zero:g}, all at {part.goal:g})"
        for part in leaves
    )


def _lowered(leaves: Sequence[Leaf], disagreements: Sequence[Disagreement]) -> tuple[Leaf, ...]:
    """Return the leaves with the lower score for those in dispute."""
    lower = {
        leaf.title: dispute.vision
        for dispute in disagreements
        for leaf in leaves
        if dispute.vision < dispute.code and _is_about(leaf, dispute.criterion)
    }
    return tuple(
        leaf.model_copy(
            update={"counted": lower[leaf.title], "credit": lower[leaf.title], "passed": False}
        )
        if leaf.title in lower
        else leaf
        for leaf in leaves
    )
