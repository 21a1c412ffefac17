"""Entry of a sandboxed worker: run bent rewards and judges, and see whether anything else changed.

Next to each mutated reward an unchanged one runs on the same transitions, as another member of the
population would. Its numbers, the transitions themselves, the shared objects and the world are the
canaries.
"""

import hashlib
import os
import random
import time
from pathlib import Path

import torch

from telic.envs import make
from telic.errors import RefusedCode, RewardError, TelicError
from telic.judges.code import JudgeCode
from telic.judges.failure_modes import failure_modes
from telic.rewards.recording import collect
from telic.rewards.reward import load_reward
from telic.sandbox.tamper import FunctionSnapshot
from tests.attacks.grammar import Grammar, corpus, mutate
from tests.attacks.reach import handed_out, names_of, witnesses

HONEST = Path(__file__).parents[1] / "rewards" / "run_forward.py"
ENV = "HalfCheetah-v5"
PLAIN = (
    "class Reward:\n    def compute(self, obs, action, next_obs, info):\n"
    "        speed = float(info['x_velocity'])\n"
    "        bonus = 1.0 if speed > 0 else np.sqrt(abs(speed))\n"
    "        return speed + bonus, {'speed': speed, 'bonus': bonus}\n"
)


def prepare(payload, channel):
    return None


def run(_, payload, channel):
    channel.heartbeat(payload["beat_s"], "preparing the attack")
    torch.set_num_threads(1)
    names = sorted({name for value in handed_out().values() for name in names_of(value)})
    rng = random.Random(payload["seed"])
    files = corpus()
    env = make(ENV, num_envs=4, seed=0)
    recording = collect(env, 6)
    env.close()
    examples = failure_modes(ENV, {})
    episode = examples.trajectory(examples.names[0])
    numbers(PLAIN, recording)  # what libraries set up at first use is nobody's doing
    JudgeCode(files[next(key for key in files if key.startswith("judge"))])(episode, examples.spec)
    honest = numbers(HONEST, recording)
    there = {each.name for each in Path(".").iterdir()} | {"attempt.py"}
    seal, before = FunctionSnapshot(), witnesses()
    proof = digest(recording, episode)
    counts = {"files": len(files), "attempts": 0, "refused": 0, "errors": 0, "ran": 0}
    effects: list[dict] = []
    started = time.monotonic()
    keys = list(files)
    while (
        counts["attempts"] < payload["attempts"] and time.monotonic() - started < payload["for_s"]
    ):
        channel.heartbeat(payload["beat_s"], f"attempt {counts['attempts']}")
        key = rng.choice(keys)
        text = mutate(files[key], Grammar(rng, names))
        counts["attempts"] += 1
        Path("attempt.py").write_text(text, errors="replace")  # what it was, should this one hang
        is_judge = key.startswith("judge")
        counts[judge(text, episode, examples.spec) if is_judge else reward(text, recording)] += 1
        changed = digest(recording, episode) != proof
        if counts["attempts"] % 50 == 0 or changed:
            now = witnesses()
            touched = [name for name in now if now[name] != before[name]]
            if changed or touched or numbers(HONEST, recording) != honest:
                effects.append({"text": text, "touched": touched, "evidence": changed})
                break
            seal.check()
    left = sorted({each.name for each in Path(".").iterdir()} - there)
    return {"counts": counts, "effects": effects, "left": left}


def reward(text: str, recording) -> str:
    try:
        numbers(text, recording)
    except RefusedCode:
        return "refused"
    except TelicError:
        return "errors"
    return "ran"


def judge(text: str, episode, spec) -> str:
    try:
        verdict = JudgeCode(text)(episode, spec)
    except RefusedCode:
        return "refused"
    except RewardError:
        return "errors"
    assert verdict.score is None or 0.0 <= verdict.score <= 1.0, verdict.score
    return "errors" if verdict.score is None else "ran"


def numbers(source: str, recording) -> list:
    """Return what a reward gives on recorded transitions, as another member of a population."""
    made = load_reward(source)
    made.decide(recording)
    made.start(4, "cpu")
    out = []
    for moment in recording.transitions:
        step = made(moment.obs, moment.action, moment.next_obs, moment.info, moment.env_reward)
        made.reset(moment.ended)
        out.append(step.total.tolist())
    return out


def digest(recording, episode) -> str:
    """Return a hash of what the rewards and judges are shown."""
    found = hashlib.sha256()
    for moment in recording.transitions:
        for each in (moment.obs, moment.action, moment.next_obs, moment.env_reward):
            found.update(each.numpy().tobytes())
        for name in ("qpos", "qvel", "xpos"):
            found.update(moment.info[name].numpy().tobytes())
            found.update(moment.info.exact(name).numpy().tobytes())
    for name in sorted(episode.columns):
        found.update(episode.columns[name].tobytes())
    found.update(repr(sorted(os.environ)).encode())
    return found.hexdigest()
