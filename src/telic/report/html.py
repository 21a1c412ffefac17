"""HTML renderer for self-contained pages. Scripts are included only if needed.

`page.html.j2` has a macro for each part of a document, named after its class.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape

from telic.report import document as doc
from telic.report.charts import COLORS, Chart, RowChart, draw
from telic.storage.reading import read_bytes, read_text

MAX_INLINE = 1_500_000
"""maximum size in bytes of embedded pictures and videos. Larger files are linked."""
_HERE = Path(__file__).parent
_KINDS = {".png": "image/png", ".mp4": "video/mp4"}
_MIN_CONTENTS = 3
"""minimum number of titled sections for a table of contents"""
# Defense in depth: if untrusted text escaped as markup, the browser would neither run it nor send
# requests.
_POLICY = "default-src 'none'; img-src data:; media-src data:; style-src 'unsafe-inline'"
_AMOUNT = re.compile(r"[<≥≤+−–$]?\s?\d[^a-z]*[^\n]{0,14}")


def render_page(report: doc.Report, folder: Path) -> str:
    """Render a report as a page. Links are relative to `folder`, where the page will be saved."""
    return str(_Page(folder).show(report))


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE),
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(
        "page.html.j2", globals={"colors": COLORS, "least_contents": _MIN_CONTENTS}
    )


def data_uri(path: Path, largest: int = MAX_INLINE) -> str | None:
    """Return a file as a data URI, or None if it is missing or too large."""
    if not path.exists() or path.stat().st_size > largest:
        return None
    content = base64.b64encode(read_bytes(path)).decode()
    return f"data:{_KINDS[path.suffix]};base64,{content}"


class _Page:
    """Renderer of the parts of a page, which also collects the required styles and scripts."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._macros = _template().make_module({"page": self})
        self.styles = [read_text(_HERE / name) for name in ("colors.css", "page.css")]
        self.programs: list[str] = []

    def show(self, part: Any) -> Markup:
        """Render a part of the document, or each part of a tuple, with the macro for its class."""
        if isinstance(part, str):
            return escape(part)
        if isinstance(part, tuple):
            return Markup().join(map(self.show, part))
        match part:
            case doc.Widget():
                self.styles.append(part.style)
                self.programs.append(part.program)
            case doc.Cards():
                self.programs.append(read_text(_HERE / "cards.js"))
            case _:
                part = doc.Figure(part) if isinstance(part, Chart) else part
        return getattr(self._macros, type(part).__name__)(part)

    @property
    def policy(self) -> str:
        """Content security policy that allows the page's scripts by hash."""
        hashes = (hashlib.sha256(program.encode()).digest() for program in self.programs)
        names = [f"'sha256-{base64.b64encode(digest).decode()}'" for digest in hashes]
        return _POLICY + (f"; script-src {' '.join(names)}" if names else "")

    uri = staticmethod(data_uri)

    def link(self, path: Path, text: str = "") -> Markup:
        """Return a link to a file."""
        target = Path(os.path.relpath(path, self._folder)).as_posix()
        return self.show(doc.Link(text or target, target))

    draw = staticmethod(draw)

    @staticmethod
    def parts(line: doc.Words) -> tuple[doc.Inline, ...]:
        """Return the inline elements in a line."""
        return line if isinstance(line, tuple) else (line,)

    @staticmethod
    def is_list(part: object) -> bool:
        """Return whether a part is a list."""
        return isinstance(part, doc.Items)

    @staticmethod
    def is_amount(cell: object) -> bool:
        """Return whether a cell contains a number, which must not be wrapped."""
        return isinstance(cell, str) and _AMOUNT.fullmatch(cell) is not None

    @staticmethod
    def is_wide(chart: Chart) -> bool:
        """Return whether a chart scrolls on narrow pages."""
        return isinstance(chart, RowChart)
