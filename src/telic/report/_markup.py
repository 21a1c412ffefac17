"""HTML and SVG that are safe by construction: everything except Markup is escaped."""

from __future__ import annotations

import html
from collections.abc import Iterable

_VOID = frozenset({"br", "hr", "img", "meta", "wbr"})


class Markup(str):
    """Text that is HTML already; adding or formatting it makes plain text again."""

    __slots__ = ()


def text(value: object) -> Markup:
    """Return a value as HTML text."""
    return value if isinstance(value, Markup) else Markup(html.escape(str(value)))


def join(parts: Iterable[object], between: str = "") -> Markup:
    """Return the joined parts; parts and separator are escaped if necessary."""
    return Markup(text(between).join(text(part) for part in parts))


def tag(name: str, /, *children: object, **attributes: object) -> Markup:
    """Return an element; `class_` is class, `aria_label` is aria-label, and None is left out."""
    pairs = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _VOID:
        return Markup(f"<{name}{pairs}>")
    inside = join(child for child in children if child is not None)
    return Markup(f"<{name}{pairs}>{inside}</{name}>")
