import warnings
from pathlib import Path

import mujoco
import numpy as np
import pytest
import torch

from telic import quantities as q
from telic.composer.compose import compose
from telic.envs import make
from telic.envs.models import read_model
from telic.errors import BadEnvironment, Refused
from telic.judges.validation import try_here
from telic.rendering._camera import place_cameras
from telic.rendering.look import load_dressed
from telic.robots.structure import missing_floor
from telic.verbs.envs import robots
from tests.envs.generated import RandomRobot

QUADRUPED = Path(__file__).parent / "robots" / "quadruped.xml"
ARM = """<mujoco><option timestep="0.005"/><worldbody><body pos="0 0 1">
  <joint name="j" axis="0 1 0" {joint}/><geom type="capsule" fromto="0 0 0 0.5 0 0" size="0.02"/>
</body></worldbody><actuator>{actuator}</actuator></mujoco>"""


def written(folder: Path, text: str, name: str = "robot.xml") -> str:
    (folder / name).write_text(text, encoding="utf-8")
    return str(folder / name)


@pytest.mark.parametrize(
    ("actuator", "joint", "expected"),
    [
        ('<motor joint="j" forcerange="-7 7"/>', "", (-7.0, 7.0)),
        ('<motor joint="j"/>', 'actuatorfrcrange="-9 9"', (-9.0, 9.0)),
        ('<motor joint="j" gear="30"/>', "", (-1.0, 1.0)),
        ('<position joint="j" kp="5"/>', 'range="-30 60"', (-np.pi / 4, np.pi / 4)),
        ('<position joint="j" kp="5"/>', "", (-np.pi / 2, np.pi / 2)),
        ('<motor joint="j" ctrlrange="-35 35"/>', "", (-35.0, 35.0)),
    ],
)
def test_actions_have_the_range_that_the_model_means(tmp_path, actuator, joint, expected):
    env = make(written(tmp_path, ARM.format(actuator=actuator, joint=joint)), num_envs=1)
    low, high = env.action_low.item(), env.action_high.item()
    assert (low, high) == pytest.approx(expected)


def undriven(folder: Path) -> str:
    text = QUADRUPED.read_text()
    start, end = text.index("<actuator>"), text.index("</actuator>") + len("</actuator>")
    return written(folder, text[:start] + text[end:])


def test_a_robot_without_actuators_is_refused_with_a_way_to_add_them(tmp_path):
    path = undriven(tmp_path)
    with pytest.raises(BadEnvironment, match=r"no actuators.*telic robots .*--describe"):
        make(path, num_envs=1)
    described = tmp_path / "described.toml"
    described.write_text(robots(path, describe=True).toml)
    env = make(described, num_envs=4)
    env.reset()
    middle = ((env.action_low + env.action_high) / 2.0).expand(4, -1)
    for _ in range(100):
        info = env.step(middle).info
    assert (q.uprightness(info) > 0.9).all()
    assert (q.height(info) > 0.5 * env.robot.rest_height).all()


def test_a_robot_without_a_floor_gets_one_and_the_picture_shows_it(tmp_path):
    text = QUADRUPED.read_text()
    bare = "\n".join(line for line in text.splitlines() if 'type="plane"' not in line)
    path = written(tmp_path, bare)
    assert missing_floor(mujoco.MjModel.from_xml_string(text)) is None
    env = make(path, num_envs=1)
    assert any("no floor" in note for note in env.spec.notes)
    env.reset()
    for _ in range(100):
        info = env.step(torch.zeros(1, env.act_dim)).info
    assert q.height(info).item() > 0.0
    floor = env.model.geom("telic_ground").pos[2]
    shown = load_dressed(Path(path))
    planes = np.flatnonzero(shown.geom_type == mujoco.mjtGeom.mjGEOM_PLANE)
    assert shown.geom_pos[planes, 2].tolist() == pytest.approx([floor])


@pytest.mark.parametrize(
    "seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 60))]
)
def test_unseen_robot_works_end_to_end_or_is_refused_with_a_reason(tmp_path, seed):
    path = written(tmp_path, RandomRobot(seed).text())
    try:
        model, notes = read_model(path)
    except BadEnvironment as refused:
        assert len(str(refused)) > 40
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        env = make(path, num_envs=3)
    assert (env.action_low < env.action_high).all() and torch.isfinite(env.action_high).all()
    obs = env.reset()
    for _ in range(4):
        step = env.step((env.action_low + env.action_high).expand(3, -1) / 2.0)
    assert obs.shape == (3, env.spec.obs_dim) and len(step.info["qpos"]) == 3
    for intent in ("move forward", "stand still", "jump"):
        try:
            composed = compose(intent, env.spec)
        except (Refused, BadEnvironment) as refused:
            assert "can" in str(refused)
            continue
        brief = {**composed.env_args, "max_episode_steps": 8}
        tried = try_here(path, composed.model_copy(update={"env_args": brief})).examples
        assert tried and all(example.score is not None for example in tried)
        break
    poses = np.asarray(step.info["qpos"], dtype=float)
    cameras = place_cameras(load_dressed(Path(path)), poses, 0.1)
    assert all(np.isfinite(camera.distance_m) for camera in cameras)
    assert model.nu == env.act_dim and isinstance(notes, list)
    env.close()


def test_a_robot_driven_by_positions_holds_its_keyframe_by_doing_nothing(tmp_path):
    arm = ARM.format(actuator='<position joint="j" kp="90" kv="9" ctrlrange="-2 2"/>', joint="")
    arm = arm.replace("</mujoco>", '<keyframe><key qpos="-1.0"/></keyframe></mujoco>')
    env = make(written(tmp_path, arm), num_envs=1, reset_noise_scale=0.0)
    env.reset()
    middle = (env.action_low + env.action_high) / 2.0
    assert middle.tolist() == pytest.approx([-1.0])
    for _ in range(50):
        info = env.step(middle[None]).info
    assert info["qpos"].item() == pytest.approx(-1.0, abs=0.15)
    assert q.effort(info).item() == pytest.approx(0.0)


def test_a_usd_file_is_refused_in_words(tmp_path):
    (tmp_path / "robot.usd").touch()
    with pytest.raises(BadEnvironment, match="USD is not supported"):
        make(str(tmp_path / "robot.usd"))
