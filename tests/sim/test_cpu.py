"""The CPU simulation against a plain loop over MjData."""

import ctypes

import mujoco
import numpy as np
import pytest
import torch

from telic.errors import ConfigError, TelicError, UnknownName
from telic.sim.cpu import CpuSimulation, library
from telic.sim.simulation import load_model

WELDED = """
<mujoco>
  <worldbody>
    <body name="mocap" mocap="true"/>
    <body name="ball"><freejoint/><geom size=".1"/></body>
  </worldbody>
  <equality><weld body1="mocap" body2="ball"/></equality>
</mujoco>
"""


@pytest.fixture
def ant():
    return load_model("ant.xml")


def begin(sim, seed=0):
    generator = torch.Generator().manual_seed(seed)
    qpos = torch.tensor(sim.model.qpos0) + 0.1 * torch.rand(
        sim.num_sims, sim.model.nq, generator=generator, dtype=torch.float64
    )
    qvel = torch.randn(sim.num_sims, sim.model.nv, generator=generator, dtype=torch.float64)
    sim.reset(torch.ones(sim.num_sims, dtype=torch.bool), qpos, qvel)
    return qpos, qvel


@pytest.mark.parametrize("asset", ["ant.xml", "humanoid.xml", "half_cheetah.xml"])
def test_every_field_equals_a_loop_over_mjdata_bit_for_bit(asset):
    model = load_model(asset)
    sim = CpuSimulation(model, 3, num_threads=2)
    names = ("qpos", "xpos", "cvel", "cinert", "cfrc_ext", "cacc", "subtree_com", "subtree_linvel")
    fields = {name: sim.field(name) for name in (*names, "qfrc_actuator", "ncon", "time")}
    qpos, qvel = begin(sim)
    singles = [mujoco.MjData(model) for _ in range(3)]
    for row, data in enumerate(singles):
        data.qpos[:], data.qvel[:] = qpos[row], qvel[row]
        mujoco.mj_forward(model, data)
    for number in range(20):
        ctrl = torch.sin(torch.arange(3 * model.nu).reshape(3, -1) + number)
        sim.step(ctrl.double(), 5)
        for row, data in enumerate(singles):
            data.ctrl[:] = ctrl[row].double()
            mujoco.mj_step(model, data, nstep=5)
            mujoco.mj_rnePostConstraint(model, data)
            mujoco.mj_subtreeVel(model, data)
            for name, field in fields.items():
                assert np.array_equal(field[row].numpy(), getattr(data, name)), name


def test_a_field_bound_late_is_right_at_once(ant):
    early, late = CpuSimulation(ant, 2), CpuSimulation(ant, 2)
    names = ("xpos", "cfrc_ext", "qfrc_constraint", "subtree_angmom")
    for name in names:
        early.field(name)
    for sim in (early, late):
        begin(sim)
        for _ in range(10):
            sim.step(torch.full((2, ant.nu), 0.3), 5)
    assert late.bound == {"qpos", "qvel", "ctrl"}
    for name in names:
        assert torch.equal(late.field(name), early.field(name)), name
    assert early.field("cfrc_ext").abs().sum() > 0


def test_reset_affects_only_the_masked_simulations(ant):
    sim = CpuSimulation(ant, 3)
    forces, time, qpos = sim.field("cfrc_ext"), sim.field("time"), sim.field("qpos")
    start, _ = begin(sim)
    for _ in range(10):
        sim.step(torch.zeros(3, ant.nu), 5)
    others = sim.state()[[0, 2]]
    sim.reset(torch.tensor([False, True, False]), start, torch.zeros(3, ant.nv))
    assert torch.equal(sim.state()[[0, 2]], others)
    assert time.tolist() == pytest.approx([0.5, 0.0, 0.5])
    assert torch.equal(qpos[1], start[1])
    assert forces[1].abs().max() == 0
    assert forces[0].abs().max() > 0
    sim.reset(torch.zeros(3, dtype=torch.bool), start, torch.zeros(3, ant.nv))
    assert time[0] > 0


def test_loaded_state_continues_bit_for_bit_in_another_simulation(ant):
    one, other = CpuSimulation(ant, 2), CpuSimulation(ant, 2)
    begin(one)
    for _ in range(10):
        one.step(torch.full((2, ant.nu), 0.5), 5)
    other.load_state(one.state())
    for sim in (one, other):
        for _ in range(20):
            sim.step(torch.full((2, ant.nu), -0.5), 5)
    assert torch.equal(one.state(), other.state())
    with pytest.raises(ConfigError, match="does not match"):
        CpuSimulation(ant, 3).load_state(one.state())


def test_unknown_fields_and_impossible_numbers_are_refused(ant):
    sim = CpuSimulation(ant, 1)
    with pytest.raises(UnknownName, match="qpos"):
        sim.field("qpso")
    with pytest.raises(UnknownName):
        sim.field("efc_force")  # lives in memory whose size changes from step to step
    with pytest.raises(ConfigError, match="num_envs=0"):
        CpuSimulation(ant, 0)
    with pytest.raises(ConfigError, match="num_threads"):
        CpuSimulation(ant, 1, num_threads=0)


def test_simulations_the_engine_gives_up_on_are_named_and_keep_their_state():
    model = mujoco.MjModel.from_xml_string(WELDED)
    sim = CpuSimulation(model, 3, num_threads=2)
    expand = library().mjb_expand
    expand.restype = ctypes.c_void_p
    where = expand(ctypes.c_void_p(sim._batch), b"eq_type", None, None)
    kinds = (ctypes.c_int * 3).from_address(where)
    everyone = torch.ones(3, dtype=torch.bool)
    qpos, qvel = torch.tensor(model.qpos0).repeat(3, 1), torch.zeros(3, model.nv)
    sim.reset(everyone, qpos, qvel)
    sim.step(torch.zeros(3, 0), 1)
    assert sim.failed is None
    sound, kinds[1] = kinds[1], 99  # a kind of constraint MuJoCo does not know
    sim.step(torch.zeros(3, 0), 1)
    assert sim.failed.tolist() == [False, True, False]
    step = model.opt.timestep
    assert sim.field("time").tolist() == pytest.approx([2 * step, step, 2 * step])
    with pytest.raises(TelicError, match="Simulation 1"):
        sim.reset(everyone, qpos, qvel)
    kinds[1] = sound
    sim.reset(everyone, qpos, qvel)
    sim.step(torch.zeros(3, 0), 1)
    assert sim.failed is None
