"""A robot that is moved by tokens: what a policy chooses from, what the decoder makes of it."""

from xml.etree import ElementTree

import numpy as np
import pytest
import torch

from telic.composer.compose import compose
from telic.envs import make
from telic.envs.access import model_files
from telic.envs.tokens import DecoderFacts, write_decoder
from telic.errors import BadFile
from telic.robots import OWN, PLANAR_BIPED
from telic.sim.files import TOKENS

LEVELS, WIDTH, JOINTS = 5, 2, 6
REST = np.array([-0.2, 0.4, -0.2, -0.2, 0.4, -0.2])
REACH = 0.5


def token_robot(folder, senses=("gravity", "last_action"), history=1, **changes):
    """Write a decoder of one layer: joint 0 follows token 0, joint 1 the first sense."""
    width = history * sum({"gravity": 3, "last_action": JOINTS}[name] for name in senses)
    weight = np.zeros((WIDTH + width, JOINTS))
    weight[0, 0], weight[WIDTH, 1] = 1.0, 1.0
    facts = DecoderFacts(
        source="by hand",
        control_s=0.02,
        levels=LEVELS,
        senses=senses,
        history=history,
        qpos=tuple(range(3, 9)),
        dofs=tuple(range(3, 9)),
        layers=1,
    )
    values = {
        "low": -np.ones(WIDTH),
        "high": np.ones(WIDTH),
        "rest": REST,
        "base": REST,
        "reach": np.full(JOINTS, REACH),
        "shift": np.zeros(width),
        "scale": np.ones(width),
        "weight_0": weight,
        "bias_0": np.zeros(JOINTS),
    }
    folder.mkdir(exist_ok=True)
    write_decoder(folder / "tokens.npz", facts, {**values, **changes})
    root = ElementTree.parse(OWN[PLANAR_BIPED]).getroot()
    custom = ElementTree.SubElement(root, "custom")
    ElementTree.SubElement(custom, "text", {"name": TOKENS, "data": "tokens.npz"})
    (folder / "robot.xml").write_text(ElementTree.tostring(root, encoding="unicode"))
    return str(folder / "robot.xml")


def controls(env) -> torch.Tensor:
    return env.sim.field("ctrl").clone()


def test_tokens_are_rounded_and_decoded_into_targets_of_joints(tmp_path):
    env = make(token_robot(tmp_path), num_envs=3)
    assert env.spec.action_names == ("token 0", "token 1") and env.act_dim == WIDTH
    env.reset()
    env.step(torch.tensor([[0.0, 0.0], [0.6, 0.0], [-0.2, 0.0]]))
    # Five levels are -1, -0.5, 0, 0.5, 1; who stands upright senses no gravity ahead.
    aimed = REST[0] + REACH * np.array([0.0, 0.5, 0.0])
    assert controls(env)[:, 0].numpy() == pytest.approx(aimed, abs=1e-6)
    env.close()


def test_sessions_can_be_held_on_it_and_workers_may_read_its_decoder(tmp_path):
    robot = token_robot(tmp_path)
    env = make(robot, num_envs=1)
    made = compose("walk forward", env.spec)
    assert any("m/s forward" in each.title for each in made.criteria)
    env.close()
    assert (tmp_path / "tokens.npz").resolve() in model_files(tmp_path / "robot.xml")


def test_a_decoder_that_does_not_fit_is_refused(tmp_path):
    with pytest.raises(BadFile, match="robot has 6"):
        make(token_robot(tmp_path, base=np.zeros(3)), num_envs=1)
    (tmp_path / "tokens.npz").write_bytes(b"nonsense")
    with pytest.raises(BadFile, match="not a token decoder"):
        make(str(tmp_path / "robot.xml"), num_envs=1)
