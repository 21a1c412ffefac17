"""The result of a benchmark of intents as one page that needs nothing but a browser."""

from __future__ import annotations

from html import escape
from pathlib import Path

from telic.bench.bars import bars, scale
from telic.bench.cards import WORDS, card, duration, number, percent
from telic.bench.results import BenchFolder, Tally
from telic.storage.files import write_text

_HERE = Path(__file__).parent


def write_page(folder: BenchFolder, found: Tally) -> None:
    """Write index.html; videos and pictures are inside unless they are large."""
    write_text(folder.page, page(found, folder.path))


def page(found: Tally, folder: Path) -> str:
    """Return the page."""
    title = f"telic · {found.suite}"
    style, script = (_HERE / "page.css").read_text(), (_HERE / "page.js").read_text()
    panels = (
        bars("by difficulty", found.by_difficulty)
        + bars("by category", found.by_category)
        + bars("by robot", found.by_env)
    )
    seen = [card(each, folder) for each in found.results if each.video or each.strip]
    unseen = [card(each, folder) for each in found.results if not (each.video or each.strip)]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{style}</style></head><body>"
        f'<header><p class="brand">telic <span>benchmark</span></p>{_headline(found)}</header>'
        f'<main><div class="panels">{panels}</div>{_filters(found)}'
        f'<div class="cards">{"".join(seen)}</div><div class="cards">{"".join(unseen)}</div></main>'
        f"<footer>{_settings(found)}</footer><script>{script}</script></body></html>\n"
    )


def _headline(found: Tally) -> str:
    rate = found.overall
    if rate.share is None or rate.low is None or rate.high is None:
        return f"<h1>{escape(found.suite)}: no case has come to an end yet</h1>"
    facts = {
        "passed": f"{rate.passed} of {rate.total}",
        "median time to a pass": duration(found.median_seconds_to_pass),
        "median steps to a pass": number(found.median_steps_to_pass),
        "all cases took": duration(found.seconds),
        "models cost": "unknown" if found.usd is None else f"${found.usd:.2f}",
    }
    cells = "".join(f"<div><dt>{key}</dt><dd>{value}</dd></div>" for key, value in facts.items())
    return (
        f'<div class="headline"><p class="big">{percent(rate.share)}</p><div class="claim">'
        f"<h1>of the intents in <em>{escape(found.suite)}</em> became a policy that does them</h1>"
        f"<p>{percent(rate.low)} to {percent(rate.high)} with 95 % confidence. "
        f"{escape(found.about)}</p>"
        f"{scale(rate)}</div></div><dl>{cells}</dl>{_missing(found)}"
    )


def _missing(found: Tally) -> str:
    """Say what the rate does not cover."""
    ran = found.overall.total
    notes = [f"{ran} of the suite's {found.cases_in_suite} cases"] * (ran < found.cases_in_suite)
    if found.waiting:
        notes.append(f"not finished: {escape(', '.join(found.waiting))}")
    return f'<p class="note">{"; ".join(notes)}.</p>' if notes else ""


def _filters(found: Tally) -> str:
    buttons = [f'<button data-show="" aria-pressed="true">all {len(found.results)}</button>']
    buttons += [
        f'<button data-show="{name}" class="{name}" aria-pressed="false">{WORDS[name]} {count}'
        "</button>"
        for name, count in found.outcomes.items()
    ]
    return f'<nav aria-label="show">{"".join(buttons)}</nav>'


def _settings(found: Tally) -> str:
    options = {"author": "the composer", **found.config.options}
    model = options.pop("model", None)
    if model is not None:
        options["author"] = model
    parts = [f"{key} {value}" for key, value in options.items() if value not in (None, False)]
    return f"telic {found.config.telic} · {escape(' · '.join(parts))}"
