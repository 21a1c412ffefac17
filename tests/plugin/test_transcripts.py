"""Skills were followed on a repository of somebody else; what was typed then still works."""

import re
from pathlib import Path

import pytest

from telic.plugin.checks import complaint, program_words
from telic.plugin.shell import simple_commands

TRANSCRIPTS = sorted((Path(__file__).parent / "transcripts").glob("*.md"))
TYPED = [
    (path.stem, line)
    for path in TRANSCRIPTS
    for line in re.findall(r"^\$ (telic .*)$", path.read_text(), re.MULTILINE)
]


def test_there_is_something_to_look_at():
    assert {path.stem for path in TRANSCRIPTS} >= {"audit-task", "make-contract", "plan-baseline"}
    assert len(TYPED) > 25


@pytest.mark.parametrize(("page", "line"), TYPED, ids=[f"{a}-{b[:50]}" for a, b in TYPED])
def test_what_was_typed_is_still_understood(page, line, tree):
    words = program_words(line.partition(" | ")[0])
    assert simple_commands(line)[0] == words
    assert complaint(words[1:], tree) is None


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_nothing_of_a_machine_is_in_a_transcript(path):
    assert not re.search(r"/(?:home|work|tmp|Users|root)/", path.read_text())


def test_a_launch_was_written_with_both_words():
    launches = [line for _, line in TYPED if "--execute" in line]
    assert launches
    assert all("--execute --confirm RUN_CANDIDATE" in line for line in launches)
