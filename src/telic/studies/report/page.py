"""The report as one page: no script, no request, nothing beside the file."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files

from telic.core.pages.markup import Markup, join, tag
from telic.studies.report import sections
from telic.studies.report.audit_section import last_audit
from telic.studies.report.judges_section import judges
from telic.studies.report.story import Story

# The page holds foreign text. Should any of it slip through, the browser still runs nothing and
# asks nobody.
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"

_SECTIONS: dict[str, Callable[[Story], Markup | None]] = {
    "Next": sections.upcoming,
    "Results": sections.comparison,
    "Learning": sections.learning,
    "What judges said": judges,
    "Last audit": last_audit,
    "Candidates": sections.candidates,
    "The reward": sections.reward,
    "Robustness": sections.robustness,
    "Scorecard": sections.scorecard,
    "Budget": sections.budget,
    "Troubles": sections.troubles,
    "Agreement": sections.agreement,
    "Do it again": sections.again,
}


def render_page(story: Story) -> str:
    """Return the whole page; a section with nothing to show is left out."""
    made = [(title, drawn) for title, draw in _SECTIONS.items() if (drawn := draw(story))]
    style = "".join(
        files(package).joinpath("page.css").read_text()
        for package in ("telic.core.pages", "telic.studies.report")
    )
    return "<!doctype html>\n" + tag(
        "html",
        tag(
            "head",
            tag("meta", charset="utf-8"),
            tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
            tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
            tag("meta", name="color-scheme", content="light dark"),
            tag("title", f"telic study: {story.state.study}"),
            tag("style", Markup(style)),
        ),
        tag(
            "body",
            tag("header", tag("div", sections.header(story), class_="inside")),
            _contents([title for title, _ in made]),
            tag("main", *(_section(title, drawn) for title, drawn in made)),
            tag("footer", "Made by telic from the ledger and the evidence of this study."),
        ),
        lang="en",
    )


def _contents(titles: list[str]) -> Markup:
    links = [tag("a", title, href=f"#{_anchor(title)}") for title in titles]
    return tag("nav", tag("div", join(links, " "), class_="inside"), aria_label="Contents")


def _section(title: str, drawn: Markup) -> Markup:
    return tag("section", tag("h2", title), drawn, id=_anchor(title))


def _anchor(title: str) -> str:
    return title.lower().replace(" ", "-")
