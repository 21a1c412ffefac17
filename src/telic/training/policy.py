"""Saving, loading and calling trained policies, and recording episodes with them."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from pydantic import Field, TypeAdapter
from torch import Tensor

from telic.core.config import Record
from telic.core.text import is_mapping
from telic.envs.driven import NAMES, VelocityCommands
from telic.envs.factory import make
from telic.envs.vector import cut_episode
from telic.errors import TelicError, UnknownName, UsageError
from telic.storage.files import replacing, write_json
from telic.storage.layout import MemberFolder, RunFolder, is_run
from telic.storage.reading import bounded_entries
from telic.storage.trajectories import RECORDED, Environment, Trajectory, write_trajectory
from telic.training.evaluate import UNLIMITED
from telic.training.folder import best_member, best_step
from telic.training.networks import Layer, Networks, Operation, Shape, distribution
from telic.training.population import Actor, Population, Scaling

if TYPE_CHECKING:
    from telic.training.pathwise import SquashedActor  # imports the trainer

FORMAT = 1
_MAX_LAYERS = 64
_MAX_WIDTH = 1 << 20
_MAX_NUMBERS = 1 << 28
_SHAPE = TypeAdapter(Shape)


class PolicyFacts(Record, extra="allow"):
    """Metadata of a policy file, which is never used to import code or open files."""

    env: str
    env_args: dict[str, Any] = Field(default={})
    step: int = 0
    dt_s: float | None = None
    obs_names: list[str]
    action_names: list[str] = Field(default=[])


class Policy:
    """Trained policy with observation normalization: `policy(obs) -> action`, single or batched.

    Accepts and returns NumPy arrays or tensors. Actions are deterministic (the mode) and within the
    action range. A policy trained to observe its reward's memory requires it as `memory`.
    """

    def __init__(self, saved: dict[str, Any]) -> None:
        self.facts: dict[str, Any] = {"env_args": {}, "step": 0, **saved["facts"]}
        shape: dict[str, Any] = saved["shape"]
        self.shape = Shape(**shape)._replace(hidden=tuple(shape["hidden"]))
        self.networks = _actor(self.shape)
        self.flat: Tensor = saved["flat"].unsqueeze(0)
        mask = saved["mask"]
        self.actor = Actor(
            self.networks.views(self.flat),
            Scaling(saved["shift"].view(1, 1, -1), saved["scale"].view(1, 1, -1)),
            self.shape.actor_inputs,
            None if mask is None else mask.view(1, 1, -1),
        )
        self.low: Tensor = saved["action_low"]
        self.high: Tensor = saved["action_high"]

    @property
    def obs_dim(self) -> int:
        """Size of the observation."""
        return len(self.facts["obs_names"])

    @property
    def memory_size(self) -> int:
        """Size of the reward memory that the policy observes, or 0 if it observes none."""
        mask, size = self.actor.mask, self.shape.actor_inputs - self.obs_dim
        is_used = size > 0 and (mask is None or bool(mask[0, 0, self.obs_dim :].any()))
        return size if is_used else 0

    @torch.no_grad()
    def __call__(self, obs: Any, memory: Any = None) -> Any:
        """Return the action (A,) for an observation (D,), or (N, A) for (N, D)."""
        plain = not isinstance(obs, Tensor)
        x = torch.as_tensor(np.require(obs, np.float32, "W") if plain else obs).float()
        if x.shape[-1] != self.obs_dim:
            raise UsageError(
                f"This policy expects observations of size {self.obs_dim}, not {x.shape[-1]}.",
                hint=f"It was trained on {self.facts['env']}.",
            )
        if self.memory_size:
            if memory is None:
                raise UsageError(
                    f"This policy observes {self.memory_size} values of its reward's memory.",
                    hint="Call policy(obs, memory), updating the memory with the reward.",
                )
            x = torch.cat((x, torch.as_tensor(memory).float()), dim=-1)
        x = torch.nn.functional.pad(x, (0, self.shape.actor_inputs - x.shape[-1]))
        action = self.forward(x.reshape(1, -1, x.shape[-1]))[0]
        action = action.reshape((*x.shape[:-1], *action.shape[1:]))
        return action.numpy() if plain else action

    def forward(self, inputs: Tensor) -> Tensor:
        """Normalize actor inputs (1, N, d), apply the network and scale to actions (1, N, A)."""
        seen = inputs.shape[-1]
        scaling = Scaling(
            self.actor.scaling.shift[..., :seen], self.actor.scaling.scale[..., :seen]
        )
        outputs = self.networks.act(self.actor.views, self.actor.part(scaling.apply(inputs)))
        outputs = distribution(self.shape).mode(outputs)
        if self.shape.discrete:
            return outputs.squeeze(-1)
        half, middle = (self.high - self.low) / 2.0, (self.high + self.low) / 2.0
        return middle + half * outputs.clamp(-1.0, 1.0)

    def program(self, seen: int) -> list[Operation]:
        """Return the operations from the first `seen` inputs to the deterministic action."""
        program = self.networks.program(self.actor.views)
        assert program[0].layer is not None
        assert program[-1].layer is not None
        narrow = program[0].layer._replace(weight=program[0].layer.weight[:, :seen])
        program[0] = Operation("affine", narrow)
        if self.shape.learner != "ppo":  # drop the log standard deviations
            means = (part[..., : self.shape.outputs] for part in program[-1].layer)
            program[-1:] = [Operation("affine", Layer(*means)), Operation("tanh")]
        return program

    def export(self, path: str | Path) -> Path:
        """Export to ONNX (.onnx) or NumPy (.npz) and verify the file against this policy."""
        from telic.training.export.files import export_policy

        return export_policy(self, Path(path))


def _actor(shape: Shape) -> Networks | SquashedActor:
    from telic.training.setup import LEARNERS  # imports the trainer

    if shape.learner not in LEARNERS:
        raise ValueError(f"a policy of the learner {shape.learner[:100]!r}")
    return LEARNERS[shape.learner].actor(shape)


def save_policy(
    path: Path,
    population: Population,
    member: int,
    low: Tensor,
    high: Tensor,
    facts: dict[str, Any],
) -> None:
    """Save a member's policy as plain tensors and metadata, without executable content."""
    actor = population.actor()
    saved = {
        "format": FORMAT,
        "facts": facts,
        "shape": population.shape._asdict(),
        "flat": population.flat[member].detach().cpu().clone(),
        "shift": actor.scaling.shift[member, 0].cpu().clone(),
        "scale": actor.scaling.scale[member, 0].cpu().clone(),
        "mask": None if actor.mask is None else actor.mask[member, 0].cpu().clone(),
        "action_low": low.cpu(),
        "action_high": high.cpu(),
    }
    with replacing(path) as temporary:
        torch.save(saved, temporary)


def store_policy(
    run: RunFolder, name: str, saved: Mapping[str, Any], settings: Mapping[str, Any]
) -> None:
    """Store a policy that telic train did not write as the best member `name` of a finished run."""
    facts = PolicyFacts.model_validate(saved["facts"])
    member, (config, _, seed) = MemberFolder(run.path / name), name.rpartition("_seed_")
    with replacing(member.checkpoint(facts.step)) as temporary:
        torch.save(dict(saved), temporary)
        load_policy(temporary)
    about = {"env": facts.env, "env_args": facts.env_args, "steps": facts.step}
    own = {"seed": int(seed), "reward": config, "settings": settings, "weights": {}}
    write_json(member.config, {**about, **own})
    write_json(run.summary, {"best_member": name, "total_timesteps": facts.step})
    write_json(run.status, {"status": "completed"})
    write_json(run.config, {**about, "members": []})  # last: it makes a run


def load_policy(path: str | Path, step: int | None = None) -> Policy:
    """Load a policy from a run folder (its best member), a member's folder or a .pt file.

    Args:
        path: run folder, member folder or policy file.
        step: checkpoint step. Defaults to the best evaluated checkpoint, or else the latest.
    """
    file = find_policy(Path(path), step)
    try:
        saved = read_tensors(file)
        if saved.get("format") != FORMAT:
            raise ValueError(f"unsupported format {saved.get('format')}, not {FORMAT}")
        _require_sound(saved)
        return Policy(dict(saved))
    except Exception as error:  # torch raises many exception types for invalid files
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise TelicError(f"{file} is not a telic policy: {reason[:300]}.") from error


def read_tensors(file: Path) -> Mapping[str, Any]:
    """Read named plain values and tensors (or lists of tensors) without running code.

    Raises ValueError for oversized contents, also in views that repeat a few stored numbers.
    """
    with zipfile.ZipFile(file) as archive:
        bounded_entries(archive)
    saved = torch.load(file, map_location="cpu", weights_only=True)
    if not is_mapping(saved):
        raise ValueError("it contains no named values")
    for name, value in saved.items():
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, Tensor) and part.nbytes > part.untyped_storage().nbytes():
                raise ValueError(f"{name} is larger than its file")
    return saved


def _require_sound(saved: Mapping[str, Any]) -> None:
    """Raise ValueError if types, network sizes or tensor shapes are invalid."""
    PolicyFacts.model_validate(saved["facts"])
    shape = _SHAPE.validate_python({**saved["shape"], "hidden": tuple(saved["shape"]["hidden"])})
    widths = (shape.actor_inputs, shape.critic_inputs, shape.outputs, *shape.hidden)
    if len(widths) > _MAX_LAYERS or not all(0 < width <= _MAX_WIDTH for width in widths):
        raise ValueError(f"networks of widths {widths}"[:200])
    inputs = max(shape.actor_inputs, shape.critic_inputs)
    sizes = {"flat": _actor(shape).size, "shift": inputs, "scale": inputs, "mask": inputs}
    sizes |= {} if shape.discrete else dict.fromkeys(("action_low", "action_high"), shape.outputs)
    for name in ("flat", "shift", "scale", "mask", "action_low", "action_high"):
        part = saved[name]
        if name == "mask" and part is None:
            continue
        if not isinstance(part, Tensor) or part.dim() != 1 or part.dtype != torch.float32:
            raise ValueError(f"{name} is not a row of numbers")
        if part.numel() != sizes.get(name, part.numel()) or part.numel() > _MAX_NUMBERS:
            raise ValueError(f"{name} has {part.numel()} values")


def find_policy(path: Path, step: int | None = None) -> Path:
    """Return the policy file for a run folder, member folder or file."""
    if path.is_file():
        return path
    if is_run(path):
        best = best_member(RunFolder(path))
        path = path if best is None else best.path
    member = MemberFolder(path)
    checkpoints = {artifact.step: artifact.path for artifact in member.checkpoints()}
    if not checkpoints:
        raise UsageError(
            f"No trained policy found in {path}.",
            hint="Pass a run folder, a member's folder or a policy_<step>.pt file.",
        )
    if step is None:
        step = best_step(member)
        step = step if step in checkpoints else max(checkpoints)
    if step not in checkpoints:
        raise UnknownName("checkpoint", str(step), list(map(str, checkpoints)))
    return checkpoints[step]


def record_episode(
    folder: MemberFolder,
    step: int | None,
    seed: int,
    environment: Environment,
    label: str | None = None,
) -> Path:
    """Record one episode, save it with the member's trajectories, and return the file.

    Args:
        folder: folder of the member.
        step: checkpoint step. Defaults to the best.
        seed: seed of the episode.
        environment: environment id and arguments.
        label: label of the episode. Defaults to "seed" and the seed.
    """
    file = find_policy(folder.path, step)
    policy = load_policy(file)
    if policy.memory_size:
        raise UsageError(
            "This policy observes its reward's memory, so it can only be run in evaluations.",
            hint="Omit --seed and --command to render a recorded episode.",
        )
    trajectory = play_episode(policy, seed, environment)
    path = folder.trajectory(policy.facts["step"], label or f"seed{seed}")
    write_trajectory(path, trajectory)
    return path


@torch.no_grad()
def play_episode(policy: Policy, seed: int, environment: Environment) -> Trajectory:
    """Roll out one episode with deterministic actions.

    The caller specifies the environment, because policy files must not name code to import.
    """
    env_id, env_args = environment
    env = make(env_id, num_envs=1, seed=seed, **env_args)
    try:
        fields = [name for name in RECORDED if name in env.spec.info_keys]
        columns: dict[str, list[torch.Tensor]] = {}
        obs = env.reset()
        for _ in range(env.max_episode_steps or UNLIMITED):
            action = policy(obs)
            result = env.step(action)
            row = {
                "obs": obs,
                "action": action,
                "next_obs": result.final_obs,
                "reward": result.reward,
                "terminated": result.terminated,
                "truncated": result.truncated,
                **{name: result.info[name] for name in fields},
            }
            for name, value in row.items():
                columns.setdefault(name, []).append(value)
            if bool(result.terminated | result.truncated):
                break
            obs = result.obs
        stacked = {name: torch.stack(values).numpy() for name, values in columns.items()}
        return cut_episode(
            stacked,
            0,
            len(stacked["reward"]),
            env.spec,
            environment,
            dt_s=env.spec.dt_s or 1.0,
            seed=seed,
            label=f"seed{seed}",
            global_step=policy.facts["step"],
            total_return=float(stacked["reward"].sum()),
        )
    finally:
        env.close()


# ---- velocity commands

_UNITS = {"forward": "m/s", "sideways": "m/s", "turn": "rad/s"}


def spans_of(env_args: Mapping[str, Any]) -> VelocityCommands:
    """Return a policy's command ranges. Raises UsageError if it was trained without commands."""
    if env_args.get("commands") is None:
        raise UsageError(
            "This policy was trained without velocity commands.",
            hint='Train one with commands: telic run "obey velocity commands" --env unitree-go1.',
        )
    return VelocityCommands.parse(env_args["commands"])


def read_command(text: str, spans: VelocityCommands) -> tuple[float, float, float]:
    """Parse a command such as "0.5,0,0": forward and left velocity (m/s), left yaw rate (rad/s)."""
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        values = []
    if len(values) != len(NAMES) or not all(map(math.isfinite, values)):
        raise UsageError(
            f'Invalid --command "{text}".',
            hint="Pass forward and left velocity in m/s and left yaw rate in rad/s: --command "
            "0.5,0,0.",
        )
    for name, value in zip(NAMES, values, strict=True):
        low, high = getattr(spans, name)
        if not min(low, 0.0) <= value <= max(high, 0.0):
            raise UsageError(
                f"{name} command {value:g} is outside the range of this policy, {low:g} to "
                f"{high:g} {_UNITS[name]}.",
                hint="Use a command within the range, or train with larger commands.",
            )
    ahead, aside, turn = values
    return ahead, aside, turn


def with_command(env_args: Mapping[str, Any], command: Sequence[float]) -> dict[str, Any]:
    """Return environment arguments with a constant velocity command."""
    same = {name: [value, value] for name, value in zip(NAMES, command, strict=True)}
    return {**env_args, "commands": {**same, "still": 0.0, "heading": 0.0}}


def commanded_episode(
    folder: MemberFolder, step: int | None, seed: int, environment: Environment, text: str
) -> Path:
    """Record an episode under a constant command such as "0.5,0,0" and return the file."""
    env, env_args = environment
    given = with_command(env_args, read_command(text, spans_of(env_args)))
    return record_episode(folder, step, seed, (env, given), label="told")  # language: quoted
