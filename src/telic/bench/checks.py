"""Checks: what a suite itself knows of a behaviour, held against the episodes of a passed case.

A session is judged by the judge its own author wrote. An author that misreads an intent also judges
by the misreading, so a suite brings a few hard facts of its own ("the torso points up").
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from telic.errors import TelicError
from telic.judges.code import judge_files


def hold(checks: dict[str, str], episodes: Sequence[Path], folder: Path) -> dict[str, float]:
    """Return by title the share of episodes in which each check held.

    A check is an expression of `episode` (`telic.judges.episode.RecordedEpisode`) and `np`; it runs
    as judge code does, confined. Raises TelicError when one cannot be evaluated: that is a mistake
    of the suite, and must not pass for a failure of the policy.
    """
    verdicts = judge_files(_source(checks), episodes, folder)
    for each in verdicts:
        if each.score is None:
            raise TelicError(f"The suite's checks cannot be evaluated: {each.reason}")
    return {
        title: sum(each.leaves[index].credit for each in verdicts) / len(verdicts)
        for index, title in enumerate(checks)
    }


def _source(checks: dict[str, str]) -> str:
    lines = "".join(
        f"        score({title!r}, 1.0 if ({code}) else 0.0, zero=0.0, goal=1.0),\n"
        for title, code in checks.items()
    )
    return (
        "import numpy as np\n\nfrom telic import score\n\n\n"
        f"def judge(episode):\n    return [\n{lines}    ]\n"
    )
