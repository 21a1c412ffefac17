"""Deployed policies run without telic and are compared with telic's simulation."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from telic import bench
from telic.envs import make
from telic.errors import BadFile, TelicError, UsageError
from telic.robots.build import build_robot
from telic.robots.record import guessed
from telic.session import sim_to_sim
from telic.session.sim_to_sim import BundlePlay, episodes_of, play_bundle
from telic.storage.trajectories import RECORDED, write_trajectory
from telic.training.export.deployment import Agreement, read_deployment, starts_of
from telic.verbs.artifacts import export
from tests.session.quick import PASSING
from tests.training.export.test_deployment import bundle_of

DOG = Path(bench.__file__).parent / "suites" / "robots" / "dog.xml"
STEPS = 20
SHORT = {"max_episode_steps": STEPS, "terminate_when_unhealthy": True}
JUDGE = """
from telic import leaf

def judge(episode):
    return [
        leaf("lasts", episode.seconds, zero=0.0, goal=0.9, weight=4.0),
        leaf("stands", episode.mean("height"), zero=0.0, goal=0.3),
        leaf("on its feet", episode.mean("feet_in_contact"), zero=0.0, goal=4.0),
        leaf("gentle", episode.mean("effort"), zero=1.0, goal=0.0),
        leaf("upright", episode.mean("uprightness"), zero=0.0, goal=1.0),
    ]
"""


@pytest.fixture(scope="module")
def dog(tmp_path_factory):
    return str(build_robot(guessed(DOG), tmp_path_factory.mktemp("driven"), "dog"))


@pytest.fixture(scope="module")
def played(dog, tmp_path_factory):
    """A bundle, starts, and what it did from them."""
    place = tmp_path_factory.mktemp("played")
    bundle_of(dog, SHORT, place / "deploy")
    starts = starts_of((dog, SHORT), 3, seed=5)
    return place / "deploy", starts, play_bundle(place / "deploy", starts, place)


def test_what_it_did_is_measured_as_the_environment_would(dog, played):
    folder, starts, happened = played
    about = read_deployment((folder / "deploy.json").read_text())
    episodes, one_step = episodes_of(happened, starts, about, (dog, SHORT))
    assert [len(each) for each in episodes] == [STEPS] * 3
    env = make(dog, num_envs=3, seed=5, **SHORT)
    env.reset()
    for step in range(STEPS - 1):
        rows = np.stack([each["action"][step] for each in episodes])
        info = env.step(env.action_low.new_tensor(rows)).info
        for name in (
            "qpos",
            "qvel",
            "xpos",
            "xquat",
            "cvel",
            "subtree_com",
            "cfrc_ext",
            "x_velocity",
        ):
            there = np.stack([each[name][step] for each in episodes])
            size = 100.0 if name == "cfrc_ext" else 1.0  # newtons
            assert np.abs(there - info[name].numpy()).max() < 1e-4 * size, (name, step)
    assert set(RECORDED) & set(env.spec.info_keys) <= set(episodes[0].columns)
    assert one_step < 1e-6


def test_an_episode_ends_where_it_would_have_ended_here(dog, played):
    folder, starts, happened = played
    about = read_deployment((folder / "deploy.json").read_text())
    qpos = happened.qpos.copy()
    qpos[1, 7:, 3:7] = (0.0, 1.0, 0.0, 0.0)  # on its back
    episodes, one_step = episodes_of(happened._replace(qpos=qpos), starts, about, (dog, SHORT))
    assert [len(each) for each in episodes] == [STEPS, 8, STEPS]
    assert episodes[1]["terminated"][-1] and not episodes[0]["terminated"].any()
    assert episodes[0]["truncated"][-1] and not episodes[1]["truncated"].any()
    assert one_step > 0.5  # no physics turns it over in one step


@pytest.mark.parametrize("module", ["telic.envs", "torch"])
def test_a_script_that_needs_telic_fails(played, tmp_path, module):
    folder, starts, _ = played
    fake = shutil.copytree(folder, tmp_path / "deploy")
    (fake / "run.py").write_text(f"import {module}\n")
    with pytest.raises(TelicError, match=f"{module[:5]}.* is not there on a robot"):
        play_bundle(fake, starts, tmp_path)


# ------------------------------------------------------------------------------------ end to end


@pytest.mark.slow
def test_verifying_a_session_scores_what_leaves(asking, dog, home, tmp_path):
    home.setattr(sim_to_sim, "EPISODES", 4)
    script = {**PASSING, "judge_author": {"reasoning": "j", "source": JUDGE}}
    session, _ = asking.run(script, env=dog, seeds=(1,), threshold=0.3)
    made = export(str(session.path), verify=True, out=tmp_path / "out")
    listed = json.loads((tmp_path / "out" / "bundle.json").read_text())
    agreement = Agreement.model_validate(listed["agreement"])
    assert agreement.unjudged == 0 and agreement.deviation < 1e-5
    assert agreement.difference == pytest.approx(0.0, abs=0.05) and agreement.one_step < 1e-4
    assert made["sim-to-sim"] == agreement.words
    card = (tmp_path / "out" / "README.md").read_text()
    assert f"{agreement.there:.3f}" in card and "run.py in plain MuJoCo" in card
    run = session.path / "iter_1" / "train"
    with pytest.raises(UsageError, match="has no judge"):
        export(str(run), verify=True)


def test_a_bundle_that_sees_something_else_is_refused(dog, played, tmp_path):
    folder, starts, happened = played
    about = read_deployment((folder / "deploy.json").read_text())
    episode = episodes_of(happened, starts, about, (dog, SHORT)).episodes[0]
    paths = [tmp_path / "here.npz", tmp_path / "there.npz"]
    write_trajectory(paths[0], episode)
    assert sim_to_sim.first_deviation(paths[:1], paths[:1]) == 0.0
    other = happened._replace(obs=happened.obs + 0.01)
    write_trajectory(paths[1], episodes_of(other, starts, about, (dog, SHORT)).episodes[0])
    with pytest.raises(TelicError, match="first observations"):
        sim_to_sim.first_deviation(paths[:1], paths[1:])


@pytest.mark.parametrize(
    ("name", "damage"),
    list(zip(BundlePlay._fields, ["missing", "shape", "infinite", "objects"] * 2, strict=False)),
)
def test_what_is_damaged_is_refused_by_name(played, tmp_path, name, damage):
    folder, starts, happened = played
    arrays = happened._asdict()
    if damage == "missing":
        del arrays[name]
    elif damage == "shape":
        arrays[name] = arrays[name][:-1]
    elif damage == "infinite":
        arrays[name] = arrays[name] + np.inf
    else:
        arrays[name] = np.array([{"no": "numbers"}], dtype=object)
    np.savez(tmp_path / "forged.npz", **arrays)
    fake = shutil.copytree(folder, tmp_path / "deploy")
    copies = "import shutil, sys\nshutil.copy({!r}, sys.argv[sys.argv.index('--out') + 1])\n"
    (fake / "run.py").write_text(copies.format(str(tmp_path / "forged.npz")))
    with pytest.raises(BadFile, match=name if damage != "objects" else "contains no arrays"):
        play_bundle(fake, starts, tmp_path)
