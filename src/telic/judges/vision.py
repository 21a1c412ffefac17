"""Forms for the vision judge, and verdicts based on completed forms.

A model completes two forms. Before it sees pictures, it describes how each criterion should look.
Then it rates how clearly pictures of one episode show each criterion. Every criterion is a separate
field, so an incomplete answer is invalid. `telic.judges.fusion` combines both judges' verdicts.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median_low
from typing import Annotated, Any, Self

from pydantic import Field, create_model, model_validator

from telic.core.config import Record
from telic.judges.verdict import WHOLE, Verdict, VisionScore, at_quantiles, unknown

_Tag = Annotated[str, Field(pattern="^[a-z_]{2,24}$")]


class VisibleSigns(Record):
    """Visible signs of one criterion."""

    visible: str = Field(min_length=1, description="visible evidence that it is satisfied")
    how: str = Field(min_length=1, description="where to look, and what to compare")
    not_this: str = Field(min_length=1, description="similar appearance that does not count")


class VisualEvidence(Record):
    """Evidence for one criterion in the pictures."""

    evidence: str = Field(min_length=1, description="one sentence: what is visible, and when")
    start_s: float | None = Field(description="start of the evidence in s, null without clock")
    end_s: float | None = Field(description="end of the evidence in s")
    tenths: int | None = Field(ge=0, le=10, description="credit, 0 to 10, or null if not visible")

    @model_validator(mode="after")
    def _check_window(self) -> Self:
        if (self.start_s is None) != (self.end_s is None):
            raise ValueError("start_s and end_s must both be given, or neither")
        if self.start_s is not None and self.end_s is not None and self.end_s < self.start_s:
            raise ValueError(f"end_s {self.end_s:g} is before start_s {self.start_s:g}")
        return self

    @property
    def score(self) -> float | None:
        """Return the score, 0 to 1."""
        return None if self.tenths is None else self.tenths / 10


class OverallEvidence(VisualEvidence):
    """Evidence for the intent as a whole."""

    tags: tuple[_Tag, ...] = Field(
        default=(), description="shortcomings, worst first, such as too_slow or no_landing"
    )


def _names(criteria: Sequence[str]) -> dict[str, str]:
    """Return the form field for each criterion, with the whole intent last."""
    names = {title: f"criterion_{number}" for number, title in enumerate(criteria, 1)}
    return {**names, WHOLE: "whole"}


def look_for_form(criteria: Sequence[str]) -> type[Record]:
    """Create the form to complete before watching an episode, with one field per criterion."""
    names = _names(criteria)
    fields: dict[str, Any] = {
        names[title]: (VisibleSigns, Field(description=title)) for title in criteria
    }
    return create_model("LookForAll", __base__=Record, **fields)


def sighting_form(criteria: Sequence[str]) -> type[Record]:
    """Create the form for an episode, with a field per criterion and one for the whole intent."""
    fields: dict[str, Any] = {
        name: (OverallEvidence if title == WHOLE else VisualEvidence, Field(description=title))
        for title, name in _names(criteria).items()
    }
    return create_model("Sightings", __base__=Record, **fields)


def filled(form: Record, criteria: Sequence[str]) -> dict[str, Any]:
    """Return the parts of a completed form by criterion, with the whole intent last if present."""
    names = _names(criteria)
    return {title: getattr(form, name) for title, name in names.items() if hasattr(form, name)}


def seen_verdict(forms: Sequence[Record], criteria: Sequence[str]) -> Verdict:
    """Return the verdict on an episode based on one or more completed forms.

    Each score is the median of the available answers (the lower one of two), with the evidence from
    an answer with that score. The spread is the range of the overall scores.
    """
    answers = [filled(form, criteria) for form in forms]
    seen: list[VisionScore] = []
    for title in (*criteria, WHOLE):
        sightings: list[VisualEvidence] = [answer[title] for answer in answers]
        scores = [sighting.score for sighting in sightings if sighting.score is not None]
        score = median_low(scores) if scores else None
        stands = next(sighting for sighting in sightings if sighting.score == score)
        seen.append(
            VisionScore(
                criterion=title,
                score=score,
                answers=tuple(sighting.score for sighting in sightings),
                start_s=stands.start_s,
                end_s=stands.end_s,
                evidence=stands.evidence,
            )
        )
    whole = seen[-1]
    if whole.score is None:
        blind = unknown("vision", f"not visible: {whole.evidence}")
        return blind.model_copy(update={"seen": tuple(seen)})
    scores = [answer for answer in whole.answers if answer is not None]
    standing = [answer[WHOLE] for answer in answers if answer[WHOLE].score == whole.score]
    return Verdict(
        source="vision",
        score=whole.score,
        tags=tuple(dict.fromkeys(tag for sighting in standing for tag in sighting.tags)),
        seen=tuple(seen),
        spread=max(scores) - min(scores) if len(scores) > 1 else None,
    )


def worth_watching(code: Sequence[Verdict]) -> list[int]:
    """Return the episodes to watch, at the 10th, 50th and 90th percentile of the code score.

    The episodes are sorted from worst to best. Without any scores, episodes are spaced evenly.
    """
    ranked = sorted(
        (verdict.score, index) for index, verdict in enumerate(code) if verdict.score is not None
    )
    order = [index for _, index in ranked] or list(range(len(code)))
    return list(dict.fromkeys(at_quantiles(order).values()))
