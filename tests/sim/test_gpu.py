"""The GPU simulation's code on MuJoCo Warp's CPU backend, against the CPU simulation."""

from importlib.util import find_spec

import pytest
import torch

from telic.envs.mujoco import MujocoEnv
from telic.envs.tasks import TASKS
from telic.errors import ConfigError
from telic.sim._gpu import BufferSizes, GpuSimulation
from telic.sim.cpu import CpuSimulation
from telic.sim.simulation import load_model, simulate, why_no_gpu

# Not importorskip: every test process collects this file, and one of them runs it.
pytestmark = pytest.mark.skipif(
    find_spec("mujoco_warp") is None, reason="the extra gpu is not installed"
)

# With a GPU, on it; without, the same code with Warp's kernels compiled for the CPU.
DEVICE = "cpu" if why_no_gpu() else "cuda"
COMPILES = pytest.mark.filterwarnings("default") if DEVICE == "cuda" else pytest.mark.slow
"""Kernels take a minute to compile for a CPU."""
SIMS = 4
# Largest relative deviation of an observation after one control step from equal states: float32,
# another tolerance of the solver, and for Humanoid another solver. About ten times what was
# measured (docs/explanation/gpu.md).
TOLERANCE = {
    "HalfCheetah-v5": 5e-4,
    "Ant-v5": 5e-4,
    "Humanoid-v5": 2e-2,
    "InvertedDoublePendulum-v5": 1e-4,
}


def pair(name):
    kind = TASKS[name]
    arguments = kind.Arguments.parse({})
    sims = (
        CpuSimulation(load_model(arguments.xml_file), SIMS),
        GpuSimulation(load_model(arguments.xml_file), SIMS, device=DEVICE),
    )
    return [MujocoEnv(sim, kind(arguments, sim), seed=3) for sim in sims]


@pytest.fixture(scope="module")
def cheetah():
    return GpuSimulation(load_model("half_cheetah.xml"), SIMS, device=DEVICE)


def everyone(sim):
    return torch.ones(sim.num_sims, dtype=torch.bool, device=sim.device)


def begin(sim):
    qpos = sim.field("qpos").clone().copy_(torch.tensor(sim.model.qpos0))
    sim.reset(everyone(sim), qpos, torch.zeros_like(sim.field("qvel")))


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("Humanoid-v5", marks=pytest.mark.long),
        pytest.param("Ant-v5", marks=pytest.mark.slow),
        pytest.param("InvertedDoublePendulum-v5", marks=pytest.mark.slow),
        pytest.param("HalfCheetah-v5", marks=COMPILES),
    ],
)
def test_a_step_from_equal_states_is_the_same_on_both(name):
    cpu, gpu = pair(name)
    torch.testing.assert_close(gpu.reset().cpu(), cpu.reset(), rtol=1e-4, atol=1e-4)
    generator = torch.Generator().manual_seed(0)
    for _ in range(12):
        share = torch.rand(SIMS, cpu.act_dim, generator=generator)
        action = cpu.action_low + (cpu.action_high - cpu.action_low) * share
        # equal states: the CPU's, which the GPU takes over
        gpu.sim.field("qpos").copy_(cpu.sim.field("qpos"))
        gpu.sim.field("qvel").copy_(cpu.sim.field("qvel"))
        gpu.sim.field("qacc_warmstart").copy_(cpu.sim.field("qacc_warmstart"))
        gpu._tracked = cpu._tracked.to(gpu.device, gpu._tracked.dtype)
        mine, theirs = cpu.step(action), gpu.step(action.to(gpu.device))
        scale = mine.final_obs.abs().clamp_min(1.0)
        deviation = (theirs.final_obs.cpu() - mine.final_obs).abs() / scale
        assert float(deviation.max()) < TOLERANCE[name]
        assert theirs.terminated.cpu().equal(mine.terminated)
        torch.testing.assert_close(theirs.reward.cpu(), mine.reward, rtol=1e-3, atol=1e-3)
    for field in ("xpos", "xquat", "subtree_com", "cvel"):
        torch.testing.assert_close(
            gpu.sim.field(field).cpu().double(), cpu.sim.field(field), rtol=1e-2, atol=1e-2
        )


@COMPILES
def test_a_reset_touches_only_the_chosen_and_refreshes_their_fields():
    cpu, gpu = pair("Ant-v5")
    for env in (cpu, gpu):
        env.reset()
        env.sim.field("cvel")
        for _ in range(3):
            env.step(torch.full((SIMS, env.act_dim), 0.3, device=env.device))
    names = ("xpos", "cvel", "cfrc_ext", "time")
    before = {name: gpu.sim.field(name).clone() for name in names}
    mask = torch.tensor([True, False, True, False])
    qpos = torch.tensor(cpu.model.qpos0).repeat(SIMS, 1)
    qpos[:, 2] += 1.0
    qvel = torch.full((SIMS, cpu.model.nv), 0.2, dtype=torch.float64)
    cpu.sim.reset(mask, qpos, qvel)
    gpu.sim.reset(mask.to(gpu.device), qpos.to(gpu.device), qvel.to(gpu.device))
    for name in names:
        field = gpu.sim.field(name)
        assert field[~mask].equal(before[name][~mask]), name
        expected = cpu.sim.field(name)[mask].float()
        torch.testing.assert_close(field[mask].cpu(), expected, rtol=1e-4, atol=1e-4)


@COMPILES
def test_what_diverges_is_held_back_and_reported(cheetah):
    begin(cheetah)
    ctrl = torch.zeros(SIMS, cheetah.model.nu, device=cheetah.device)
    cheetah.field("qvel")[1] = torch.nan
    cheetah.field("qvel")[2] = 1e12
    cheetah.step(ctrl, 5)
    assert cheetah.failed.tolist() == [False, True, True, False]
    assert bool(cheetah.field("qpos").isfinite().all())
    counts = cheetah.field("warning").sum(1).tolist()
    assert counts == [0, 1, 1, 0]
    begin(cheetah)
    assert not cheetah.field("warning").any()
    cheetah.step(ctrl, 5)
    assert not cheetah.failed.any()


@COMPILES
def test_a_state_continues_where_it_was_taken(cheetah):
    begin(cheetah)
    ctrl = torch.full((SIMS, cheetah.model.nu), 0.5, device=cheetah.device)
    for _ in range(3):
        cheetah.step(ctrl, 5)
    state = cheetah.state()
    cheetah.step(ctrl, 5)
    after = cheetah.state()
    cheetah.load_state(state)
    cheetah.step(ctrl, 5)
    torch.testing.assert_close(cheetah.state(), after, rtol=1e-4, atol=1e-4)
    with pytest.raises(ConfigError, match="does not match"):
        cheetah.load_state(state[:2])


@pytest.mark.skipif(why_no_gpu() is None, reason="this machine has a GPU")
@pytest.mark.parametrize(
    ("device", "text"),
    [("cuda", "cannot be used"), ("gpu", "Unknown device"), ("cuda:x", "Unknown device")],
)
def test_without_a_gpu_the_reason_is_reported(device, text):
    with pytest.raises(ConfigError, match=text):
        simulate(load_model("ant.xml"), 2, device=device)


def test_processes_that_share_a_folder_divide_what_is_to_be_compiled(tmp_path):
    """None of the kernels runs while it is found out which there are."""
    import warp

    from telic.sim._warp import load_modules

    @warp.kernel(module="unique")
    def add(values: warp.array(dtype=float)):
        values[warp.tid()] += 1.0

    @warp.kernel(module="unique")
    def double(values: warp.array(dtype=float)):
        values[warp.tid()] *= 2.0

    values = warp.zeros(3, dtype=float, device=DEVICE)

    def call():
        warp.launch(add, dim=3, inputs=[values], device=DEVICE)
        warp.capture_while(values, lambda: warp.launch(double, 3, [values], device=DEVICE))

    (tmp_path / "module_1").touch()  # another process took the second
    assert load_modules(call, tmp_path) == 1
    assert load_modules(call, tmp_path) == 0
    assert load_modules(call) == 2
    assert values.numpy().tolist() == [0.0, 0.0, 0.0]
    warp.launch(add, dim=3, inputs=[values], device=DEVICE)
    assert values.numpy().tolist() == [1.0, 1.0, 1.0]


@COMPILES
def test_too_little_room_is_counted_not_silent():
    sim = GpuSimulation(
        load_model("half_cheetah.xml"), SIMS, device=DEVICE, sizes=BufferSizes(2, 4)
    )
    begin(sim)
    ctrl = torch.ones(SIMS, sim.model.nu, device=sim.device)
    for _ in range(30):
        sim.step(ctrl, 5)
    assert sum(sim.complaints().values()) > 0
    assert sim.complaints() == {}
