"""The tutorial's commands, as written; in one process, because a hundred would take minutes."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from telic.studies.next import next_step
from telic.studies.rules.results import check_incumbent
from telic.studies.study import Study
from tests.studies.toy.interfaces import at_terminal

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/tutorials/first-study.md"
BLOCKS = re.findall(r"^```bash\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)


class Reader:
    """User at a terminal who types the commands of the page."""

    def __init__(self, start: Path) -> None:
        self.folder = start
        self.commands = self.codes = 0
        self.seen: list[tuple[str, dict, str]] = []
        """command, then status, phase and verdict of each candidate, and the next action"""

    def type(self, block: str) -> None:
        for line in _lines(block):
            if line.startswith("cd "):
                self.folder = (self.folder / line.removeprefix("cd ")).resolve()
                os.chdir(self.folder)
            elif line.startswith("telic "):
                self._study(_words(line))
            else:
                subprocess.run(["bash", "-ec", line], cwd=self.folder, check=True)

    def _study(self, words: list[str]) -> None:
        assert words[1] in ("study", "verify")
        code, printed = at_terminal(*words[1 + (words[1] == "study") :])
        assert code == 0, f"{shlex.join(words)} ended with {code}: {printed}"
        self.commands += 1
        self.codes += printed.count("to agree, or anything else to refuse")
        study = Study.find(self.folder)
        candidates = {
            name: (
                held.status.value,
                held.phase,
                next((audit.verdict for audit in study.audits(name)), None),
            )
            for name, held in study.state.candidates.items()
        }
        self.seen.append((words[2], candidates, next_step(study).action))


def _words(line: str) -> list[str]:
    """Return the words that a shell makes of a command."""
    program = f"printf '%s\\0' {line}"
    done = subprocess.run(["bash", "-ec", program], check=True, capture_output=True, text=True)
    return done.stdout.split("\0")[:-1]


def _lines(block: str) -> list[str]:
    """Return the commands of a block; what is written into a file belongs to its command."""
    found: list[str] = []
    end = None
    for line in block.splitlines():
        if end is not None:
            found[-1] += f"\n{line}"
            end = None if line == end else end
        else:
            found.append(line)
            end = match[1] if (match := re.search(r"<<'?(\w+)'?$", line)) else None
    return found


BASE, LESS = "c-0001-baseline", "c-0002-less-effort"
MEASURED = {BASE: ("completed", "incumbent_validation", "baseline_established")}
TRUSTED = {BASE: ("accepted", "incumbent_validation", "baseline_established")}
PROPOSED = {**TRUSTED, LESS: ("validated", "smoke", None)}
CLAIMED = {**TRUSTED, LESS: ("completed", "promotion", "valid_improvement")}
BETTER = {**TRUSTED, LESS: ("accepted", "promotion", "valid_improvement")}
STEPS = [
    ("init", {}, "agree"),
    ("adapter", {}, "agree"),
    ("contract", {}, "propose"),
    ("approve", {}, "propose"),
    ("run", MEASURED, "decide"),
    ("decide", TRUSTED, "propose"),
    ("propose", PROPOSED, "launch"),
    ("run", CLAIMED, "decide"),
    ("decide", BETTER, "plan"),
    ("run", BETTER, "propose"),
    ("report", BETTER, "propose"),
]
"""what a reader has after every command: phase and verdict of each candidate, and what is next"""


@pytest.mark.long
def test_first_study_tutorial_works_as_written(tmp_path, monkeypatch):
    monkeypatch.setenv("TELIC_CONFIG_DIR", str(tmp_path / "config"))
    monkeypatch.delenv("TELIC_ACTOR", raising=False)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    here = tmp_path / "telic"
    here.mkdir()
    (here / "tests").symlink_to(ROOT / "tests")
    monkeypatch.chdir(here)
    reader = Reader(here)
    for block in BLOCKS:
        reader.type(block)
    assert reader.seen == STEPS
    study = Study.find(tmp_path / "pointmass")
    assert study.incumbent and study.incumbent.candidate == LESS
    checked = check_incumbent(study)
    assert checked is not None and checked.outcome == "holds", "validated on held-out seeds"
    assert reader.commands <= 12 and reader.codes <= 3
    print(f"{reader.commands} commands, {reader.codes} codes")
    assert (tmp_path / "pointmass/.telic/tasks/reach/studies/weights/report.html").exists()
