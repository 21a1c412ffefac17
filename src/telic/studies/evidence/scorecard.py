"""A summary in bands, beside the verdict and never instead of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from telic.studies.documents.base import Part
from telic.studies.documents.metrics import Scorecard, ScorecardItem
from telic.studies.errors import InvalidDocument

Band = Literal["good", "ok", "poor"]
_POINTS: dict[Band, float] = {"good": 1.0, "ok": 0.5, "poor": 0.0}


class Measured(Part):
    """A number and its interval."""

    value: float
    ci: tuple[float, float] | None = None


class ScoredItem(Part):
    """A line of the scorecard."""

    key: str
    value: float | None
    ci: tuple[float, float] | None
    band: Band | None
    weight: float


class ScorecardResult(Part):
    """The scorecard of a result."""

    items: tuple[ScoredItem, ...]
    total: float | None
    """weighted share of points, 0 to 1, over what was measured; None when nothing was"""
    caveats: tuple[str, ...] = ()


def score(card: Scorecard, found: Mapping[str, Measured]) -> ScorecardResult:
    """Return the scorecard of measured numbers; what is missing becomes a caveat, not a zero."""
    total_weight = sum(item.weight for item in card.items)
    if abs(total_weight - card.weights_sum) > 1e-9:
        raise InvalidDocument(
            "E_SCORECARD",
            f"The weights of the scorecard sum to {total_weight:g}, not {card.weights_sum:g}.",
        )
    items = tuple(_item(item, found.get(item.key)) for item in card.items)
    known = [each for each in items if each.band is not None]
    weight = sum(each.weight for each in known)
    points = sum(each.weight * _POINTS[each.band] for each in known if each.band)
    caveats = [f"{each.key} was not measured" for each in items if each.value is None]
    caveats += [
        f"the interval of {each.key} reaches into another band"
        for item, each in zip(card.items, items, strict=True)
        if each.ci and each.band and {band_of(item, end) for end in each.ci} != {each.band}
    ]
    return ScorecardResult(
        items=items, total=points / weight if weight else None, caveats=tuple(caveats)
    )


def band_of(item: ScorecardItem, value: float) -> Band:
    """Return the band of a value.

    `bands` are two numbers, (ok from, good from). When the first is the larger one, smaller values
    are better and both are upper limits.
    """
    if len(item.bands) != 2:
        raise InvalidDocument(
            "E_SCORECARD",
            f"The bands of {item.key} are {item.bands}.",
            hint="Write two numbers: where ok begins and where good begins.",
        )
    ok, good = (float(each) for each in item.bands)
    sign = 1.0 if good >= ok else -1.0
    if sign * value >= sign * good:
        return "good"
    return "ok" if sign * value >= sign * ok else "poor"


def _item(item: ScorecardItem, found: Measured | None) -> ScoredItem:
    return ScoredItem(
        key=item.key,
        value=found.value if found else None,
        ci=found.ci if found else None,
        band=band_of(item, found.value) if found else None,
        weight=item.weight,
    )
