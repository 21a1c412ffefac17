"""Fill the tables of measured results in the documentation from docs/results/*.json.

    python scripts/results.py            write the tables into README.md and docs/
    python scripts/results.py --check    exit with 1 if a page differs from the data

A table stands between `<!-- results: NAME -->` and `<!-- end -->`, and docs/results/NAME.json holds
its rows (or names the files of the rows), with the machine, the condition, the command and the
commit of the measurement. Benchmarks
update these files with `--publish` (benchmarks/published.py). `columns` maps a header to a template
in the syntax of `str.format`; a header that starts with `>` is aligned right, and a cell with an
unknown value stays empty. A `block` is a
template of Markdown for each row instead. In addition to the formats of Python, `~3` rounds to
3 digits, `.1M` and `.0k` scale, `.0%` is a percentage, `words` replaces underscores, and a list is
joined, or shown as `range`. A value that is a template itself can refer to other files:
`{cpu_rates[HalfCheetah-v5][train]:~3}`.
"""

from __future__ import annotations

import json
import re
import string
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "docs" / "results"
REGION = re.compile(r"(<!-- results: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
SCALES = {"k": 1e3, "M": 1e6}


class Unknown(Exception):
    """Signals that a cell refers to a value that was not measured."""


class Cells(string.Formatter):
    """Formatter of numbers in tables."""

    def get_field(self, field_name: str, args: Any, kwargs: Any) -> Any:
        """Return a value, or raise Unknown if it is missing."""
        if kwargs.get(field_name, ...) is None:
            raise Unknown(field_name)
        return super().get_field(field_name, args, kwargs)

    def format_field(self, value: Any, format_spec: str) -> str:
        """Format a value with the additional formats."""
        kind, _, spec = format_spec.rpartition(" ")
        if kind == "range":
            value = value if isinstance(value, list) else [value]
            ends = [self.format_field(each, spec) for each in (min(value), max(value))]
            return ends[0] if ends[0] == ends[1] else " to ".join(ends)
        if isinstance(value, list):
            return ", ".join(self.format_field(each, format_spec) for each in value)
        if format_spec == "words":
            return "partial pass" if value == "passed_in_part" else value.replace("_", " ")
        if format_spec.startswith("~"):
            return f"{float(f'{value:.{format_spec[1:]}g}'):,.0f}"
        if format_spec.endswith("%"):
            return f"{100 * value:{format_spec[:-1]}f} %"
        if scale := SCALES.get(format_spec[-1:]):
            return f"{value / scale:{format_spec[:-1]}f} {format_spec[-1]}"
        return super().format_field(value, format_spec)


class Result:
    """Measured rows, and how to show them."""

    def __init__(self, path: Path) -> None:
        self.facts: dict[str, Any] = json.loads(path.read_text())
        if source := self.facts.get("source"):
            files = sorted(ROOT.glob(source))
            self.facts["rows"] = [json.loads(file.read_text()) for file in files]
            order = self.facts["sort"]
            self.facts["rows"].sort(key=lambda row: [row[name] for name in order], reverse=True)
        self.rows: list[dict[str, Any]] = self.facts["rows"]

    def names(self) -> set[str]:
        """Return the names of all values of the rows."""
        return {name for row in self.rows for name in row}

    def by_key(self) -> dict[str, dict[str, Any]]:
        """Return the rows by the values of their key."""
        key = self.facts["key"]
        machine = {"machine": self.facts.get("machine")}
        return {" ".join(str(row.get(name)) for name in key): machine | row for row in self.rows}

    def table(self, known: Mapping[str, Any]) -> str:
        """Return the table as Markdown, and a line about the measurement."""
        if not self.rows:
            return ""
        if block := self.facts.get("block"):
            return "\n".join(self._cell(block, row, known) for row in self.rows)
        columns: dict[str, str] = self.facts["columns"]
        heads = [head.removeprefix(">") for head in columns]
        rules = ["--:" if head.startswith(">") else "---" for head in columns]
        cells = [[self._cell(x, row, known) for x in columns.values()] for row in self.rows]
        lines = [f"|{'|'.join(row)}|" for row in [heads, *cells]]
        text = "\n".join([lines[0], f"|{'|'.join(rules)}|", *lines[1:]])
        about = "; ".join(self.facts[x] for x in ("machine", "condition") if self.facts.get(x))
        if command := self.facts.get("command"):
            about += f"; `{command}`"
        title = f"## {self.facts['title']}\n\n" if "title" in self.facts else ""
        return f"{title}{text}\n" + (f"\n*{about[0].upper()}{about[1:]}.*\n" if about else "")

    def _cell(self, template: str, row: Mapping[str, Any], known: Mapping[str, Any]) -> str:
        values = {
            name: Cells().format(value, **known)
            if isinstance(value, str) and "{" in value
            else value
            for name, value in row.items()
        }
        try:
            return Cells().format(template, **dict.fromkeys(self.names(), None) | values)
        except Unknown:
            return ""


def main() -> None:
    """Fill the tables of all pages, or check them."""
    results = {path.stem: Result(path) for path in sorted(RESULTS.glob("*.json"))}
    known = {name.replace("-", "_"): result.by_key() for name, result in results.items()}
    shown, stale = set[str](), list[str]()
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        text = page.read_text()
        shown |= {name for _, name, _ in REGION.findall(text)}
        filled = REGION.sub(lambda x: x[1] + results[x[2]].table(known) + x[3], text)
        if filled != text:
            stale.append(str(page.relative_to(ROOT)))
            if "--check" not in sys.argv:
                page.write_text(filled)
    if "--check" in sys.argv and stale:
        sys.exit(f"{', '.join(stale)}: run python scripts/results.py")
    if unused := set(results) - shown:
        sys.exit(f"docs/results: no page shows {', '.join(sorted(unused))}")


if __name__ == "__main__":
    main()
