"""A table of results in the four forms that people ask for: Markdown, CSV, LaTeX and a picture."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from telic.core.text import number
from telic.report import document as doc
from telic.report.markdown import render_block
from telic.storage.files import write_text

_LINE, _PAD, _EDGE = 26, 18, 16  # pixels of a table's picture


class ResultTable(NamedTuple):
    """A title, names of columns, and rows of numbers and words."""

    title: str
    columns: list[str]
    rows: list[tuple[Any, ...]]

    def shown(self) -> doc.Table:
        """Return it as people see it, with few digits."""
        rows = [[cell(value) for value in row] for row in self.rows]
        return doc.Table(self.columns, rows, self.title)


def cell(value: Any) -> str:
    """Write a number for people; words stay as they are."""
    return value if isinstance(value, str) else number(value)


def markdown(table: ResultTable) -> str:
    """Return the table as Markdown."""
    return render_block(table.shown()) + "\n"


def comma_separated(table: ResultTable) -> str:
    """Return the table as CSV, with all digits; a missing number is empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows(["" if value is None else value for value in row] for row in table.rows)
    return out.getvalue()


def latex(table: ResultTable) -> str:
    """Return the table as LaTeX, for the package booktabs."""
    body = [" & ".join(_escaped(cell(value)) for value in row) + r" \\" for row in table.rows]
    return "\n".join(
        [
            r"\begin{table}",
            rf"\caption{{{_escaped(table.title)}}}",
            rf"\begin{{tabular}}{{{'l' * len(table.columns)}}}",
            r"\toprule",
            " & ".join(map(_escaped, table.columns)) + r" \\",
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def table_picture(table: ResultTable) -> np.ndarray:
    """Return the table as an (H, W, 3) uint8 picture."""
    from telic.rendering.media import draw_text, text_width

    words = [table.columns, *([cell(value) for value in row] for row in table.rows)]
    words = [[_ascii(word) for word in row] for row in words]
    widths = [max(text_width(row[i]) for row in words) + _PAD for i in range(len(table.columns))]
    title = _ascii(table.title)
    width = max(sum(widths), text_width(title)) + 2 * _EDGE
    height = (len(words) + 1) * _LINE + 2 * _EDGE
    # Ink is light, so draw on black and turn the picture over.
    dark = np.zeros((height, width, 3), np.uint8)
    draw_text(dark, title, _EDGE, _EDGE)
    for line, row in enumerate(words, 1):
        left = _EDGE
        for text, room in zip(row, widths, strict=True):
            if text:
                draw_text(dark, text, left, _EDGE + line * _LINE)
            left += room
    below = _EDGE + 2 * _LINE - 4
    dark[below, _EDGE : width - _EDGE] = 120
    return 255 - dark


def write_tables(
    tables: Sequence[ResultTable], folder: Path, name: str = "table", notes: Sequence[str] = ()
) -> None:
    """Write tables in all four forms; notes stand below the readable one."""
    from telic.rendering.media import write_png

    text = "\n".join(map(markdown, tables)) + "".join(f"\n- {note}" for note in notes)
    write_text(folder / f"{name}.md", f"{text.rstrip()}\n")
    write_text(folder / f"{name}.tex", "\n".join(map(latex, tables)))
    for index, table in enumerate(tables, 1):
        which = name if index == 1 else f"{name}-{index}"
        write_text(folder / f"{which}.csv", comma_separated(table))
        write_png(folder / f"{which}.png", table_picture(table))


def _escaped(text: str) -> str:
    for sign in "&%$#_{}":
        text = text.replace(sign, "\\" + sign)
    return text.replace("±", r"$\pm$").replace("–", "--")


def _ascii(text: str) -> str:
    return text.replace("±", "+-").replace("–", "-").encode("ascii", "replace").decode()
