"""A policy that sees its reward's memory plays where neither telic nor torch can be imported."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch

from telic.composer.compose import compose
from telic.envs import make
from telic.errors import TelicError
from telic.rewards.memory_program import memory_program
from telic.rewards.recording import collect
from telic.rewards.reward import load_reward
from telic.training.export.bundle import export_run
from telic.training.export.run_policy import Memory
from telic.training.policy import load_policy
from tests.training.small import small_job, train_here

COUNTS = """
class Counts(RewardFunction):
    memory = {"seen": 0.0, "needed": 1.0, "other": (2,)}
    memory_to = ("seen",)

    def compute(self, obs, action, next_obs, info):
        self.memory["needed"] += info["x_velocity"] * info["dt"]
        self.memory["other"] = self.memory["other"] + obs[:, :2]
        far = (self.memory["needed"] > 1.0).float()
        self.memory["seen"] = torch.maximum(self.memory["seen"], far * self.memory["needed"])
        return self.memory["seen"], {"seen": self.memory["seen"]}
"""
WITHOUT = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("telic", "torch"):
            raise ImportError(name)
sys.meta_path.insert(0, Refuse())
sys.path.insert(0, sys.argv[1])
import json
import run_policy
returns = run_policy.play_in_gym(2)
print(json.dumps([returns, sorted(set(sys.modules) & {"telic", "torch"})]))
"""


def test_only_what_the_actor_sees_is_shipped_with_what_it_depends_on():
    program = memory_program(COUNTS, "HalfCheetah-v5", {}, Memory)
    assert program.seen == {"seen": 1, "needed": -1, "other": -2}
    assert set(program.memory) == {"seen", "needed"}
    assert set(program.inputs.values()) <= {"seen", "needed", "x_velocity", "dt"}


@pytest.mark.parametrize(
    "env, intent",
    [
        ("Hopper-v5", "jump three times, then stand still"),
        *(
            pytest.param(env, intent, marks=pytest.mark.long)
            for env, intent in (
                ("Ant-v5", "walk 2 m forward, then turn right, then stand still"),
                ("HalfCheetah-v5", "run forward for 2 seconds, then do a backflip, then stop"),
            )
        ),
    ],
)
def test_composed_memory_has_the_same_numbers_without_telic(env, intent):
    opened = make(env, num_envs=1)
    opened.close()
    made = compose(intent, opened.spec)
    playing = Memory(
        memory_program(made.reward, env, made.env_args, Memory).model_dump(mode="json")
    )
    recording = collect(make(env, num_envs=8, seed=4, **made.env_args), 192, seed=4)
    reward = load_reward(made.reward)
    reward.decide(recording)
    reward.start(1, "cpu")
    playing.reset()
    for moment in (each.map(lambda x: x[:1]) for each in recording.transitions):
        reward(moment.obs, moment.action, moment.next_obs, moment.info, moment.env_reward)
        given = {name: moment.info.exact(name).numpy() for name in moment.info}
        given |= {name: getattr(moment, name).numpy() for name in ("obs", "action", "next_obs")}
        playing.follow(given)
        expected = reward.memory().numpy()
        np.testing.assert_allclose(playing.seen(), expected, rtol=1e-4, atol=1e-4)
        reward.reset(moment.ended)
        if bool(moment.ended):
            playing.reset()


def test_a_bundle_plays_in_gymnasium_without_telic_as_it_does_with_it(tmp_path):
    job = small_job(reward=COUNTS, steps=256, evaluations=1, env_args={"max_episode_steps": 150})
    run = train_here(job, tmp_path)
    made = export_run(run, out=tmp_path / "bundle")
    assert made["memory"] == "memory.json"
    done = subprocess.run(
        [sys.executable, "-I", "-c", WITHOUT, str(tmp_path / "bundle")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    returns, imported = json.loads(done.stdout.splitlines()[-1])
    assert imported == [] and len(returns) == 2

    # The same policy, with the memory of the reward itself, in the same Gymnasium episode.
    gymnasium = pytest.importorskip("gymnasium")
    policy = load_policy(tmp_path / "bundle" / "policy.pt")
    env = gymnasium.make("HalfCheetah-v5", max_episode_steps=150)
    obs, _ = env.reset(seed=0)
    needed, seen, total, done = 1.0, 0.0, 0.0, False
    while not done:
        given = torch.tensor(obs, dtype=torch.float32)[None]
        action = policy(given, torch.tensor([[seen, 0.0, 0.0, 0.0]]))[0]
        obs, reward, terminated, truncated, info = env.step(np.asarray(action))
        needed += info["x_velocity"] * env.unwrapped.dt
        seen = max(seen, needed if needed > 1.0 else 0.0)
        total, done = total + reward, terminated or truncated
    assert returns[0] == pytest.approx(total, rel=0.02, abs=2.0)


def test_what_cannot_be_traced_is_refused_with_the_reason():
    text = COUNTS.replace("far *", "torch.linalg.svdvals(torch.eye(3)).sum() * far *")
    with pytest.raises(TelicError, match="cannot be exported: unknown operations"):
        memory_program(text, "HalfCheetah-v5", {}, Memory)
