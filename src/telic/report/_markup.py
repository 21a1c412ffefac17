"""HTML and SVG generation that is safe by construction: everything except Markup is escaped."""

from __future__ import annotations

import html
from collections.abc import Iterable

_VOID = frozenset({"br", "hr", "img", "meta", "wbr"})


class Markup(str):
    """Text that is already HTML. Concatenation and formatting return plain text."""

    __slots__ = ()


def text(value: object) -> Markup:
    """Escape a value as HTML text."""
    return value if isinstance(value, Markup) else Markup(html.escape(str(value)))


def join(parts: Iterable[object], between: str = "") -> Markup:
    """Join parts, escaping parts and separator unless they are Markup."""
    return Markup(text(between).join(text(part) for part in parts))


def tag(name: str, /, *children: object, **attributes: object) -> Markup:
    """Return an element. `class_` becomes class, `aria_label` aria-label; None is omitted."""
    pairs = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _VOID:
        return Markup(f"<{name}{pairs}>")
    inside = join(child for child in children if child is not None)
    return Markup(f"<{name}{pairs}>{inside}</{name}>")
