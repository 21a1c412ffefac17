"""Driven robots: observations, commands, and randomized episodes."""

from pathlib import Path

import mujoco
import numpy as np
import pytest
import torch

from telic import bench, quantities
from telic.envs import make
from telic.envs.domain_randomization import RANDOMIZATIONS
from telic.envs.driven import Commander, VelocityCommands
from telic.errors import ConfigError
from telic.robots.build import build_robot
from telic.robots.record import guessed
from telic.robots.terrain import (
    COLUMNS,
    FIELD_M,
    ROWS,
    STAIRS_M,
    TERRAINS,
    Ground,
    ground_in,
    on_fresh_ground,
    standing_m,
    steps_of,
    terrain,
)
from telic.sim.simulation import simulate

DOG = Path(bench.__file__).parent / "suites" / "robots" / "dog.xml"


@pytest.fixture(scope="module")
def dog(tmp_path_factory):
    return str(build_robot(guessed(DOG), tmp_path_factory.mktemp("driven"), "dog"))


def actions(env, seed=0, size=0.3):
    noise = torch.randn(env.num_envs, env.act_dim, generator=torch.Generator().manual_seed(seed))
    middle, half = (env.action_high + env.action_low) / 2, (env.action_high - env.action_low) / 2
    return middle + size * half * noise


def test_it_sees_only_what_it_can_measure(dog):
    env = make(dog, num_envs=3, seed=1)
    names = env.spec.obs_names
    assert names[:6] == ("gyro_x", "gyro_y", "gyro_z", "gravity_x", "gravity_y", "gravity_z")
    assert len(names) == 6 + 3 * env.act_dim == env.obs_dim
    obs = env.reset()
    assert torch.allclose(obs[:, 3:6], torch.tensor([0.0, 0.0, -1.0]), atol=0.05)
    assert obs[:, -env.act_dim :].eq(0).all()  # nothing was asked yet
    action = actions(env)
    seen = env.step(action).obs[:, -env.act_dim :]
    middle, half = (env.action_high + env.action_low) / 2, (env.action_high - env.action_low) / 2
    assert torch.allclose(seen, (action - middle) / half, atol=1e-5)


# ------------------------------------------------------------------------------------- variation


def test_a_varied_simulation_moves_as_a_single_model_with_these_values(dog):
    env = make(dog, num_envs=4, seed=2, variation="full")
    env.reset()
    sim = env.sim
    names = ("geom_friction", "body_mass", "body_inertia", "body_subtreemass", "body_ipos")
    names += ("actuator_gainprm", "actuator_biasprm", "actuator_forcerange")
    control = actions(env).double()
    for row in range(4):
        model = mujoco.MjModel.from_xml_path(dog)
        for name in names:
            getattr(model, name)[:] = (
                sim.vary(name)[row].numpy().reshape(getattr(model, name).shape)
            )
        data = mujoco.MjData(model)
        data.qpos[:], data.qvel[:] = sim.field("qpos")[row], sim.field("qvel")[row]
        data.ctrl[:] = control[row]
        mujoco.mj_forward(model, data)
        for _ in range(4):
            mujoco.mj_step(model, data)
        if row == 0:
            first = data.qpos.copy()
    sim.step(control, 4)
    assert np.allclose(sim.field("qpos")[3], data.qpos, atol=1e-9)
    assert np.allclose(sim.field("qpos")[0], first, atol=1e-9)
    assert not np.allclose(first[7:], data.qpos[7:], atol=1e-6)


def test_every_episode_has_a_world_of_its_own_within_the_spread(dog):
    env = make(dog, num_envs=64, seed=2, max_episode_steps=3, variation="full")
    env.reset()
    spread, model = RANDOMIZATIONS["full"], env.model
    seen = []
    for _ in range(2):
        sliding = env.sim.vary("geom_friction")[:, :, 0] / torch.tensor(model.geom_friction[:, 0])
        assert torch.allclose(sliding, sliding[:, :1])  # all geoms alike
        mass = env.sim.vary("body_mass") / torch.tensor(model.body_mass).clamp_min(1e-9)
        for value, span in ((sliding[:, 0], spread.friction), (mass[:, 1], spread.base_mass)):
            assert span[0] <= float(value.min()) < float(value.max()) <= span[1]
            assert float(value.max() - value.min()) > 0.7 * (span[1] - span[0])
        assert torch.allclose(mass[:, 2:], torch.ones_like(mass[:, 2:]))
        total = env.sim.vary("body_mass").sum(1)
        assert torch.allclose(env.sim.vary("body_subtreemass")[:, 0], total)
        gains = env.sim.vary("actuator_gainprm")[:, :, 0]
        assert torch.allclose(gains, -env.sim.vary("actuator_biasprm")[:, :, 1])
        seen.append(sliding[:, 0].clone())
        for k in range(3):
            env.step(actions(env, k))
    assert (seen[0] != seen[1]).all()


def test_noise_is_on_sensors_only_and_bounded(dog):
    plain = make(dog, num_envs=32, seed=2, commands={})
    noisy = make(dog, num_envs=32, seed=2, commands={}, variation="full")
    off = noisy.reset() - plain.reset()
    count = plain.act_dim
    parts = (slice(0, 3), slice(3, 6), slice(9 + count, 9 + 2 * count))
    for part, most in zip(parts, (0.2, 0.05, 1.5), strict=True):
        assert 0.5 * most < float(off[:, part].abs().max()) <= most
    assert off[:, 9 : 9 + count].abs().max() <= 0.01 + 0.02 + 1e-6  # and the encoders' zeros
    assert off[:, 9 + 2 * count :].eq(0).all()


def test_late_actions_are_carried_out_one_step_later(dog):
    env = make(dog, num_envs=64, seed=2, variation="full")
    env.reset()
    late = env.task.memory["drawn"][:, 1] < RANDOMIZATIONS["full"].late
    assert 10 < int(late.sum()) < 54
    first, second = actions(env, 1), actions(env, 2)
    for k, action in enumerate((first, second)):
        env.step(action)
        offset = action - env.sim.field("ctrl")
        on_time = offset[~late].abs().max()
        assert on_time <= RANDOMIZATIONS["full"].encoder_rad + 1e-5
        then = env.action_rest if k == 0 else first
        assert (then - env.sim.field("ctrl"))[late].abs().max() <= 0.02 + 1e-5


def test_pushes_come_and_change_the_way(dog):
    env = make(dog, num_envs=16, seed=2, variation="full", max_episode_steps=1000)
    env.reset()
    jumps = []
    for _ in range(120):
        before = env.sim.field("qvel")[:, :2].clone()
        env.task.control(env.action_rest.expand(16, -1))
        jumps.append(float((env.sim.field("qvel")[:, :2] - before).norm(dim=1).max()))
        env.sim.field("qvel")[:, :2] = before
        env.step(env.action_rest.expand(16, -1))
    pushed = [k for k, jump in enumerate(jumps) if jump > 0.0]
    assert pushed == [100]  # half of four seconds at 50 Hz
    assert 0.3 < jumps[100] < 1.0


# --------------------------------------------------------------------------------------- commands


def reported(commander, draws, time, yaw=0.0):
    rows = len(draws)
    return commander.at(draws, torch.full((rows,), float(time)), torch.full((rows,), float(yaw)))


def test_commands_stay_within_their_ranges_change_on_time_and_sometimes_stand():
    commands = VelocityCommands(forward=(0.2, 1.0), sideways=(0, 0), turn=(-0.5, 0.5), every_s=2.0)
    commander = Commander(commands, 10.0, torch.zeros(1, dtype=torch.float64))
    assert commander.count == 5
    draws = torch.rand(2000, commander.numbers, generator=torch.Generator().manual_seed(0)).double()
    first = reported(commander, draws, 0.0)
    assert torch.equal(first, reported(commander, draws, 1.99))
    assert not torch.equal(first, reported(commander, draws, 2.0))
    still = (first == 0).all(1)
    assert 0.07 < float(still.double().mean()) < 0.13
    moving = first[~still]
    assert float(moving[:, 0].min()) >= 0.2 and float(moving[:, 0].max()) <= 1.0
    assert moving[:, 1].eq(0).all() and moving[:, 2].abs().max() <= 0.5


def test_a_heading_turns_the_robot_towards_it_the_shorter_way():
    commands = VelocityCommands(turn=(-1, 1), heading=1.0, still=0.0)
    commander = Commander(commands, 5.0, torch.zeros(1, dtype=torch.float64))
    draws = torch.full((1, commander.numbers), 0.5, dtype=torch.float64)  # head for 0
    assert float(reported(commander, draws, 0.0, yaw=0.4)[0, 2]) == pytest.approx(-0.2)
    assert float(reported(commander, draws, 0.0, yaw=-3.0)[0, 2]) == pytest.approx(1.0)
    assert float(reported(commander, draws, 0.0, yaw=3.0)[0, 2]) == pytest.approx(-1.0)


def test_tracking_earns_more_and_the_command_is_observed(dog):
    env = make(dog, num_envs=64, seed=2, commands={"still": 0.0, "heading": 0.0})
    obs = env.reset()
    step = env.step(env.action_rest.expand(64, -1))
    command = torch.stack(
        [step.info[f"command_{name}"] for name in ("forward", "sideways", "turn")], 1
    )
    assert torch.allclose(command.float(), obs[:, 6:9])
    slow = command.norm(dim=1) < 0.4
    assert step.reward[slow].mean() > step.reward[~slow].mean()


def test_a_robot_that_fell_ends_its_episode_where_asked(dog):
    for ends in (False, True):
        env = make(dog, num_envs=1, seed=2, terminate_when_unhealthy=ends)
        env.reset()
        qpos = env.task.qpos0[None].clone()
        qpos[:, 3:7] = torch.tensor([0.0, 1.0, 0.0, 0.0])
        qpos[:, 2] += 0.2
        env.place(qpos, torch.zeros_like(env.sim.field("qvel")))
        assert bool(env.step(env.action_rest[None]).terminated[0]) is ends


@pytest.mark.parametrize(
    "arguments",
    [
        {"variation": "some"},
        {"commands": {"forward": 1}},
        {"commands": {"up": [0, 1]}},
        {"history": 0},
    ],
)
def test_wrong_arguments_are_named(dog, arguments):
    with pytest.raises(ConfigError) as caught:
        make(dog, num_envs=1, **arguments)
    assert next(iter(arguments)) in str(caught.value)


@pytest.mark.parametrize("kind", TERRAINS)
def test_fields_get_harder_fit_together_and_are_level_where_robots_start(kind):
    board = terrain(Ground(kind), 0.3)
    side = round(FIELD_M / 0.05)
    fields = board.heights.reshape(COLUMNS, side, ROWS, side).transpose(2, 0, 1, 3)
    assert fields.min() >= 0.0
    steepest = np.abs(np.diff(fields, axis=3)).max(axis=(1, 2, 3))
    assert (np.diff(steepest) > 0).all()  # row by row
    for rim in (fields[:, :, 0], fields[:, :, -1], fields[..., 0], fields[..., -1]):
        assert rim.max() < 0.03  # no wall between two fields
    middle = fields[:, :, side // 2 - 8 : side // 2 + 8, side // 2 - 8 : side // 2 + 8]
    assert np.allclose(middle, board.starts[:, :, 2][..., None, None], atol=1e-5)


# ---------------------------------------------------------------------------------------- terrain


@pytest.mark.parametrize("kind", TERRAINS)
def test_a_robot_stands_on_every_field_where_it_starts(dog, kind):
    env = make(dog, num_envs=64, seed=2, terrain=kind)
    env.reset()
    rows = env.task.memory["field"][:, 0]
    assert set(rows.tolist()) == set(map(float, range(ROWS)))  # the first is any
    for _ in range(25):
        env.step(env.action_rest.expand(64, -1))
    board = terrain(Ground(kind), standing_m(env.model))
    start = torch.tensor(board.starts)[:, :, 2].max()
    assert float(env.sim.field("qpos")[:, 2].max()) < start + 1.5 * standing_m(env.model)
    assert float(env.exact_obs[:, 5].max()) < -0.95  # upright, all of them


def test_terrain_curriculum_promotes_and_demotes(dog):
    env = make(dog, num_envs=3, seed=2, terrain="slopes")
    env.reset()
    task = env.task
    task.memory["field"][:, 0] = torch.tensor([1.0, 1.0, 0.0])
    away = torch.tensor([FIELD_M, FIELD_M / 4.0, 0.0], dtype=torch.float64)
    env.sim.field("qpos")[:, :2] = task.memory["field"][:, 1:]
    env.sim.field("qpos")[:, 0] += away
    everyone = torch.ones(3, dtype=torch.bool)
    qpos, drawn = task.qpos0.expand(3, -1), task.memory["drawn"]
    placed, _ = task.begin(everyone, qpos, torch.zeros_like(task.qvel), drawn)
    assert task.memory["field"][:, 0].tolist() == [2.0, 1.0, 0.0]
    rows = (placed[:, 0] / FIELD_M + (ROWS - 1) / 2.0).round()
    assert rows.tolist() == [2.0, 1.0, 0.0]


@pytest.mark.parametrize("kind", ["slopes", "stairs"])
def test_climbing_starts_level_and_observes_the_terrain_of_mujoco(dog, kind):
    env = make(dog, num_envs=40, seed=2, terrain=kind, terrain_start="foot", terrain_hardest=0.5)
    env.reset()
    start = env.sim.field("qpos")[:, :2].clone()
    info = env.step(env.action_rest.expand(40, -1)).info
    assert float(info["ground_height"].abs().max()) == 0.0  # level where it starts
    data, group = mujoco.MjData(env.model), np.array([1, 1, 1, 1, 1, 1], dtype=np.uint8)
    mujoco.mj_forward(env.model, data)
    data.qpos[2] = 50.0  # out of the way of the rays
    mujoco.mj_kinematics(env.model, data)
    for ahead in (0.3, 1.21, 2.87, 3.4):
        place = start + torch.tensor([ahead, 0.4], dtype=start.dtype)
        reported = env.task.board.height(place[:, 0], place[:, 1])
        for (x, y), height in zip(place[:8].tolist(), reported[:8].tolist(), strict=True):
            hit, down = np.zeros(1, dtype=np.int32), np.array([0.0, 0.0, -1.0])
            far = mujoco.mj_ray(env.model, data, np.array([x, y, 20.0]), down, group, 1, -1, hit)
            assert height == pytest.approx(20.0 - far, abs=0.03)
    top = env.task.board.height(start[:, 0] + 3.2, start[:, 1])
    step = env.task.board.size(start[:, 0] + 3.2, start[:, 1])
    count = STAIRS_M if kind == "slopes" else steps_of(standing_m(env.model))
    assert torch.allclose(top, count * step, rtol=0.02)  # what a judge counts steps by


def test_judged_terrain_is_not_training_terrain(dog):
    arguments = {"terrain": "rough", "terrain_hardest": 0.4}
    fresh = on_fresh_ground(arguments)
    boards = [terrain(ground_in(each), 0.3).heights for each in (arguments, fresh)]
    assert np.abs(boards[0] - boards[1]).max() > 0.01
    assert boards[0].max() == pytest.approx(boards[1].max(), rel=0.2)  # and as hard
    assert on_fresh_ground({"max_episode_steps": 5}) == {"max_episode_steps": 5}


def test_the_height_of_a_robot_is_that_above_the_ground_below_it(dog):
    env = make(dog, num_envs=8, seed=2, terrain="stairs")
    env.reset()
    info = env.step(env.action_rest.expand(8, -1)).info
    assert float(info["qpos"][:, 2].max()) > 1.3 * standing_m(env.model)  # on top of the stairs
    assert float((quantities.height(info) - standing_m(env.model)).abs().max()) < 0.05


def test_a_robot_that_starts_fallen_lies_anyhow_and_above_the_ground(dog):
    env = make(dog, num_envs=96, seed=2, starts="fallen")
    up = -env.reset()[:, 5]  # cosine of the tilt: even attitudes have an even one
    assert abs(float(up.mean())) < 0.12 and abs(float(up.var()) - 1.0 / 3.0) < 0.06
    qpos = env.sim.field("qpos")
    assert torch.allclose(qpos[:, 3:7].norm(dim=1), torch.ones(96, dtype=torch.float64))
    assert (env.sim.field("ncon") == 0).all()
    for _ in range(80):
        env.step(env.action_rest.expand(96, -1))
    assert torch.isfinite(env.exact_obs).all()
    assert float(qpos[:, 2].median()) < 0.9 * float(env.task.qpos0[2])  # most lie


@pytest.mark.slow
def test_a_varied_step_is_the_same_on_a_gpu(dog):
    pytest.importorskip("mujoco_warp", reason="the extra gpu is not installed")
    from telic.sim._gpu import GpuSimulation

    model = mujoco.MjModel.from_xml_path(dog)
    sims = simulate(model, 4), GpuSimulation(model, 4, device="cpu")
    rows = torch.arange(1, 5)
    for sim in sims:
        sim.vary("geom_friction")[:, :, 0] *= 0.25 * rows[:, None]
        sim.vary("body_mass")[:, 1] *= 0.5 * rows
        sim.vary("actuator_gainprm")[:, :, 0] *= 0.8 + 0.1 * rows[:, None]
        like = sim.field("qpos")
        qpos = torch.tensor(model.key_qpos[0]).to(like.dtype).repeat(4, 1)
        sim.reset(torch.ones(4, dtype=torch.bool), qpos, torch.zeros_like(sim.field("qvel")))
        control = torch.tensor(model.key_qpos[0][7:] + 0.2).to(like.dtype).repeat(4, 1)
        sim.step(control, 4)
    one, other = (sim.field("qpos").double() for sim in sims)
    assert torch.allclose(one, other, atol=2e-4)
    assert (one[0] - one[3]).abs().max() > 1e-3
    saved = sims[1].state()
    sims[1].vary("body_mass")[:] = 1.0
    sims[1].load_state(saved)
    assert not sims[1].vary("body_mass").eq(1.0).all()


def test_a_new_episode_has_asked_nothing_and_seen_nothing_yet(dog):
    env = make(dog, num_envs=2, seed=1, max_episode_steps=2, history=3)
    env.reset()
    for step in (1, 2, 3, 4):
        obs = env.step(actions(env, step)).obs
        asked, past = (
            obs[:, 6 + 2 * env.act_dim : 6 + 3 * env.act_dim],
            obs[:, 6 + 3 * env.act_dim :],
        )
        begins = step % 2 == 0
        assert bool(asked.abs().max() < 1e-6) is begins and bool(past.eq(0).all()) is begins
