"""What an audit leaves open, with the answers that are possible: better asked than guessed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from telic.studies.scan.entry_points import RepositoryScan
from telic.studies.scan.facts import is_list, is_table
from telic.studies.scan.records import OpenQuestion, RepositoryAudit

_LEARNS = re.compile(r"\.(learn|fit|backward|apply_gradients|apply_updates)\(|\.train\([^)\s]")
_SHOWN = 5
_ALIKE = 0.1


def open_questions(scan: RepositoryScan, audit: RepositoryAudit) -> Iterator[OpenQuestion]:
    """Yield what a person has to say before a command can be trusted."""
    if not audit.train:
        yield from _no_command(scan)
        return
    first = audit.train[0]
    if first.problems:
        told = [" ".join(each.words) for each in scan.documented if each.resolved == first.path]
        why = "its parser would say: " + "; ".join(first.problems[:3])
        yield OpenQuestion(field="commands.train", why=why, candidates=tuple(told[:_SHOWN]))
    alike = [each for each in audit.train if first.confidence - each.confidence < _ALIKE]
    if len(alike) > 1:
        lines = tuple(" ".join(each.argv) for each in alike[:_SHOWN])
        why = f"{len(alike)} commands train and nothing prefers one of them clearly"
        yield OpenQuestion(field="commands.train", why=why, candidates=lines)
    if audit.seeds.controllable and not audit.seeds.words:
        place = audit.seeds.evidence[0]
        why = "no word of the command sets the seed, only this file does"
        line = f"{place.path}:{place.line}"
        yield OpenQuestion(field="seeds", why=why, candidates=(line,))


def _no_command(scan: RepositoryScan) -> Iterator[OpenQuestion]:
    """Where training may begin though no command was found: notebooks, files in doubt."""
    found = [path for path in scan.tree.with_suffix(".ipynb") if _LEARNS.search(_code(scan, path))]
    found += [" ".join(entry.argv) for entry in scan.unsure]
    found += [" ".join(each.words) for each in scan.documented if each.resolved is None]
    if found:
        why = "no command of the repository was seen to train; one of these may"
        candidates = tuple(dict.fromkeys(found))[:_SHOWN]
        yield OpenQuestion(field="commands.train", why=why, candidates=candidates)


def _code(scan: RepositoryScan, path: str) -> str:
    """The code of a notebook."""
    try:
        data: Any = json.loads(scan.tree.text(path))
    except ValueError:
        return ""
    cells = data.get("cells") if is_table(data) else None
    sources = [cell.get("source", "") for cell in cells if is_table(cell)] if is_list(cells) else []
    return "\n".join("".join(map(str, each)) if is_list(each) else str(each) for each in sources)
