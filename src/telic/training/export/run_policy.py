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


def _standardized(x: Array, centerd: bool) -> Array:
    """Apply RMS normalization to each row, or layer normalization if `centerd`."""
    x = x - x.mean(-1, keepdims=True) if centerd else x
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPSILON[centerd])


FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0.0),
    "elu": lambda x: np.where(x > 0.0, x, np.expm1(np.minimum(x, 0.0))),
    "silu": lambda x: x / (1.0 + np.exp(-np.maximum(x, -80.0))),
    "layer_norm": lambda x: _standardized(x, centerd=True),
    "rms_norm": lambda x: _standardized(x, centerd=False),
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


# ---- reward memory for policies that observe it: memory.json lists the operations of one step


def _typed(x: Any, dtype: Any) -> Array:
    if isinstance(dtype, str | None):
        dtype = np.dtype((dtype or "torch.float32").removeprefix("torch."))
    return np.asarray(x, dtype=dtype)


def _over(function: Callable[..., Any]) -> Callable[..., Any]:
    def reduce(x: Any, dim: Any = None, keepdim: bool = False, **_: Any) -> Any:
        axis = tuple(dim) if isinstance(dim, list) else dim
        return function(x, axis=axis if axis != () else None, keepdims=keepdim)

    return reduce


def _index(x: Any, places: list[Any]) -> Any:
    return x[tuple(slice(None) if each is None else each for each in places)]


def _slice(x: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    return np.asarray(x)[(slice(None),) * (dim % np.ndim(x)) + (slice(start, end, step),)]


def _split(x: Any, size: Any, dim: int = 0) -> list[Any]:
    length = x.shape[dim]
    sizes = size if isinstance(size, list) else [size] * -(-length // size)
    return np.split(x, np.cumsum(sizes)[:-1].tolist(), axis=dim)


def _expand(x: Any, shape: list[int], **_: Any) -> Any:
    own = (1,) * (len(shape) - np.ndim(x)) + np.shape(x)
    wanted = [have if want == -1 else want for have, want in zip(own, shape, strict=True)]
    return np.broadcast_to(x, wanted)


_SAME = (
    "sin cos tan exp log sqrt tanh maximum minimum hypot sign floor abs where cumsum reciprocal "
    "logical_and logical_or logical_not bitwise_and bitwise_or"
)
_NAMED = (
    "neg:negative mul:multiply div:divide pow:power remainder:mod atan2:arctan2 asin:arcsin "
    "acos:arccos gt:greater ge:greater_equal lt:less le:less_equal eq:equal ne:not_equal "
    "bitwise_not:invert clamp_min:maximum clamp_max:minimum view:reshape unsqueeze:expand_dims "
    "permute:transpose"
)
OPERATIONS: dict[str, Callable[..., Any]] = {
    **{name: getattr(np, name) for name in _SAME.split()},
    **{name: getattr(np, numpy) for name, numpy in (x.split(":") for x in _NAMED.split())},
    **{name: _over(getattr(np, name)) for name in ("sum", "mean", "amax", "amin", "any", "all")},
    **dict.fromkeys(("clone", "detach", "alias", "lift_fresh_copy"), lambda x, **_: x),
    **dict.fromkeys(("split", "split_with_sizes"), _split),
    "add": lambda x, y, alpha=1: x + alpha * y,
    "sub": lambda x, y, alpha=1: x - alpha * y,
    "rsub": lambda x, y, alpha=1: y - alpha * x,
    "sigmoid": lambda x: 1.0 / (1.0 + np.exp(-x)),
    "masked_fill": lambda x, mask, value: np.where(mask, value, x),
    "clamp": lambda x, min=None, max=None: np.clip(x, min, max),
    "linalg_vector_norm": lambda x, ord=2, dim=None, keepdim=False, **_: np.linalg.norm(
        x, ord, None if not dim else dim[0], keepdim
    ),
    "linalg_cross": lambda x, y, dim=-1: np.cross(x, y, axis=dim),
    "stack": lambda parts, dim=0: np.stack(parts, axis=dim),
    "cat": lambda parts, dim=0: np.concatenate(parts, axis=dim),
    "unbind": lambda x, dim=0: [np.take(x, row, axis=dim) for row in range(x.shape[dim])],
    "getitem": lambda parts, place: parts[place],
    "select": lambda x, dim, place: np.take(x, place, axis=dim),
    "slice": _slice,
    "index": _index,
    "index_select": lambda x, dim, rows: np.take(x, rows, axis=dim),
    "squeeze": lambda x, dim=None: np.squeeze(x, tuple(dim) if isinstance(dim, list) else dim),
    "expand": _expand,
    "_to_copy": lambda x, dtype=None, **_: _typed(x, dtype),
    "zeros_like": lambda x, dtype=None, **_: _typed(np.zeros_like(x), dtype or x.dtype),
    "ones_like": lambda x, dtype=None, **_: _typed(np.ones_like(x), dtype or x.dtype),
    "full_like": lambda x, value, dtype=None, **_: _typed(np.full_like(x, value), dtype or x.dtype),
    "zeros": lambda shape, dtype=None, **_: _typed(np.zeros(shape), dtype),
    "ones": lambda shape, dtype=None, **_: _typed(np.ones(shape), dtype),
    "full": lambda shape, value, dtype=None, **_: _typed(np.full(shape, value), dtype),
    "scalar_tensor": lambda value, dtype=None, **_: _typed(value, dtype),
}


class Memory:
    """Named values of the reward's memory that the policy observes, with their dependencies."""

    def __init__(self, program: dict[str, Any]) -> None:
        self._program = program
        self.reset()
        if missing := {row[1] for row in program["steps"]} - OPERATIONS.keys():
            raise ValueError(f"unknown operations: {', '.join(sorted(missing))}")

    def reset(self) -> None:
        """Reset the memory at the start of an episode."""
        self.values = {
            name: np.array(row, dtype=np.float32) for name, row in self._program["memory"].items()
        }

    def seen(self) -> Array:
        """Return the memory inputs of the policy, (1, M)."""
        parts = [
            self.values[name].reshape(1, -1) if size > 0 else np.zeros((1, -size), np.float32)
            for name, size in self._program["seen"].items()
        ]
        return np.concatenate(parts, -1)

    def follow(self, given: dict[str, Any]) -> None:
        """Update the memory with one row each of `obs`, `action`, `next_obs` and `infos`."""
        values: dict[str, Any] = {
            name: np.array(x) for name, x in self._program["constants"].items()
        }
        for node, name in self._program["inputs"].items():
            values[node] = self.values[name] if name in self.values else given[name]

        def read(each: Any) -> Any:
            if isinstance(each, dict):
                return values[each["node"]]
            return [read(one) for one in each] if isinstance(each, list) else each

        for node, operation, arguments, options in self._program["steps"]:
            options = {name: read(each) for name, each in options.items()}
            values[node] = OPERATIONS[operation](*map(read, arguments), **options)
        for name, node in self._program["results"].items():
            self.values[name] = np.asarray(values[node], dtype=np.float32)

    def follow_gymnasium(
        self, env: Any, seen: tuple[Array, Array, Array], info: dict[str, Any], time: float
    ) -> None:
        """Update the memory with the latest step of a Gymnasium MuJoCo environment."""
        data = env.unwrapped.data
        known: dict[str, Any] = dict(zip(("obs", "action", "next_obs"), seen, strict=True))
        known |= {"time": time, "dt": env.unwrapped.dt, "episode_start": time <= env.unwrapped.dt}
        known |= {name: info[name] for name in info if np.isscalar(info[name])}
        given: dict[str, Any] = {}
        for name in set(self._program["inputs"].values()) - self.values.keys():
            if name == "contacts":
                value = np.linalg.norm(data.cfrc_ext[:, 3:], axis=-1)
            else:
                value = known[name] if name in known else getattr(data, name)
            given[name] = np.array(value)[None]
        self.follow(given)


def facts(folder: Path = HERE) -> dict[str, Any]:
    """Return the metadata of the policy, such as `env`, `obs_names` and `dt_s`."""
    with np.load(folder / "policy.npz") as file:
        return json.loads(str(file["facts"]))


def play_in_gym(episodes: int = 3) -> list[float]:
    """Run episodes in the policy's Gymnasium environment and return their returns."""
    import gymnasium

    about, policy = facts(), load()
    shown: Memory | None = None
    if about["memory_size"]:
        if not (HERE / "memory.json").exists():
            sys.exit(f"This policy observes {about['memory_size']} values of its reward's memory.")
        shown = Memory(json.loads((HERE / "memory.json").read_text()))
    turns = about["env_args"].pop("phase_hz", None)
    try:
        env = gymnasium.make(about["env"], **about["env_args"])
    except gymnasium.error.Error as error:
        sys.exit(f"{error} Call load() from your own loop instead.")
    returns: list[float] = []
    for seed in range(episodes):
        (obs, _), total, done, steps = env.reset(seed=seed), 0.0, False, 0
        if shown is not None:
            shown.reset()
        while not done:
            seen: Any = gymnasium.spaces.flatten(env.observation_space, obs)
            if turns is not None:  # append the phase variable
                angle = 2.0 * np.pi * turns * steps * about["dt_s"]
                seen = np.concatenate((seen, [np.sin(angle), np.cos(angle)]))
            action = policy(seen) if shown is None else policy(seen, shown.seen()[0])
            obs, reward, terminated, truncated, info = env.step(action)
            total, done, steps = total + float(reward), terminated or truncated, steps + 1
            if shown is not None:
                after: Any = gymnasium.spaces.flatten(env.observation_space, obs)
                shown.follow_gymnasium(env, (seen, action, after), info, steps * about["dt_s"])
        returns.append(total)
    return returns


if __name__ == "__main__":
    for index, total in enumerate(play_in_gym(int(sys.argv[1]) if len(sys.argv) > 1 else 3)):
        print(f"episode {index}: return under the built-in reward {total:.1f}")
