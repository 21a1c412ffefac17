"""Draw all packages in their layers, with widths by size and lines for imports.

python scripts/drawing.py docs/images/house.svg
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from html import escape
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent))

from scripts import shape

WIDTH, ROW, BOX, LEFT = 1180, 104, 58, 150
ROOMS = (
    ("doors", ("cli", "mcp", "web")),
    ("verbs", ("verbs",)),
    ("across", ("bench", "plugin")),
    ("loops", ("session", "search", "studies", "tracking")),
    ("skills", ("authors", "composer", "judges", "motions", "training")),
    ("means", ("llm", "rendering", "rewards", "quantities", "envs", "robots", "sim")),
    ("ground", ("report", "sandbox", "storage")),
    ("words", ("core", "errors")),
)
"""layers from top to bottom, where imports lead down"""


class Box(NamedTuple):
    """Position of a package in the drawing."""

    x: float
    y: float
    width: float

    @property
    def middle(self) -> float:
        """Horizontal center of the box."""
        return self.x + self.width / 2


def main() -> None:
    """Write the drawing to a file."""
    counted = shape.measure()
    sizes = {**counted.packages, "errors": (1, _length(shape.SOURCE / "errors.py"))}
    boxes = _boxes(sizes)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {len(ROOMS) * ROW + 20}" '
        'font-family="system-ui, sans-serif" role="img" '
        'aria-label="The packages of telic by layer; imports go down">',
        '<rect width="100%" height="100%" fill="#ffffff"/>',
    ]
    for row, (title, _) in enumerate(ROOMS):
        y = 10 + row * ROW
        fill = "#f6f8fa" if row % 2 == 0 else "#ffffff"
        parts.append(f'<rect x="0" y="{y}" width="{WIDTH}" height="{ROW}" fill="{fill}"/>')
        parts.append(
            f'<text x="20" y="{y + ROW / 2 + 6}" font-size="17" fill="#57606a">{title}</text>'
        )
    parts += _lines(boxes)
    for name, box in boxes.items():
        modules, lines = sizes[name]
        parts.append(
            f'<rect x="{box.x:.0f}" y="{box.y}" width="{box.width:.0f}" height="{BOX}" rx="7" '
            'fill="#ddf4ff" stroke="#0969da"/>'
        )
        parts.append(
            f'<text x="{box.middle:.0f}" y="{box.y + 25}" font-size="16" text-anchor="middle" '
            f'fill="#0a3069">{escape(name)}</text>'
        )
        parts.append(
            f'<text x="{box.middle:.0f}" y="{box.y + 44}" font-size="12" text-anchor="middle" '
            f'fill="#57606a">{modules} · {lines / 1000:.1f}k</text>'
        )
    parts.append("</svg>")
    Path(sys.argv[1]).write_text("\n".join(parts) + "\n")


def _length(path: Path) -> int:
    return path.read_text().count("\n")


def _boxes(sizes: dict[str, tuple[int, int]]) -> dict[str, Box]:
    """Return a box for each package. The packages of a layer share its row by their size."""
    boxes: dict[str, Box] = {}
    for row, (_, names) in enumerate(ROOMS):
        known = [name for name in names if name in sizes]
        least, gap = 96, 16
        space = WIDTH - LEFT - 20 - gap * (len(known) - 1) - least * len(known)
        total = sum(sizes[name][1] for name in known)
        # A room is at most as full as the fullest: short ones stay short, in the middle.
        widths = {name: least + space * sizes[name][1] / max(total, 26_000) for name in known}
        used = sum(widths.values()) + gap * (len(known) - 1)
        x = LEFT + (WIDTH - LEFT - 20 - used) / 2
        for name in known:
            width = widths[name]
            boxes[name] = Box(x, 10 + row * ROW + (ROW - BOX) / 2, width)
            x += width + gap
    return boxes


def _lines(boxes: dict[str, Box]) -> list[str]:
    """Return a line for each pair of packages, whose width grows with the number of imports."""
    pairs: Counter[tuple[str, str]] = Counter()
    known = shape.modules()
    for name, path in known.items():
        for found in shape.imports(name, ast.parse(path.read_text()), known):
            here, there = (f"{each}.".split(".")[1] for each in (found.importer, found.module))
            if here != there and here in boxes and there in boxes:
                pairs[here, there] += 1
    out: list[str] = []
    for (here, there), count in sorted(pairs.items(), key=lambda pair: pair[1]):
        if there in ("core", "errors"):
            continue  # everybody does
        a, b = boxes[here], boxes[there]
        start, end = a.y + BOX, b.y
        middle = (start + end) / 2
        out.append(
            f'<path d="M{a.middle:.0f} {start} C{a.middle:.0f} {middle} {b.middle:.0f} {middle} '
            f'{b.middle:.0f} {end}" fill="none" stroke="#8c959f" stroke-opacity="0.45" '
            f'stroke-width="{min(7, 0.6 + count / 12):.1f}"/>'
        )
    return out


if __name__ == "__main__":
    main()
