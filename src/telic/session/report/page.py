"""The report as one page: no script, no request, nothing beside the file."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files

from telic.core.pages.markup import Markup, join, tag, text
from telic.session.report import evidence, making, words
from telic.session.report.story import Story
from telic.session.report.troubles import Troubles

# The page holds foreign text. Should any of it slip through, the browser still runs nothing and
# asks nobody.
_POLICY = "default-src 'none'; img-src data:; media-src data:; style-src 'unsafe-inline'"

_SECTIONS: dict[str, Callable[[Story], Markup | None]] = {
    "What it looks like": evidence.looks,
    "Criteria": evidence.criteria,
    "What was seen": evidence.seen,
    "How the words were read": evidence.reading,
    "What was tried": evidence.tried,
    "Why this one is the best": evidence.why_best,
    "What a model makes of it": evidence.analysis,
    "Learning curves": making.curves,
    "The reward": making.reward,
    "The judge": making.judge,
    "What it took": making.costs,
    "The policy": making.policy,
    "Do it again": making.again,
}


def render_page(story: Story, troubles: Troubles) -> str:
    """Return the whole page; a section that cannot be drawn is noted and left out."""
    header = Markup()
    with troubles.sparing("the verdict"):
        header = evidence.verdict(story)
    sections: list[tuple[str, Markup]] = []
    for title, draw in _SECTIONS.items():
        with troubles.sparing(f"the section “{title}”"):
            made = draw(story)
            if made is not None:
                sections.append((title, made))
    if troubles.lines:
        lines = tag("ul", *(tag("li", each) for each in troubles.lines), class_="troubles")
        sections.append(("What this report lacks", lines))
    outcome = words.OUTCOMES[story.summary.outcome]
    return "<!doctype html>\n" + tag(
        "html",
        tag(
            "head",
            tag("meta", charset="utf-8"),
            tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
            tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
            tag("meta", name="color-scheme", content="light dark"),
            tag("title", f"{outcome}: {story.config.intent}"),
            tag("style", Markup(files("telic.core.pages").joinpath("page.css").read_text())),
        ),
        tag(
            "body",
            tag("header", tag("div", header, class_="inside")),
            _contents([title for title, _ in sections]),
            tag("main", *(_section(title, made) for title, made in sections)),
            tag("footer", "Made by telic from the records of ", tag("code", story.folder.name)),
        ),
        lang="en",
    )


def _contents(titles: list[str]) -> Markup:
    links = [tag("a", title, href=f"#{_anchor(title)}") for title in titles]
    return tag("nav", tag("div", join(links, " "), class_="inside"), aria_label="Contents")


def _section(title: str, made: Markup) -> Markup:
    return tag("section", tag("h2", text(title)), made, id=_anchor(title))


def _anchor(title: str) -> str:
    return title.lower().replace(" ", "-")
