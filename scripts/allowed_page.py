"""Write docs/reference/allowed.md, the page of what reward and judge files may use, from the lists.

    python scripts/allowed_page.py            write the page
    python scripts/allowed_page.py --print    print it instead

tests/sandbox/test_offered.py fails when the page is stale.
"""

from __future__ import annotations

import sys
from collections.abc import Collection
from pathlib import Path

from telic.judges.code import OFFERED as JUDGE
from telic.rewards.composed import offered_modules
from telic.sandbox.allowed import ANY, BUILTINS, MODULES, PREDEFINED
from telic.sandbox.offered import OFFERED

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "allowed.md"

HEAD = """# What a reward or judge file may use

Generated from the lists by `python scripts/allowed_page.py`; do not edit.

A file that is not trusted is held to lists of what it may use; everything else is refused, with the
line and what to write instead. Refused before it runs: other imports and functions, names with a
leading underscore (but `self._name` of its own), classes and modules passed around as values,
attributes that no object offers. Refused while it runs: an attribute that this very object does not
offer. Objects of a file's own classes have whatever the file gave them.

`--trust` runs a file of your own without these lists, still in the confined process.
"""


def page() -> str:
    """Return the page."""
    parts = [HEAD, "## Functions\n"]
    known = ", ".join(f"`{name}`" for name in sorted(PREDEFINED))
    parts.append(f"There without an import: {known}.\n")
    parts.append(_entry("Python itself", {n for n in BUILTINS if n[0].islower()}))
    parts.append(_entry("Errors", {n for n in BUILTINS if n[0].isupper()}))
    for path, names in sorted(MODULES.items()):
        if path == "telic.quantities":
            parts.append(f"**{path}**: every quantity ([list](quantities.md)).\n")
        elif names == ANY:
            parts.append(_entry(f"`{path}`", offered_modules()[path.rpartition(".")[2]]))
        elif names and path != "__future__":
            parts.append(_entry(f"`{path}`", names))
    parts.append(_entry("`telic`, in a judge", JUDGE["telic"]))
    parts.append(_entry("`telic.metrics`, in a judge", JUDGE["telic"]["metrics"]))
    parts.append("## Attributes and methods, by kind of object\n")
    parts += [_entry(_titled(kind), names) for kind, names in sorted(OFFERED.items())]
    return "\n".join(parts)


def _titled(kind: str) -> str:
    return f"`{kind}`" if kind == "info" else kind.capitalize()


def _entry(title: str, names: Collection[str]) -> str:
    return f"**{title}**: {', '.join(f'`{name}`' for name in sorted(names)) or 'nothing'}.\n"


if __name__ == "__main__":
    if "--print" in sys.argv:
        print(page(), end="")
    else:
        PAGE.write_text(page())
