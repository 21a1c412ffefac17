"""HTML renderer: one self-contained page without requests, and with scripts only if needed."""

from __future__ import annotations

import base64
import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from importlib.resources import files
from pathlib import Path

from telic.report import document as doc
from telic.report._markup import Markup, join, tag
from telic.report.charts import COLOURS, Bar, Chart, Gauge, LineChart, RowChart, draw
from telic.storage.reading import read_bytes

LARGEST_INLINE = 1_500_000
"""maximum size in bytes of an embedded picture or video; larger files are linked"""
_KINDS = {".png": "image/png", ".mp4": "video/mp4"}
_LEAST_CONTENTS = 3
"""minimum number of titled sections for a table of contents"""
# Defense in depth: if untrusted text escaped as markup, the browser would neither run it nor send
# requests.
_POLICY = "default-src 'none'; img-src data:; media-src data:; style-src 'unsafe-inline'"
_AMOUNT = re.compile(r"[<≥≤+−–$]?\s?\d[^a-z]*[^\n]{0,14}")


def render_page(report: doc.Report, folder: Path) -> str:
    """Render a report as a page. Links are relative to `folder`, where the page will be stored."""
    return "<!doctype html>\n" + _Page(report, folder).whole()


class _Page:
    """Renderer that also collects the styles and scripts required by the blocks."""

    def __init__(self, report: doc.Report, folder: Path) -> None:
        self._report, self._folder = report, folder
        self._style = [_read("colours.css"), _read("page.css")]
        self._programs: list[str] = []

    def whole(self) -> Markup:
        report = self._report
        sections = [section for section in report.sections if section.blocks]
        body = tag(
            "body",
            tag("header", tag("div", self._header(), class_="inside")),
            _contents([section.title for section in sections if section.title]),
            tag("main", *map(self._section, sections)),
            tag("footer", _words(report.footer)) if report.footer else None,
            *(tag("script", Markup(program)) for program in self._programs),
        )
        head = tag(
            "head",
            tag("meta", charset="utf-8"),
            tag("meta", http_equiv="Content-Security-Policy", content=self._policy()),
            tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
            tag("meta", name="color-scheme", content="light dark"),
            tag("title", report.tab or report.title),
            tag("style", Markup("".join(self._style))),
        )
        return tag("html", head, body, lang="en")

    def _policy(self) -> str:
        """Return the content security policy, which allows the page's scripts by hash."""
        hashes = (hashlib.sha256(program.encode()).digest() for program in self._programs)
        names = [f"'sha256-{base64.b64encode(digest).decode()}'" for digest in hashes]
        return _POLICY + (f"; script-src {' '.join(names)}" if names else "")

    def _header(self) -> Markup:
        blocks = self._report.header.blocks
        about = [block for block in blocks if isinstance(block, doc.Text) and block.kind == "where"]
        rest = [block for block in blocks if block not in about]
        return join([self._blocks(about), tag("h1", self._report.title), self._blocks(rest)])

    def _section(self, section: doc.Section) -> Markup:
        title = tag("h2", section.title) if section.title else None
        anchor = _anchor(section.title) if section.title else None
        return tag("section", title, self._blocks(section.blocks), id=anchor)

    def _blocks(self, blocks: Iterable[doc.Block]) -> Markup:
        return join(map(self._block, blocks))

    def _block(self, block: doc.Block) -> Markup:
        match block:
            case doc.Text():
                return tag("p", _words(block.words), class_=block.kind or None)
            case doc.Heading():
                return tag("h3", block.text)
            case doc.Callout():
                title = tag("strong", block.title, class_="outcome")
                kind = f"verdict {block.tone}".strip()
                return tag("p", title, " ", _words(block.words), class_=kind)
            case doc.Hero():
                note = tag("p", _words(block.note), class_="note") if block.note else None
                lead = tag("p", _words(block.words), class_="lead")
                figure = tag("p", block.figure, class_="big")
                return tag("div", figure, tag("div", lead, note), class_="hero")
            case doc.Items():
                return _items(block)
            case doc.Table():
                return _table(block)
            case doc.FactSheet():
                rows = (
                    (tag("dt", _words(name)), tag("dd", _words(value)))
                    for name, value in block.rows
                )
                return tag("dl", *(tag("div", *row) for row in rows), class_=block.kind)
            case doc.Code():
                code = tag("pre", tag("code", block.source.rstrip()), tabindex=0)
                return tag("details", tag("summary", block.title), code) if block.title else code
            case doc.ShellLine():
                return tag("pre", tag("code", block.line), class_="shell", tabindex=0)
            case doc.Formula():
                code = tag("code", block.latex, class_="latex")
                return tag("p", code, class_="wide")
            case _:
                return self._picture(block)

    def _picture(self, block: doc.Block) -> Markup:
        match block:
            case doc.Picture():
                return self._image(block)
            case doc.Video():
                return self._video(block)
            case doc.Figure():
                return _figure(block)
            case doc.Details():
                return tag("details", tag("summary", block.title), self._blocks(block.blocks))
            case doc.Beside():
                return tag("div", *(self._beside(block)), class_=block.kind)
            case doc.Cards():
                return self._cards(block.cards)
            case doc.Widget():
                self._style.append(block.style)
                self._programs.append(block.program)
                # "</" would end the script element.
                data = Markup(block.data.replace("</", "<\\/"))
                return join(
                    [Markup(block.markup), tag("script", data, type="application/json", id="data")]
                )
            case _:
                assert isinstance(block, Chart)
                return _figure(doc.Figure(block))

    def _beside(self, block: doc.Beside) -> Iterator[Markup]:
        drawn = [self._block(part) for part in block.blocks]
        if block.kind != "footage":
            return iter(drawn)
        return iter((drawn[0], tag("div", *drawn[1:])))

    def _image(self, picture: doc.Picture) -> Markup:
        source = _data_uri(picture.path)
        if source is None:
            return tag("p", self._link(picture.path, picture.alt))
        image = tag("img", src=source, alt=picture.alt)
        if not picture.caption:
            return image
        strip = tag("div", image, **_scrolling(picture.alt))
        return tag("figure", strip, tag("figcaption", picture.caption), class_="strip")

    def _video(self, video: doc.Video) -> Markup:
        source = _data_uri(video.inline or video.path)
        if source is None:
            return tag("p", "The video is too large for this page: ", self._link(video.path), ".")
        plays = {"autoplay": ""} if video.plays else {"preload": "metadata"}
        return tag(
            "video",
            "Your browser shows no video.",
            src=source,
            controls="",
            loop="",
            muted="",
            **plays,
            playsinline="",
            aria_label=video.alt,
        )

    def _link(self, path: Path, said: str = "") -> Markup:
        target = Path(os.path.relpath(path, self._folder)).as_posix()
        return _inline(doc.Link(said or target, target))

    def _cards(self, cards: tuple[doc.Card, ...]) -> Markup:
        self._programs.append(_read("cards.js"))
        states = dict.fromkeys(card.state for card in cards)
        buttons = [tag("button", f"all {len(cards)}", data_show="", aria_pressed="true")]
        for state in states:
            said = f"{state.text} {sum(card.state == state for card in cards)}"
            buttons.append(tag("button", said, data_show=state.text, aria_pressed="false"))
        # Cards with pictures are taller, so cards without pictures get separate rows.
        rows = [[card for card in cards if bool(card.pictures) is seen] for seen in (True, False)]
        grids = [tag("div", *map(self._card, row), class_="cards") for row in rows if row]
        return join([tag("nav", *buttons, aria_label="show"), *grids])

    def _card(self, card: doc.Card) -> Markup:
        pictures = self._blocks(card.pictures) or tag("p", "nothing to show")
        chips = [tag("span", chip, class_="chip") for chip in card.chips]
        said = [tag("p", _inline(card.state)), tag("h3", card.title), tag("p", *chips)]
        inside = tag("div", *said, self._blocks(card.blocks), class_="text")
        shown = tag("div", pictures, class_="pictures")
        return tag("article", shown, inside, class_="card", data_state=card.state.text)


def _words(value: doc.Words) -> Markup:
    """Render words as HTML."""
    return join(map(_inline, value)) if isinstance(value, tuple) else _inline(value)


def _inline(part: doc.Inline) -> Markup:
    """Render an inline element as HTML."""
    match part:
        case str():
            return join([part])
        case doc.Strong():
            return tag("strong", part.text)
        case doc.Soft():
            return tag("span", part.text, class_="note")
        case doc.Mono():
            return tag("code", part.text)
        case doc.Link():
            said = tag("a", part.text, href=part.target)
            return said if part.is_local else join([part.text])
        case doc.Badge():
            return tag("span", part.text, class_=f"badge {part.tone}".strip())
        case doc.Tick():
            mark = "✓" if part.holds else "✕"
            return tag("span", mark, class_="tick good" if part.holds else "tick bad")
        case Bar():
            return tag("span", draw(part), tag("span", part.text), class_="credit")
        case Gauge():
            return join([draw(part), tag("span", part.text, aria_hidden="true")])


def _items(items: doc.Items) -> Markup:
    def line(said: doc.Words) -> Markup:
        if items.kind != "rated":
            return _words(said)
        parts = said if isinstance(said, tuple) else (said,)
        return join(tag("span", part) if isinstance(part, str) else _inline(part) for part in parts)

    return tag("ul", *(tag("li", line(said)) for said in items.lines), class_=items.kind or None)


def _table(table: doc.Table) -> Markup:
    """Render a table. Cells carry their column name, so rows can collapse to cards when narrow."""
    caption = tag("caption", table.title) if table.title else None
    head = tag("thead", tag("tr", *(tag("th", name, scope="col") for name in table.heads)))
    rows = [
        tag("tr", *(_cell(name, cell) for name, cell in zip(table.heads, row, strict=True)))
        for row in table.rows
    ]
    return tag("table", caption, head, tag("tbody", *rows), class_=table.kind or None)


def _cell(name: str, cell: doc.Cell) -> Markup:
    if isinstance(cell, doc.Stack):
        parts = (
            _items(part) if isinstance(part, doc.Items) else tag("p", _words(part))
            for part in cell.parts
        )
        inside = join(parts)
    else:
        inside = _words(cell)
    is_amount = isinstance(cell, str) and _AMOUNT.fullmatch(cell)
    kind = "cell amount" if is_amount else "cell"
    return tag("td", tag("span", inside, class_=kind), data_name=name)


def _figure(figure: doc.Figure) -> Markup:
    chart = figure.chart
    drawn = draw(chart)
    if isinstance(chart, RowChart):
        drawn = tag("div", drawn, **_scrolling(chart.label))
    title = tag("figcaption", figure.title, class_="title") if figure.title else None
    caption = tag("figcaption", figure.caption) if figure.caption else None
    return tag("figure", title, drawn, _legend(chart), caption)


def _legend(chart: Chart) -> Markup | None:
    names: list[str] = []
    if isinstance(chart, LineChart) and len(chart.lines) > 1:
        names = [line.name for line in chart.lines]
    items = [
        tag("li", tag("span", class_=f"key c{index % COLOURS + 1}"), name)
        for index, name in enumerate(names)
    ]
    return tag("ul", *items, class_="legend") if items else None


def _contents(titles: list[str]) -> Markup | None:
    if len(titles) < _LEAST_CONTENTS:
        return None
    links = [tag("a", title, href=f"#{_anchor(title)}") for title in titles]
    return tag("nav", tag("div", join(links, " "), class_="inside"), aria_label="Contents")


def _anchor(title: str) -> str:
    return title.lower().replace(" ", "-")


def _scrolling(label: str) -> dict[str, object]:
    """Return the attributes of a horizontally scrolling container."""
    return {"class_": "wide", "tabindex": 0, "role": "region", "aria_label": label}


def _data_uri(path: Path) -> str | None:
    """Return a file as a data URI, or None if it is missing or too large."""
    if not path.exists() or path.stat().st_size > LARGEST_INLINE:
        return None
    content = base64.b64encode(read_bytes(path)).decode()
    return f"data:{_KINDS[path.suffix]};base64,{content}"


def _read(name: str) -> str:
    return files("telic.report").joinpath(name).read_text()
