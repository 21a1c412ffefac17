"""The card of a case on the result's page: what it looks like, measured values, what is lacking."""

from __future__ import annotations

import base64
from html import escape
from pathlib import Path

from telic.bench.results import CaseResult, CriterionResult

_EMBEDDED_BYTES = 1_500_000
"""larger files are linked: the page stays openable"""

WORDS = {
    "passed": "passed",
    "unconfirmed": "not confirmed",
    "not_passed": "did not pass",
    "refused": "refused",
    "error": "error",
    "stopped": "stopped",
}


def card(result: CaseResult, folder: Path) -> str:
    """Return the card of one case; pictures are seen from the benchmark's folder."""
    case = result.case
    chips = "".join(
        f'<span class="chip">{escape(each)}</span>'
        for each in (case.env, case.category, case.difficulty)
    )
    return (
        f'<article class="card {result.outcome}" id="{case.id}" data-outcome="{result.outcome}" '
        f'data-difficulty="{case.difficulty}" data-env="{escape(case.env)}">'
        f"{_pictures(result, folder)}"
        f'<div class="text"><p class="badge">{WORDS[result.outcome]}</p>'
        f"<h3>{escape(case.intent)}</h3><p>{chips}</p>"
        f"{_score(result)}{_criteria(result)}{_checks(result)}{_reason(result)}{_facts(result)}"
        "</div></article>"
    )


def percent(share: float) -> str:
    """Return a share for people."""
    return f"{100 * share:.0f}\N{NO-BREAK SPACE}%"


def number(value: float | None, unit: str = "") -> str:
    """Return a number for people; a missing one is a dash."""
    if value is None:
        return "–"
    text = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return f"{text} {unit}".strip()


def duration(seconds: float | None) -> str:
    """Return a time for people."""
    if seconds is None:
        return "–"
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def _pictures(result: CaseResult, folder: Path) -> str:
    shown = ""
    if result.video:
        source = _source(folder, result.video, "video/mp4")
        shown += (
            f'<video src="{source}" muted loop playsinline controls preload="metadata"></video>'
        )
    if result.strip:
        source = _source(folder, result.strip, "image/png")
        shown += f'<img class="strip" src="{source}" alt="moments of the median episode">'
    return f'<div class="pictures">{shown or "<p>nothing to show</p>"}</div>'


def _source(folder: Path, path: str, kind: str) -> str:
    """Return the file itself as a data URI, or its relative path when it is large or gone."""
    file = folder / path
    if not file.exists() or file.stat().st_size > _EMBEDDED_BYTES:
        return escape(path)
    return f"data:{kind};base64,{base64.b64encode(file.read_bytes()).decode()}"


def _score(result: CaseResult) -> str:
    if result.score is None:
        return ""
    proven = "" if result.low is None else f" <small>proves {result.low:.2f}</small>"
    return f'<p class="score">{result.score:.2f}{proven}</p>'


def _criteria(result: CaseResult) -> str:
    rows = "".join(_criterion(each) for each in result.criteria)
    return f'<table class="criteria">{rows}</table>' if rows else ""


def _criterion(each: CriterionResult) -> str:
    return (
        f"<tr><td>{escape(each.title)}</td><td>{number(each.value, each.unit)}</td>"
        f'<td><meter min="0" max="1" value="{each.credit:.3f}" '
        f'title="{percent(each.credit)} of the credit"></meter></td></tr>'
    )


def _checks(result: CaseResult) -> str:
    if not result.checks:
        return ""
    parts = ", ".join(f"{escape(title)} {percent(share)}" for title, share in result.checks.items())
    return f'<p class="checks">checked by the suite: {parts}</p>'


def _reason(result: CaseResult) -> str:
    lines = [escape(result.reason)] if result.reason else []
    if result.not_understood:
        lines.append(f"not understood: {escape(', '.join(result.not_understood))}")
    return "".join(f'<p class="reason">{each}</p>' for each in lines)


def _facts(result: CaseResult) -> str:
    tries = result.iterations
    facts = [
        "" if not tries else f"{tries} iteration{'s' if tries != 1 else ''}",
        "" if not result.env_steps else f"{result.env_steps / 1e6:.2g} M steps",
        duration(result.seconds),
        "" if not result.usd else f"${result.usd:.2f}",
    ]
    link = f' · <a href="{escape(result.session)}/report.html">report</a>' if result.session else ""
    return f'<p class="facts">{" · ".join(each for each in facts if each)}{link}</p>'
