"""Elements that several sections of the page share: tables, code, commands, lists of facts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from telic.core.pages.markup import Markup, tag


def table(heads: Sequence[str], rows: Iterable[Sequence[object]], kind: str = "") -> Markup:
    """Return a table that turns into cards on a narrow screen: cells know their column's name."""
    head = tag("thead", tag("tr", *(tag("th", each, scope="col") for each in heads)))
    body = [
        tag(
            "tr",
            *(
                tag("td", tag("span", cell, class_="cell"), data_name=name)
                for name, cell in zip(heads, row, strict=True)
            ),
        )
        for row in rows
    ]
    return tag("table", head, tag("tbody", *body), class_=kind or None)


def amount(value: object) -> Markup:
    """Return a number that stays in one line."""
    return tag("span", value, class_="amount")


def listed(lines: Iterable[object]) -> Markup | None:
    """Return a list; None when there is nothing in it."""
    items = [tag("li", each) for each in lines]
    return tag("ul", *items) if items else None


def code(title: str, source: str) -> Markup:
    """Return source code that unfolds."""
    return tag(
        "details",
        tag("summary", title),
        tag("pre", tag("code", source.rstrip()), tabindex=0),
    )


def shell(line: str) -> Markup:
    """Return a command to copy."""
    return tag("pre", tag("code", line), class_="shell", tabindex=0)


def facts(rows: Iterable[tuple[object, object]], kind: str = "facts") -> Markup:
    """Return names and values, side by side."""
    pairs = (tag("div", tag("dt", name), tag("dd", value)) for name, value in rows)
    return tag("dl", *pairs, class_=kind)
