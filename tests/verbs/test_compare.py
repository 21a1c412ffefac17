"""Judging recorded episodes again, and comparing results seed by seed."""

import shutil

import numpy as np
import pytest
from scipy.stats import ttest_rel

from telic.authors.author import MeasurableIntent
from telic.errors import UsageError
from telic.judges.criteria import Composition, Criterion, EpisodePhase
from telic.judges.measured import judge_text
from telic.storage.files import read_json, read_record, write_json
from telic.storage.layout import SessionFolder
from telic.storage.trajectories import read_trajectory, write_trajectory
from telic.verbs.compare import _difference, compare, judge
from tests.session.conftest import asking, home  # noqa: F401
from tests.session.quick import PASSING
from tests.session.sessions import add_iteration, make_session
from tests.web.made import RUN, SESSION, make_run, make_workspace

STRICT = """
from telic import score

def judge(episode):
    return [score("stays for long", float(len(episode["step"])), zero=1e5, goal=1e6)]
"""


def test_recorded_episodes_are_scored_again_by_the_same_and_by_another_judge(asking, tmp_path):  # noqa: F811
    session, _ = asking.run(PASSING)
    where = {"runs_dir": asking.runs_dir}
    pair = compare(session.path.name, session.path.name, **where)
    assert [row["state"] for row in pair.data] == [session.summary.outcome] * 2
    same = judge(session.path.name, **where)
    assert same.recorded and same.flipped == 0 and same.score == same.previous_score == 1.0
    assert same.episodes == session.summary.episodes

    file = tmp_path / "strict.py"
    file.write_text(STRICT)
    strict = judge(session.path.name, judge=file, **where)
    assert (strict.score, strict.passing, strict.previous_score) == (0.0, 0, 1.0)
    assert strict.flipped == strict.episodes and strict.judge != same.judge
    new = judge(session.path.name, judge=file, episodes=3, **where)
    assert (new.recorded, new.episodes, new.flipped) == (False, 3, None)
    assert SessionFolder(session.path).judge.exists()  # the recorded verdict stays

    planted, judged = session.path / "iter_9", read_json(session.path / "iter_1/judgment.json")
    write_json(planted / "judgment.json", {**judged, "number": 9})
    with pytest.raises(UsageError, match=r"does not list iter_9/judgment\.json"):
        compare(session.path.name, session.path.name, **where)
    shutil.rmtree(planted)

    changed = next(session.path.glob(f"iter_1/judged/{same.member}/episode_00.npz"))
    episode = read_trajectory(changed)
    write_trajectory(changed, type(episode)({"step": episode["step"][:5]}, episode.facts))
    assert judge(session.path.name, **where).unknown == 1
    with pytest.raises(UsageError, match=r"judged/.*episode_00\.npz"):
        compare(session.path.name, session.path.name, **where)


def test_what_was_not_measured_alike_is_refused(tmp_path):
    runs_dir = make_workspace(tmp_path) / "runs"
    with pytest.raises(UsageError, match="scored by a judge"):
        compare(SESSION, RUN, runs_dir=runs_dir)
    make_run(runs_dir / "run_2", seeds=[1])
    found = compare(RUN, "run_2", runs_dir=runs_dir)
    assert [row["artifact"] for row in found.data] == [RUN, "run_2"]


def longer(folder):
    change(folder.iteration(1).candidate, env_args={"max_episode_steps": 900})


def another_measure(folder):
    """The quantity is only a description; the measure is what is evaluated."""
    first, *others = read_json(folder.asked)["criteria"]
    change(folder.asked, criteria=[{**first, "measure": "mean(speed)"}, *others])


def another_phase(folder):
    first, *others = read_json(folder.asked)["criteria"]
    change(folder.asked, criteria=[{**first, "phase": 2}, *others])


def another_end_of_a_phase(folder):
    first = Criterion(title="goes", quantity="x", measure="speed", zero=0.0, goal=1.0)
    folder.judge.write_text(judge_text("", "", [first], [EpisodePhase(until="speed > 9")]))


def other_code(folder):
    folder.judge.write_text(f"{folder.judge.read_text()}\n\nAGAIN = 1\n")


def change(path, **changes):
    write_json(path, {**read_json(path), **changes})


@pytest.mark.parametrize(
    "differ", [longer, another_measure, another_phase, another_end_of_a_phase, other_code]
)
def test_scores_under_other_conditions_or_rules_are_not_compared(tmp_path, differ):
    """The authors of two sessions may choose anything, and call it the same."""
    folders = [make_session(tmp_path, f"session_{name}") for name in "ab"]
    for folder in folders:
        add_iteration(folder, 1)
        criteria = read_record(folder.author, Composition).criteria
        write_json(folder.asked, MeasurableIntent(criteria=criteria))
    assert len(compare("session_a", "session_b", runs_dir=tmp_path).data) == 2
    differ(folders[1])
    with pytest.raises(UsageError, match=r"environments differ|criteria differ"):
        compare("session_a", "session_b", runs_dir=tmp_path)


def test_results_of_equal_seeds_are_compared_pair_by_pair():
    first = {"own seed 1": 10.0, "own seed 2": 20.0, "own seed 3": 40.0, "own seed 4": 70.0}
    more = {"new seed 4": 73.0, "new seed 1": 11.0, "new seed 2": 22.5, "new seed 3": 42.0}
    found = _difference(more, first, 1, "It")
    test = ttest_rel([11.0, 22.5, 42.0, 73.0], [10.0, 20.0, 40.0, 70.0])
    assert np.isclose(found.low, test.confidence_interval().low) and found.low > 0
    assert "paired over 4 training seeds" in found.words
    others = {f"new seed {number + 10}": value for number, value in enumerate(more.values())}
    unpaired = _difference(others, first, 1, "It")
    assert unpaired.low < 0 < unpaired.high and "unpaired" in unpaired.words
