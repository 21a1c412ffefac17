"""Run this policy without telic or torch.

    python run_policy.py [episodes]      run it in Gymnasium and print the returns

    from run_policy import load
    policy = load()                      # policy.onnx or policy.npz next to this file
    action = policy(obs)                 # one observation (D,) or several (N, D)

Requires numpy, and uses onnxruntime if installed. Running episodes requires gymnasium[mujoco].
"""

from __future__ import annotations

import sys

if __name__ == "__main__" and not getattr(sys.flags, "safe_path", False):
    del sys.path[0]  # files in this folder must not shadow imported modules

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
Array = np.ndarray[Any, np.dtype[Any]]

EPSILON = {True: 1e-5, False: 1e-6}
"""value added to the variance (of centered rows) or the mean square to avoid division by zero"""


def _standardised(x: Array, centred: bool) -> Array:
    """Apply RMS normalization to each row, or layer normalization if `centred`."""
    x = x - x.mean(-1, keepdims=True) if centred else x
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPSILON[centred])


FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0.0),
    "elu": lambda x: np.where(x > 0.0, x, np.expm1(np.minimum(x, 0.0))),
    "silu": lambda x: x / (1.0 + np.exp(-np.maximum(x, -80.0))),
    "layer_norm": lambda x: _standardised(x, centred=True),
    "rms_norm": lambda x: _standardised(x, centred=False),
}


def network(x: Array, kinds: Sequence[str], layers: Sequence[tuple[Array, Array]]) -> Array:
    """Apply the operations of the policy network to normalized inputs (..., D)."""
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
    return x


def load(folder: Path = HERE) -> Callable[..., Array]:
    """Load the policy as a function, using onnxruntime if installed and NumPy otherwise."""
    try:
        return load_onnx(folder / "policy.onnx")
    except ImportError:
        return load_numpy(folder / "policy.npz")


def load_numpy(path: Path) -> Callable[..., Array]:
    """Load the policy from a .npz file as a function. Requires only NumPy."""
    with np.load(path) as file:
        data = dict(file)
    kinds = str(data["program"]).split()
    layers = [(data[f"weight_{i}"], data[f"bias_{i}"]) for i in range(kinds.count("affine"))]

    def policy(obs: Any, memory: Any = None) -> Array:
        x = np.asarray(obs, dtype=np.float32)
        if memory is not None:
            x = np.concatenate((x, np.asarray(memory, dtype=np.float32)), axis=-1)
        x = np.clip((x - data["shift"]) * data["scale"], -data["limit"], data["limit"])
        x = network(x, kinds, layers)
        if "half" not in data:
            return x.argmax(-1)
        return data["middle"] + data["half"] * np.clip(x, -1.0, 1.0)

    return policy


def load_onnx(path: Path) -> Callable[..., Array]:
    """Load the policy from an .onnx file as a function. Requires onnxruntime."""
    import onnxruntime as untyped

    onnxruntime: Any = untyped
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # fastest for small networks
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def policy(obs: Any, memory: Any = None) -> Array:
        given = [np.asarray(each, dtype=np.float32) for each in (obs, memory) if each is not None]
        names = [each.name for each in session.get_inputs()]
        feeds = {name: np.atleast_2d(each) for name, each in zip(names, given, strict=True)}
        action = np.asarray(session.run(["action"], feeds)[0])
        return action if given[0].ndim > 1 else action[0]

    return policy


def facts(folder: Path = HERE) -> dict[str, Any]:
    """Return the metadata of the policy, such as `env`, `obs_names` and `dt_s`."""
    with np.load(folder / "policy.npz") as file:
        return json.loads(str(file["facts"]))


def play_in_gym(episodes: int = 3) -> list[float]:
    """Run episodes in the policy's Gymnasium environment and return their returns."""
    import gymnasium

    about, policy = facts(), load()
    if about["memory_size"]:
        sys.exit(
            f"This policy observes {about['memory_size']} values of its reward's memory. Call "
            "load() from your own loop, and update the memory as in reward_fn.py."
        )
    turns = about["env_args"].pop("phase_hz", None)
    try:
        env = gymnasium.make(about["env"], **about["env_args"])
    except gymnasium.error.Error as error:
        sys.exit(f"{error} Call load() from your own loop instead.")
    returns: list[float] = []
    for seed in range(episodes):
        (obs, _), total, done, steps = env.reset(seed=seed), 0.0, False, 0
        while not done:
            seen: Any = gymnasium.spaces.flatten(env.observation_space, obs)
            if turns is not None:  # append the phase variable
                angle = 2.0 * np.pi * turns * steps * about["dt_s"]
                seen = np.concatenate((seen, [np.sin(angle), np.cos(angle)]))
            obs, reward, terminated, truncated, _ = env.step(policy(seen))
            total, done, steps = total + float(reward), terminated or truncated, steps + 1
        returns.append(total)
    return returns


if __name__ == "__main__":
    for index, total in enumerate(play_in_gym(int(sys.argv[1]) if len(sys.argv) > 1 else 3)):
        print(f"episode {index}: return under the built-in reward {total:.1f}")
