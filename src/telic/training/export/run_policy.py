"""Run this policy without telic and without torch.

    python run_policy.py [episodes]      play it in Gymnasium and print the returns

    from run_policy import load
    policy = load()                      # policy.onnx or policy.npz next to this file
    action = policy(obs)                 # one observation (D,), or many (N, D)

Needs numpy; uses onnxruntime where it is installed. Playing needs gymnasium[mujoco].
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
Array = np.ndarray[Any, np.dtype[Any]]

LEAST = {True: 1e-5, False: 1e-6}
"""added to a variance (of centred rows) or a mean square before the square root"""


def _standardised(x: Array, centred: bool) -> Array:
    """Divide each row by its root mean square; centred, subtract its mean before."""
    x = x - x.mean(-1, keepdims=True) if centred else x
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + LEAST[centred])


FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0.0),
    "elu": lambda x: np.where(x > 0.0, x, np.expm1(np.minimum(x, 0.0))),
    "silu": lambda x: x / (1.0 + np.exp(-np.maximum(x, -80.0))),
    "layer_norm": lambda x: _standardised(x, centred=True),
    "rms_norm": lambda x: _standardised(x, centred=False),
}


def load(folder: Path = HERE) -> Callable[..., Array]:
    """Return the policy as a function, run by onnxruntime if there is one, else by numpy."""
    try:
        return load_onnx(folder / "policy.onnx")
    except ImportError:
        return load_numpy(folder / "policy.npz")


def load_numpy(path: Path) -> Callable[..., Array]:
    """Return the policy of a .npz file as a function; needs nothing but numpy."""
    with np.load(path) as file:
        data = dict(file)
    kinds = str(data["program"]).split()
    layers = [(data[f"weight_{i}"], data[f"bias_{i}"]) for i in range(kinds.count("affine"))]

    def policy(obs: Any, memory: Any = None) -> Array:
        x = np.asarray(obs, dtype=np.float32)
        if memory is not None:
            x = np.concatenate((x, np.asarray(memory, dtype=np.float32)), axis=-1)
        x = np.clip((x - data["shift"]) * data["scale"], -data["limit"], data["limit"])
        kept, left = x, iter(layers)
        for kind in kinds:
            if kind == "affine":
                weight, bias = next(left)
                x = x @ weight + bias
            elif kind == "keep":
                kept = x
            elif kind == "add":
                x = x + kept
            else:
                x = FUNCTIONS[kind](x)
        if "half" not in data:
            return x.argmax(-1)
        return data["middle"] + data["half"] * np.clip(x, -1.0, 1.0)

    return policy


def load_onnx(path: Path) -> Callable[..., Array]:
    """Return the policy of an .onnx file as a function; needs onnxruntime."""
    import onnxruntime as untyped

    onnxruntime: Any = untyped
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # a small network is faster on one
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def policy(obs: Any, memory: Any = None) -> Array:
        given = [np.asarray(each, dtype=np.float32) for each in (obs, memory) if each is not None]
        names = [each.name for each in session.get_inputs()]
        feeds = {name: np.atleast_2d(each) for name, each in zip(names, given, strict=True)}
        action = np.asarray(session.run(["action"], feeds)[0])
        return action if given[0].ndim > 1 else action[0]

    return policy


def facts(folder: Path = HERE) -> dict[str, Any]:
    """Return what the policy was trained for: env, env_args, obs_names, action_names, dt_s, ..."""
    with np.load(folder / "policy.npz") as file:
        return json.loads(str(file["facts"]))


def play(episodes: int = 3) -> list[float]:
    """Play in the Gymnasium environment of the policy; return the episodes' returns."""
    import gymnasium

    about, policy = facts(), load()
    if about["memory_size"]:
        sys.exit(f"This policy needs its reward's memory ({about['memory_size']} numbers) as well.")
    turns = about["env_args"].pop("phase_hz", None)
    try:
        env = gymnasium.make(about["env"], **about["env_args"])
    except gymnasium.error.Error as error:
        sys.exit(f"{error} Call load() from a loop of your own instead.")
    returns: list[float] = []
    for seed in range(episodes):
        (obs, _), total, done, steps = env.reset(seed=seed), 0.0, False, 0
        while not done:
            seen: Any = gymnasium.spaces.flatten(env.observation_space, obs)
            if turns is not None:  # the phase variable, which the reward was trained with
                angle = 2.0 * np.pi * turns * steps * about["dt_s"]
                seen = np.concatenate((seen, [np.sin(angle), np.cos(angle)]))
            obs, reward, terminated, truncated, _ = env.step(policy(seen))
            total, done, steps = total + float(reward), terminated or truncated, steps + 1
        returns.append(total)
    return returns


if __name__ == "__main__":
    for index, total in enumerate(play(int(sys.argv[1]) if len(sys.argv) > 1 else 3)):
        print(f"episode {index}: the task's own return {total:.1f}")
