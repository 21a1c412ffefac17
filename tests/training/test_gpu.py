"""Training on a GPU: planning without one, and the real thing with one."""

import statistics

import pytest
import torch

import telic
from telic.core.events import TrainStart
from telic.errors import ConfigError, ResourceError, TrainingFailed
from telic.rewards.probe import probe
from telic.sim.simulation import why_no_gpu
from telic.storage.files import read_json
from telic.storage.layout import RunFolder
from telic.training.loop import collecting
from telic.training.plan import GPU_ENVS, plan, preset_for, share_environments
from telic.training.run import execute
from telic.training.setup import build_setup, load_rewards, make_environments
from tests.event_list import EventList
from tests.training.small import SPEED, train_here

needs_gpu = pytest.mark.skipif(why_no_gpu() is not None, reason=f"needs a GPU: {why_no_gpu()}")


@pytest.mark.parametrize("members", [1, 2, 3, 8, 48, 500])
def test_members_share_the_environments(members):
    settings = share_environments(
        preset_for("gpu", "HalfCheetah-v5").settings, members, "HalfCheetah-v5"
    )
    assert settings.batch_size % settings.minibatch_size == 0
    assert settings.num_envs * members <= GPU_ENVS or settings.num_envs == 256


@pytest.mark.skipif(why_no_gpu() is None, reason="this machine has a GPU")
def test_without_a_gpu_nothing_starts():
    with pytest.raises(ConfigError, match="cannot be used"):
        plan("HalfCheetah-v5", device="cuda")


# ---------------------------------------------------------------------- with a GPU

SMALL = {
    "num_envs": 64,
    "horizon": 8,
    "minibatch_size": 128,
    "epochs": 2,
    "hidden": (32, 32),
    "overlap": False,
}
LOOKS = SPEED.replace(
    "terms = {", "if float(obs[0, 0]) > 1e9:\n            raise ValueError\n        terms = {"
)
MEMORY = """
from telic import RewardFunction

class Pace(RewardFunction):
    memory = {"steps": 0.0}

    def compute(self, obs, action, next_obs, info):
        self.memory["steps"] = self.memory["steps"] + 1.0
        terms = {"speed": info["x_velocity"], "age": 0.01 * self.memory["steps"]}
        return sum(terms.values()), terms
"""


def gpu_job(steps=8192, **changes):
    settings = {**SMALL, **changes.pop("settings", {})}
    options = {"evaluations": 2, "eval_episodes": 4, "save_every_s": 0.2, **changes}
    return plan("HalfCheetah-v5", device="cuda", steps=steps, settings=settings, **options)


def batches(job, recorded, count=5):
    envs, rewards = make_environments(job), load_rewards(job)
    for reward in rewards:
        probe(reward, envs.probe)
    setup = build_setup(job, rewards, envs.training)
    if not recorded:
        setup.collector.graphed.obstacle = "the test wants it so"
    setup.collector.start(stagger=True)
    kept = []
    for i in range(count):
        batch = collecting(setup, i)()
        kept.append({name: getattr(batch, name).clone() for name in ("inputs", "rewards", "done")})
    return kept, setup


@needs_gpu
@pytest.mark.gpu
@pytest.mark.parametrize("reward", [None, SPEED, MEMORY])
def test_a_recording_does_what_the_operations_do(reward):
    job = gpu_job(reward=[reward], env_args={"max_episode_steps": 20})
    recorded, setup = batches(job, recorded=True)
    eager, _ = batches(job, recorded=False)
    assert setup.collector.graphed.is_recorded
    for mine, theirs in zip(recorded, eager, strict=True):
        assert mine["done"].equal(theirs["done"])
        # physics adds up forces in no fixed order, and chaos does the rest: compare the bulk
        for name in ("inputs", "rewards"):
            gap = (mine[name] - theirs[name]).abs().flatten()
            assert float(gap.median()) < 1e-2, name


@needs_gpu
@pytest.mark.gpu
def test_a_reward_that_looks_at_values_runs_step_by_step_and_says_so(tmp_path):
    events = EventList()
    train_here(gpu_job(reward=[LOOKS]), tmp_path, on_event=events)
    reported = [each["message"] for each in events if each["event"] == "log"]
    assert any("step by step" in each for each in reported)


@needs_gpu
@pytest.mark.gpu
def test_a_confined_run_trains_and_both_devices_agree_on_the_policy(tmp_path):
    run = telic.train(
        "HalfCheetah-v5",
        SPEED,
        device="cuda",
        steps=2_000_000,
        evaluations=1,
        eval_episodes=16,
        settings={"num_envs": 2048, "horizon": 16, "minibatch_size": 8192},
        runs_dir=tmp_path,
        videos="none",
    )
    summary = read_json(RunFolder(run.path).members()[0].summary)
    low, high = summary["best"]["interval"]
    policy = run.policy()
    env = telic.make("HalfCheetah-v5", num_envs=16, seed=99)
    obs, total = env.reset(), torch.zeros(16)
    for _ in range(1000):
        step = env.step(policy(obs))
        total += step.info["x_velocity"] - 0.1 * step.info["action"].float().square().sum(-1)
        obs = step.obs
    mean, spread = float(total.mean()), 2 * statistics.stdev(total.tolist()) / 4
    assert mean + spread > low and mean - spread < high


@needs_gpu
@pytest.mark.gpu
def test_two_processes_on_one_gpu_share_a_policy(tmp_path):
    job = gpu_job(reward=[SPEED], devices=("cuda:0", "cuda:0"), steps=65536)
    events = EventList()
    run = execute(job, tmp_path, on_event=events)
    assert run.status == "completed" and run.summary["total_timesteps"] >= 65536
    reported = [each["message"] for each in events if each["event"] == "log"]
    assert any("as one CUDA graph" in each for each in reported)
    state = RunFolder(run.path).state
    first, second = state, max(state.parent.glob("state-1-*.pt"))
    one, other = (
        torch.load(path, weights_only=True, map_location="cpu") for path in (first, second)
    )
    assert one["iteration"] == other["iteration"]
    assert torch.equal(one["population"]["flat"], other["population"]["flat"])


@needs_gpu
@pytest.mark.gpu
def test_stopped_run_resumes(tmp_path):
    job = gpu_job(steps=65536)
    seen = EventList()
    first = train_here(
        job,
        tmp_path,
        on_event=seen,
        should_stop=lambda: any(each["event"] == "train.progress" for each in seen),
    )
    assert read_json(first.summary)["status"] == "stopped"
    events = EventList()
    second = train_here(job, tmp_path, on_event=events)
    assert second.path == first.path and read_json(second.summary)["status"] == "completed"
    assert next(each for each in events if each["event"] == "train.start")["resumed"]


@needs_gpu
@pytest.mark.gpu
def test_out_of_memory_is_reported_and_the_run_resumes_later(tmp_path):
    large = {"num_envs": 2048, "horizon": 16, "minibatch_size": 8192, "hidden": (512, 512)}
    job = gpu_job(steps=1_000_000, settings=large)
    seen, taken = EventList(), []
    execute(
        job,
        tmp_path,
        on_event=seen,
        should_stop=lambda: any(each["event"] == "train.progress" for each in seen),
    )

    def take_the_rest(event):
        if isinstance(event, TrainStart):
            free, _ = torch.cuda.mem_get_info()
            taken.append(torch.empty(free - (96 << 20), dtype=torch.uint8, device="cuda"))

    with pytest.raises(ResourceError, match="ran out of memory"):
        execute(job, tmp_path, on_event=take_the_rest)
    taken.clear()
    torch.cuda.empty_cache()
    events = EventList()
    run = execute(job, tmp_path, on_event=events)
    assert run.status == "completed"
    assert next(each for each in events if each["event"] == "train.start")["resumed"]


BREAKS = """
from telic import RewardFunction

class Breaks(RewardFunction):
    memory = {"steps": 0.0}

    def compute(self, obs, action, next_obs, info):
        self.memory["steps"] = self.memory["steps"] + 1.0
        far = (self.memory["steps"] > 300).long() * 10**9
        terms = {"speed": info["x_velocity"] + 0 * info["x_velocity"][far]}
        return terms["speed"], terms
"""


@needs_gpu
@pytest.mark.gpu
def test_a_gpu_that_fails_ends_in_a_clear_error_with_the_run_kept(tmp_path):
    """Reading far outside of memory kills the CUDA context, as a lost device does."""
    job = gpu_job(steps=1_000_000, reward=[BREAKS], settings={"num_envs": 64, "horizon": 8})
    with pytest.raises(TrainingFailed, match="The GPU failed"):
        execute(job, tmp_path)
    events = EventList()
    with pytest.raises(TrainingFailed, match="The GPU failed"):
        execute(job, tmp_path, on_event=events)
    assert next(each for each in events if each["event"] == "train.start")["resumed"]


@pytest.fixture
def pretend(monkeypatch):
    """Plan as if there were a GPU."""
    monkeypatch.setattr("telic.sim.simulation.require_gpu", lambda device: None)


def test_overlap_is_refused_on_a_gpu(pretend):
    with pytest.raises(ConfigError, match="alternate"):
        plan("HalfCheetah-v5", device="cuda", settings={"overlap": True})


@needs_gpu
@pytest.mark.gpu
def test_kernels_are_compiled_while_a_session_writes(tmp_path):
    session = telic.run(
        "Run forward.",
        env="HalfCheetah-v5",
        device="cuda",
        iterations=1,
        steps=400_000,
        seeds=(1, 2),
        runs_dir=tmp_path,
    )
    assert session.summary.score is not None
