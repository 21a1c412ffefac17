"""Bars with intervals, drawn as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from telic.bench.cards import percent
from telic.bench.results import CaseGroup, Rate

_NAME, _BAR, _NUMBERS, _ROW = 146, 140, 94, 26
_WIDTH = _NAME + _BAR + _NUMBERS


def bars(title: str, groups: Sequence[CaseGroup]) -> str:
    """Return a panel with one bar per group: the pass rate and its interval."""
    rows = "".join(_row(each, index * _ROW) for index, each in enumerate(groups))
    height = max(1, len(groups)) * _ROW
    return (
        f'<section class="panel"><h2>{escape(title)}</h2>'
        f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(title)}">{rows}</svg>'
        "</section>"
    )


def scale(rate: Rate) -> str:
    """Return the overall rate on a line from 0 to 100 %, with its interval."""
    if rate.share is None or rate.low is None or rate.high is None:
        return ""
    return (
        '<svg class="scale" viewBox="0 0 400 34" role="img" aria-label="interval of the pass rate">'
        '<rect class="rail" x="2" y="10" width="396" height="6" rx="3"/>'
        f'<rect class="span" x="{2 + 396 * rate.low:.1f}" y="10" '
        f'width="{396 * (rate.high - rate.low):.1f}" height="6" rx="3"/>'
        f'<circle class="dot" cx="{2 + 396 * rate.share:.1f}" cy="13" r="7"/>'
        '<text x="2" y="32">0 %</text><text class="end" x="398" y="32">100 %</text></svg>'
    )


def _row(group: CaseGroup, top: int) -> str:
    rate, x, y = group.rate, _NAME, top + _ROW // 2
    share, low, high = rate.share or 0.0, rate.low or 0.0, rate.high or 0.0
    left, right = x + _BAR * low, x + _BAR * high
    return (
        f'<text x="0" y="{y + 4}">{escape(group.name.removesuffix("-v5"))}</text>'
        f'<rect class="rail" x="{x}" y="{y - 6}" width="{_BAR}" height="12" rx="3"/>'
        f'<rect class="fill" x="{x}" y="{y - 6}" width="{_BAR * share:.1f}" height="12" rx="3"/>'
        f'<path class="whisker" d="M{left:.1f} {y}H{right:.1f}M{left:.1f} {y - 4}v8'
        f'M{right:.1f} {y - 4}v8"><title>{percent(low)} to {percent(high)}</title></path>'
        f'<text class="end" x="{_WIDTH - 46}" y="{y + 4}">{percent(share)}</text>'
        f'<text class="end faint" x="{_WIDTH}" y="{y + 4}">{rate.passed} of {rate.total}</text>'
    )
