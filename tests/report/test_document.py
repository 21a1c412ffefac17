"""One document, two forms: both say the same, and foreign text is text in all of them."""

import json
import re
from pathlib import Path

import pytest

from telic.report import document as doc
from telic.report.charts import (
    Bar,
    ChartLine,
    ColumnChart,
    ForestRow,
    Gauge,
    LineChart,
    Point,
    RowChart,
    in_characters,
)
from telic.report.html import MAX_INLINE, render_page
from telic.report.markdown import escape_markdown, render_markdown
from tests.report.reader import Reader

EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>|`**[x](javascript:1)"
LINES = (
    ChartLine(EVIL, [Point(0, 1, 0, 2), Point(10, 3, 2, 4)], [Point(10, 3, 2, 4)]),
    ChartLine("other", [Point(0, 2, 2, 2), Point(10, 1, 1, 1)]),
)
CHARTS = (
    LineChart(EVIL, LINES, EVIL, EVIL, peak=LINES[0].points[1]),
    RowChart(EVIL, (ForestRow(EVIL, 0.5, (0.4, 0.6), (0.4, 0.6), 0.1, "good", True),), 0.7, EVIL),
    RowChart(EVIL, (ForestRow(EVIL, 0.5, (0.4, 0.6)), ForestRow("b", None))),
    ColumnChart(EVIL, (0.1, 0.5, 1.0), (1,), 0.8),
)
INLINE = (
    *(
        EVIL,
        doc.Strong(EVIL),
        doc.Soft(EVIL),
        doc.Mono(EVIL),
        doc.Badge(EVIL, "bad"),
    ),
    *(doc.Link(EVIL, EVIL), doc.Link(EVIL, "javascript:alert(1)"), doc.Tick(True)),
    *(Bar(0.5, EVIL, "good"), Gauge(0.4, 0.5, 0.6, 0.7, EVIL), Gauge(0.4, 0.5, 0.6, None, EVIL)),
)


def every_block(folder: Path) -> tuple[doc.AnyBlock, ...]:
    """One block of each kind, each with as much foreign text as it takes."""
    picture, video_block = folder / "a.png", folder / "b.mp4"
    picture.write_bytes(b"png")
    video_block.write_bytes(b"mp4")
    shown = (doc.Picture(picture, EVIL, EVIL), doc.Video(video_block, EVIL))
    card = doc.Card(EVIL, doc.Badge(EVIL, "good"), (EVIL,), shown, (doc.Text(EVIL),))
    stack = doc.Stack((EVIL, doc.Items(((EVIL, INLINE[-2]),), "rated")))
    return (
        doc.Text(INLINE),
        doc.Heading(EVIL),
        doc.Callout(EVIL, EVIL, "bad"),
        doc.Hero("43%", EVIL, EVIL),
        doc.Items(INLINE),
        doc.Items(((doc.Tick(False), EVIL),), "checks"),
        doc.Table((EVIL, "b"), [(EVIL, stack), INLINE[:2]], EVIL),
        doc.FactSheet([(EVIL, EVIL)], "glance"),
        doc.Code(f"{EVIL}\n```", "python", EVIL),
        doc.ShellLine(EVIL),
        doc.Formula(r"r = \text{" + EVIL + "}"),
        doc.Figure(CHARTS[0], EVIL, EVIL),
        doc.Details(EVIL, (doc.Text(EVIL),)),
        doc.SideBySide((shown[1], doc.Text(EVIL)), "footage"),
        doc.Cards((card, card)),
        *shown,
        *CHARTS,
    )


def report(folder: Path) -> doc.Report:
    blocks = every_block(folder)
    header = doc.Section("", (doc.Text(EVIL, "where"), doc.Text("first things")))
    sections = (doc.Section("First", blocks), doc.Section("Second", blocks[:1]))
    return doc.Report(EVIL, (*sections, doc.Section("Third", blocks[:2])), header, footer=EVIL)


def test_foreign_text_is_text_on_a_page(tmp_path):
    read = Reader(render_page(report(tmp_path), tmp_path))
    scripts = [tag for tag, _ in read.elements if tag == "script"]
    assert len(scripts) == 1, "that of the cards"
    assert not [name for _, each in read.elements for name in each if name.startswith("on")]
    assert "<script>alert(1)</script>" in " ".join(read.words)
    for tag, attributes in read.elements:
        for name in ("src", "href"):
            address = attributes.get(name, "#")
            assert address == EVIL or re.match("data:|#", address), (tag, address)
        assert tag not in ("link", "iframe", "object", "base", "form")


def test_a_page_runs_only_programs_whose_hash_it_names(tmp_path):
    page = render_page(report(tmp_path), tmp_path)
    assert "default-src &#39;none&#39;; img-src data:" in page and "sha256-" in page
    plain_page = render_page(doc.Report("x", ()), tmp_path)
    assert "script" not in plain_page and "url(" not in page and "@import" not in page


def test_every_picture_and_chart_has_words(tmp_path):
    elements = Reader(render_page(report(tmp_path), tmp_path)).elements
    assert all(each["alt"] for tag, each in elements if tag == "img")
    assert all(each["aria-label"] for tag, each in elements if tag in ("svg", "video"))
    headings = [tag for tag, _ in elements if re.fullmatch("h[1-6]", tag)]
    assert headings[0] == "h1" and headings.count("h1") == 1


def test_what_is_large_is_linked(tmp_path):
    (tmp_path / "report").mkdir()
    large = tmp_path / "report" / "long.mp4"
    large.write_bytes(b"0" * (MAX_INLINE + 1))
    section = doc.Section("Looks", (doc.Video(large, "a film"),))
    page = render_page(doc.Report("x", (section,)), tmp_path)
    assert "<video" not in page and 'href="report/long.mp4"' in page


def test_foreign_text_is_text_in_markdown(tmp_path):
    text = render_markdown(report(tmp_path), tmp_path)
    outside = re.sub(r"(?ms)^(`{3,})\w*\n.*?^\1$", "", text)
    outside = re.sub(r"</?details>|<summary>.*?</summary>", "", outside)
    assert re.findall(r"(?<!\\)<(?!br>)", outside) == []
    rows = [line for line in outside.splitlines() if line.startswith("| ")]
    assert rows and all(len(re.findall(r"(?<!\\)\|", line)) == 3 for line in rows)
    assert "](javascript" not in outside.replace(r"\]", "")


def test_markdown_shows_foreign_text_as_it_is():
    assert escape_markdown("a|b *c*\n# d <e>") == r"a\|b \*c\* \# d \<e\>"
    assert escape_markdown("a_b_1 _c_ __d") == r"a_b_1 \_c\_ \_\_d"


def test_formulas_that_would_leave_mathematics_are_code(tmp_path):
    for latex, expected in ((r"a < b", "$$\na < b\n$$"), ("a $$ <b>", "```latex\na $$ <b>\n```")):
        section = doc.Section("", (doc.Formula(latex),))
        assert expected in render_markdown(doc.Report("x", (section,)), tmp_path)


def test_a_widget_gets_its_data_as_data(tmp_path):
    widget = doc.Widget("<p id='a'></p>", "p { color: red }", "let x", json.dumps(["</script><b>"]))
    page = render_page(doc.Report("x", (doc.Section("", (widget,)),)), tmp_path)
    assert "</script><b>" not in page and "\\u003c/script>" in page
    assert "p { color: red }" in page and "<script>let x</script>" in page


@pytest.mark.parametrize("chart", CHARTS)
def test_charts_have_a_form_in_characters(chart):
    lines = in_characters(chart)
    assert lines and all(line.strip() for line in lines)
