"""A policy that leaves for a robot: what is written, and that it does what it did here."""

import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import mujoco
import numpy as np
import pytest

from telic import bench
from telic.envs import make
from telic.errors import BadFile, UsageError
from telic.robots.build import build_robot
from telic.robots.record import guessed
from telic.storage.keys import signed_list, user_key
from telic.training.export.bundle import export_run
from telic.training.export.deployment import (
    nominal,
    read_deployment,
    write_deployment,
)
from telic.training.folder import environment_of
from telic.training.policy import Policy, load_policy
from tests.training.export.conftest import make_policy
from tests.training.small import small_job, train_here

DOG = Path(bench.__file__).parent / "suites" / "robots" / "dog.xml"
STEPS = 50
SHORT = {"max_episode_steps": STEPS}
CASES = {
    "plain": SHORT,
    "everything": {
        **SHORT,
        "history": 3,
        "sees_velocity": True,
        "commands": {"every_s": 0.3},
        "variation": "full",
    },
    "phase": {**SHORT, "reset_noise_scale": 0.05, "history": 2, "phase_hz": 2.3},
}
ALONE = """
import runpy, sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("telic", "torch", "gymnasium", "pydantic"):
            raise ImportError(f"{name} is not there")
sys.meta_path.insert(0, Refuse())
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.fixture(scope="module")
def dog(tmp_path_factory):
    return str(build_robot(guessed(DOG), tmp_path_factory.mktemp("driven"), "dog"))


def policy_of(env):
    """A policy with random weights that stays near the pose it stands in."""
    policy = make_policy(env.obs_dim, env.act_dim)
    policy.facts |= {"obs_names": list(env.spec.obs_names)}
    policy.facts |= {"action_names": list(env.spec.action_names)}
    policy.low, policy.high = env.action_low, env.action_high
    policy.flat *= 0.15  # a violent one makes chaos of the last digit
    return policy


def bundle_of(dog, arguments, folder):
    env = make(dog, num_envs=1, **arguments)
    policy = policy_of(env)
    write_deployment(policy, (dog, arguments), folder)
    return policy


def play_alone(folder, out):
    """Run the bundle's own script where neither telic nor torch can be imported."""
    command = [sys.executable, "-I", "-c", ALONE, str(folder / "run.py"), "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=out.parent, check=False)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"4 episodes; 1 s, \[[\d. ]+\] m high\n", done.stdout)
    return dict(np.load(out))


def play_here(dog, arguments, policy):
    env = make(dog, num_envs=4, seed=0, **nominal(arguments))
    obs, rows = env.reset(), []
    for _ in range(STEPS):
        step = env.step(action := policy(obs))
        state = {name: step.info[name].numpy() for name in ("qpos", "qvel")}
        rows.append({"obs": obs.numpy(), "ctrl": action.numpy(), **state})
        obs = step.obs
    return {name: np.stack([row[name] for row in rows], 1) for name in rows[0]}


@pytest.mark.parametrize("case", CASES)
def test_what_it_sees_and_does_alone_is_what_it_sees_and_does_here(dog, case, tmp_path):
    arguments = CASES[case]
    policy = bundle_of(dog, arguments, tmp_path / "deploy")
    there = play_alone(tmp_path / "deploy", tmp_path / "happened.npz")
    here = play_here(dog, arguments, policy)
    about = json.loads((tmp_path / "deploy" / "deploy.json").read_text())
    limits = [about["joints"][name] for name in ("target_low", "target_high")]
    here["ctrl"] = here["ctrl"].clip(*limits)
    for name, values in here.items():
        assert np.abs(there[name] - values).max() < 1e-5, name
    moved = np.abs(there["qpos"][:, -1] - there["qpos"][:, 0]).max()
    assert moved > 0.01  # it did something


@pytest.fixture(scope="module")
def deployed(dog, tmp_path_factory):
    folder = tmp_path_factory.mktemp("deployed") / "deploy"
    bundle_of(dog, SHORT, folder)
    return folder


def test_joints_gains_and_blocks_are_listed_in_the_order_of_the_action(dog, deployed):
    about = read_deployment((deployed / "deploy.json").read_text())
    env = make(dog, num_envs=1)
    assert about.joints.names == env.spec.action_names
    assert (about.control_hz, about.physics_step_s, about.physics_steps) == (50.0, 0.005, 4)
    columns = [name for block in about.observation for name in block.columns]
    assert tuple(columns) == env.spec.obs_names and about.columns == env.obs_dim
    assert [block.first for block in about.observation] == [0, 3, 6, 18, 30]
    model = env.model
    for place, name in enumerate(about.joints.names):
        joint = model.joint(model.actuator(name).trnid[0])
        assert joint.qposadr[0] == about.joints.qpos[place]
        assert about.joints.rest[place] == pytest.approx(env.task.qpos0[joint.qposadr[0]].item())
        assert about.joints.effort[place] == model.actuator(name).forcerange[1]


def keys(value, path=()):
    if isinstance(value, dict):
        for name, each in value.items():
            yield (*path, name)
            yield from keys(each, (*path, name))


def test_a_damaged_description_is_refused_by_the_name_of_what_is_wrong(deployed):
    text = (deployed / "deploy.json").read_text()
    whole = json.loads(text)
    optional = {"schema_version", "policy_output", "names", "shown"}
    for path in keys(whole):
        if path[-1] in optional or (path[:1] == ("policy_inputs",) and len(path) > 1):
            continue
        for damage in ("left out", "no number"):
            damaged = json.loads(text)
            place = damaged
            for name in path[:-1]:
                place = place[name]
            if damage == "left out":
                del place[path[-1]]
            else:
                place[path[-1]] = {"wrong": "no"}
            with pytest.raises(BadFile, match=path[-1]):
                read_deployment(json.dumps(damaged))
    for name in whole["joints"]:
        damaged = json.loads(text)
        damaged["joints"][name] = damaged["joints"][name][:-1]
        with pytest.raises(BadFile, match="joints"):
            read_deployment(json.dumps(damaged))
    for cut in ("", "{", text[: len(text) // 2]):
        with pytest.raises(BadFile, match=r"deploy\.json"):
            read_deployment(cut)


# ------------------------------------------------------------------------------- telic export


@pytest.fixture(scope="module")
def exported(dog, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    job = small_job(dog, steps=256, env_args=SHORT, evaluations=1, eval_episodes=1)
    run = train_here(job, folder)
    return run, export_run(run, out=folder / "export")


def test_the_archive_holds_the_folder(exported, tmp_path):
    _, made = exported
    out = Path(made["folder"])
    listed = json.loads((out / "bundle.json").read_text())["files"]
    own = {name.removeprefix("deploy/") for name in listed if name.startswith("deploy/")}
    assert {"run.py", "deploy.json", "policy.onnx", "scene.xml", "LICENSE.txt"} < own
    with zipfile.ZipFile(out / "deploy.zip") as archive:
        assert {name.removeprefix("dog/") for name in archive.namelist()} == own
        for name in archive.namelist():
            assert archive.read(name) == (out / "deploy" / name.removeprefix("dog/")).read_bytes()
    assert "On the robot" in (out / "README.md").read_text()
    assert made["deployment"] == "deploy/ and deploy.zip"


def test_exporting_again_replaces_what_is_there(exported):
    run, made = exported
    out = Path(made["folder"])
    listed, _ = signed_list(out / "bundle.json")
    (out / "deploy" / "assets" / "stale.obj").write_text("v 0 0 0")
    listed["files"]["deploy/assets/stale.obj"] = {"sha256": "", "bytes": 0}
    listed["files"]["../outside"] = {"sha256": "", "bytes": 0}
    (out.parent / "outside").write_text("mine")
    signature = user_key().sign(json.dumps(listed, sort_keys=True).encode())
    (out / "bundle.json").write_text(json.dumps({**listed, "signature": signature}))
    export_run(run, out=out)
    assert not (out / "deploy" / "assets" / "stale.obj").exists()
    assert (out / "deploy" / "run.py").exists() and (out.parent / "outside").exists()


def test_a_policy_that_needs_its_reward_is_exported_without_deployment(
    exported, tmp_path, monkeypatch
):
    run, _ = exported
    monkeypatch.setattr(Policy, "memory_size", 2)
    with pytest.raises(UsageError, match="which is not available on a robot"):
        write_deployment(load_policy(run.path), environment_of(run), tmp_path / "deploy")


def test_a_scene_that_differs_from_what_was_simulated_is_refused(dog, tmp_path, monkeypatch):
    from telic.errors import TelicError
    from telic.robots.scene import write_scene

    other = mujoco.MjModel.from_xml_path(dog)
    other.body_mass[2] *= 1.01
    (tmp_path / "assets").mkdir()
    with pytest.raises(TelicError, match="body_mass"):
        write_scene(Path(dog), other, tmp_path)
