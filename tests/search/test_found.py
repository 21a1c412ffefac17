"""Found policies are exported and played as the search evaluated them."""

import json
from pathlib import Path

import numpy as np
import pytest

import telic
from telic.errors import UsageError
from telic.search.found import store_found
from telic.search.runner import load_search
from telic.storage.files import read_json, write_json
from telic.training.export.run_policy import load_numpy, load_onnx
from telic.verbs.artifacts import export, play_artifact

_ARM = "InvertedPendulum-v5"


@pytest.mark.parametrize(
    ("env", "policy"),
    [
        ("CartPole-v1", "linear"),
        ("FrozenLake-v1", "table"),
        (_ARM, "projected-mlp"),
        (_ARM, "random-features"),
    ],
)
def test_an_exported_policy_acts_as_the_found_one(env, policy, tmp_path):
    search = telic.search(
        env, method="random", policy=policy, episodes=200, fresh_episodes=2, runs_dir=tmp_path
    )
    made = export(search.path.name, runs_dir=tmp_path)
    found, run = load_search(tmp_path, search.path.name), search.best
    family, rng = found.plan.of_run(run.run).policy, np.random.default_rng(0)
    weights = family.weights(np.array([run.best]).repeat(200, axis=0))
    if policy == "table":
        states = np.arange(200) % 16
        expected, obs = family.act(weights, states), np.eye(16, dtype=np.float32)[states]
    else:
        spread = np.array([each.half_range for each in found.plan.task.observations])
        obs = (2.0 * spread * rng.normal(size=(200, len(spread)))).astype(np.float32)
        expected = family.act(weights, obs)
    if env == _ARM:
        expected = expected.clip(-3.0, 3.0)
    for load, name in ((load_onnx, "policy.onnx"), (load_numpy, "policy.npz")):
        actions = load(search.path / "export" / name)(obs)
        assert np.abs(actions - expected).max() <= 1e-5 * 3.0, name
    assert json.loads((search.path / "export" / "bundle.json").read_text())["step"] == run.steps
    assert made["return"] is not None


def test_a_found_policy_is_played(tmp_path):
    search = telic.search(
        _ARM, method="random", episodes=200, fresh_episodes=2, runs_dir=tmp_path, first_run=2
    )
    made = play_artifact(search.path.name, member="default_seed_2", size="64x48", runs_dir=tmp_path)
    assert made["member"] == "default_seed_2" and "_median" in made["trajectory"]
    assert Path(made["video"]).stat().st_size > 0


def test_a_policy_and_its_return_are_not_taken_from_the_folder_of_another_user(tmp_path):
    made = telic.search(
        "CartPole-v1", method="random", episodes=200, fresh_episodes=2, runs_dir=tmp_path
    )
    for is_own in (True, False):
        run, member = store_found(load_search(tmp_path, made.path.name), None)
        summary = run.path / member / "summary.json"
        forged = {**read_json(summary), "best": {**read_json(summary)["best"], "mean_return": 1e9}}
        write_json(summary, forged)
        store_found(load_search(tmp_path, made.path.name), None)
        assert (read_json(summary)["best"]["mean_return"] == 1e9) == is_own
        (made.path / "begun.json").unlink(missing_ok=True)


@pytest.mark.parametrize(
    ("env", "switches", "words"),
    [
        ("Nim-v0", {}, "only simulated by telic search"),
        (_ARM, {"clip_actions": False}, "do not clip"),
    ],
)
def test_a_policy_that_runs_nowhere_else_is_refused(env, switches, words, tmp_path):
    given = {"method": "random", "episodes": 200, "fresh_episodes": 2, "runs_dir": tmp_path}
    search = telic.search(env, switches=switches, **given)
    with pytest.raises(UsageError, match=words):
        store_found(load_search(tmp_path, search.path.name), None)
