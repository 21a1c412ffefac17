"""Published methods are values of the switches; faithful mode repeats their differences."""

import pytest

from telic.errors import ConfigError, UnknownName
from telic.search.plan import PUBLISHED, make_plan, switches_of
from telic.search.records import SearchConfig
from telic.search.worlds import find_task

#      proposer, second, sees first, evidence, no change, gate, select, candidates an iteration


def test_faithful_methods_repeat_the_published_accounting():
    faithful = switches_of("r2po", is_faithful=True)
    assert faithful.history_view == "full" and not faithful.keeps_losers
    assert faithful.ties_to_second and not faithful.common_seeds and faithful.confirm == 0
    clips = {m: switches_of(m, is_faithful=True).clip_actions for m in PUBLISHED}
    assert [m for m, each in clips.items() if each] == ["props", "props+", "r2po"]
    assert all(switches_of(m).clip_actions for m in PUBLISHED)
    assert faithful.temperature == 0.0 and switches_of("r2po").temperature is None


def test_terms_are_the_tasks_unless_faithful():
    def published(env, method):
        return make_plan(SearchConfig(env=env, method=method, faithful=True))

    for method in ("props", "r2po"):
        own = make_plan(SearchConfig(env="Maze-v0", method=method))
        assert own.task == find_task("Maze-v0") and own.stated_iterations is None
    assert published("Maze-v0", "props").task.cap == 100
    assert published("Maze-v0", "r2po").task.cap == 20
    assert published("Swimmer-v5", "r2po").task.warmup == 100
    assert published("FrozenLake-v1", "props").stated_iterations == 400
    assert published("FrozenLake-v1", "R2PO").stated_iterations is None
    double = "InvertedDoublePendulum-v5"
    targets = [published(double, m).task.target for m in ("r2po", "threetraj", "props")]
    assert targets == [500, 200, 10_000]


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"method": "r2p"}, "r2p"),
        ({"env": "CartPoll-v1"}, "CartPole-v1"),
        ({"switches": {"evidense": 1}}, "Closest: evidence"),
        ({"switches": {"evidence": "everything"}}, "evidence"),
        ({"switches": {"history_view": "best"}}, "history_view"),
        ({"switches": {"rollouts": 0}}, "rollouts"),
        ({"episodes": 10, "model": "host"}, "too small: one iteration"),
        ({"method": "hybrid", "env": "Maze-v0", "episodes": 30}, "too small: one iteration"),
        ({"method": "cma", "env": "Nim-v0"}, "table of actions"),
        ({"method": "tabular"}, "requires discrete states"),
        ({"method": "cma", "model": "host"}, "does not use a model"),
        ({"policy": "table"}, "no discrete states"),
    ],
)
def test_a_wrong_request_is_refused_in_a_sentence(changes, complaint):
    with pytest.raises((ConfigError, UnknownName), match=complaint):
        make_plan(SearchConfig.parse({"env": "CartPole-v1", **changes}))
