"""Mirror augmentation: derived from the robot, proven in simulation, refused where it is wrong."""

import mujoco
import pytest
import torch

from telic.envs import make
from telic.errors import BadEnvironment, ConfigError
from telic.motions.robot import motion_robot
from telic.rewards.probe import probe
from telic.rewards.reward import load_reward
from telic.training.loop import collecting
from telic.training.mirror import STATES, find_mirror, mirrored_state
from telic.training.ppo import make_samples
from telic.training.rollout import Group, Scoring
from telic.training.setup import build_setup, load_rewards, make_env
from tests.training.small import SPEED, small_job

SIDEWAYS = SPEED.replace("x_velocity", "y_velocity")


def found(env_id: str, source: str | None = None, **arguments):
    env, small = (make(env_id, num_envs=n, seed=0, **arguments) for n in (2 * STATES, 8))
    reward = load_reward(source)
    probe(reward, small)
    return env, find_mirror(env, Scoring(env, [Group(reward, 0, 1)]))


@pytest.mark.parametrize("env_id", ["Walker2d-v5", "Humanoid-v5"])
def test_mirrored_twice_is_the_same_and_mujoco_moves_in_the_mirror_as_it_does_outside(env_id):
    env, mirror = found(env_id)
    for order in mirror:
        assert torch.equal(order.index[order.index], torch.arange(len(order.index)))
        assert torch.equal(order.sign[order.index], order.sign)
    rows = torch.randn(7, env.obs_dim)
    seen = mirror.inputs.sign != 0
    assert torch.equal(mirror.inputs.apply(mirror.inputs.apply(rows))[:, seen], rows[:, seen])
    # In plain MuJoCo: mirrored state and mirrored action lead to the mirrored next state.
    model, random = env.model, torch.Generator().manual_seed(5)
    qpos, qvel = mirrored_state(model, env.robot, env_id)
    data, twin = mujoco.MjData(model), mujoco.MjData(model)
    for _ in range(10):
        place = torch.tensor(env.robot.rest_qpos).double()
        place = place + 0.3 * torch.randn(model.nq, generator=random).double()
        speed = torch.randn(model.nv, generator=random).double()
        push = 0.3 * torch.randn(model.nu, generator=random).double()
        for one, own, fast, force in (
            (data, place, speed, push),
            (twin, qpos.apply(place), qvel.apply(speed), mirror.actions.apply(push)),
        ):
            one.qpos[:], one.qvel[:], one.ctrl[:] = own, fast, force
            mujoco.mj_normalizeQuat(model, one.qpos)
            if env.robot.root.quaternion is not None:
                one.qpos[2] += 1.0  # in the air: contacts are solved to a tolerance
            mujoco.mj_step(model, one, 3)
        after = qpos.apply(torch.tensor(data.qpos))
        torch.testing.assert_close(torch.tensor(twin.qpos), after, atol=2e-4, rtol=1e-2)


@pytest.mark.parametrize(
    ("env_id", "source", "why"),
    [
        ("HalfCheetah-v5", None, "a left and a right side"),
        ("Hopper-v5", None, "a left and a right side"),
        ("Reacher-v5", None, "outside the robot"),
        ("Ant-v5", SIDEWAYS, r"reward differs between left and right \(speed\)"),
    ],
)
def test_what_has_no_mirror_image_is_refused_with_the_reason(env_id, source, why):
    with pytest.raises(BadEnvironment, match=why):
        found(env_id, source)


def test_a_robot_whose_sides_differ_only_in_mass_is_refused(tmp_path):
    text = motion_robot("planar-biped").file.read_text()
    model = motion_robot("planar-biped").model
    name = model.body(int(model.jnt_bodyid[model.joint("left_knee").id])).name
    spec = mujoco.MjSpec.from_string(text)
    spec.body(name).geoms[0].mass = 20.0
    path = tmp_path / "lame.xml"
    path.write_text(spec.to_xml())
    with pytest.raises(BadEnvironment, match=r"is not symmetric|no mirror image"):
        found(str(path))


def test_samples_are_doubled_in_the_mirror_and_training_makes_policies_symmetric():
    def symmetry_error(mirror: bool) -> float:
        job = small_job("Walker2d-v5", steps=2048, settings={"mirror": mirror, "overlap": False})
        rewards = load_rewards(job)
        probe(rewards[0], make_env(job, 8, [0]))
        setup = build_setup(job, rewards, make_env(job, job.settings.num_envs, [1]))
        setup.collector.start(stagger=False)
        population = setup.population
        for iteration in range(8):
            batch = collecting(setup, iteration)()
            setup.learner.learn(batch, iteration)
        count = batch.rewards.numel()
        samples, _ = make_samples(population, batch)
        assert samples.inputs.shape[1] == count * (2 if mirror else 1)
        if mirror:
            assert torch.equal(samples.returns[:, :count], samples.returns[:, count:])
        _, both = found("Walker2d-v5", max_episode_steps=40)
        raw = batch.inputs[:, 0].flatten(0, 1)
        actor = population.actor()

        def act(rows):
            return population.networks.act(actor.views, actor.scaling.apply(rows[None]))[0]

        off = act(both.inputs.apply(raw)) - both.actions.apply(act(raw))
        return float(off.abs().mean() / act(raw).abs().mean())

    assert symmetry_error(True) < 0.5 * symmetry_error(False)


def test_other_learners_refuse_the_switch():
    with pytest.raises(ConfigError, match="mirror=true is only supported by PPO"):
        small_job("Walker2d-v5", learner="reppo", settings={"mirror": True, "minibatch_size": 64})
