"""Token actions: motion tokens that a frozen decoder converts to joint targets.

A motion tracker contains a decoder from a token and proprioception to joint targets.
`telic track export --tokens` writes the decoder next to a copy of the robot's model, which refers
to the file in a text element. Actions of an environment with that model are continuous tokens
before quantization, each value within the range observed in motions.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

import mujoco
import numpy as np
import torch
from torch import Tensor

from telic.core.config import Record
from telic.core.quantizer import Quantizer
from telic.core.rotations import conjugate, gravity_direction, rotate
from telic.core.tensors import split
from telic.envs.spec import Robot
from telic.errors import BadFile
from telic.robots.structure import model_text
from telic.sim.base import Simulation
from telic.sim.files import TOKENS
from telic.storage.reading import bounded_entries, check_file

SENSES = (
    *("angular_velocity", "linear_velocity", "gravity"),
    *("joint_position", "joint_velocity", "last_action"),
)
"""Observation terms available to a decoder."""
_PAST, _LAST = "token past", "token action"
_AXES = "xyz"
_CLIP = 10.0
"""Clipping range of normalized observations, as in training."""


class DecoderFacts(Record):
    """Header of a decoder file."""

    schema_version: int = 1
    source: str
    """Tracker from which the decoder was exported."""
    control_s: float
    levels: int
    senses: tuple[str, ...]
    """Observation terms, in order."""
    history: int
    qpos: tuple[int, ...]
    """Columns of the observed joints in qpos."""
    dofs: tuple[int, ...]
    layers: int


class TokenDriver:
    """Decode tokens to controls, with the state kept in the task's memory."""

    def __init__(self, file: Path, sim: Simulation, robot: Robot) -> None:
        self.facts, values = read_decoder(file)
        device = sim.device
        self._fields = sim.field("qpos"), sim.field("qvel")
        self._root = robot.root
        tensors = {
            name: torch.as_tensor(np.asarray(value, dtype=np.float32), device=device)
            for name, value in values.items()
        }
        self._rest, self._shift, self._scale = (tensors[n] for n in ("rest", "shift", "scale"))
        self._base, self._reach = tensors["base"], tensors["reach"]
        count = self.facts.layers
        self._layers = [(tensors[f"weight_{i}"], tensors[f"bias_{i}"]) for i in range(count)]
        self._qpos = torch.tensor(self.facts.qpos, device=device)
        self._dofs = torch.tensor(self.facts.dofs, device=device)
        self._axis = torch.zeros(3, device=device)
        if self._root.hinge is not None:
            self._axis[_AXES.index(self._root.hinge.axis)] = 1.0
        self.quantizer = Quantizer(self.facts.levels)
        self.limits = np.stack((values["low"], values["high"]), axis=1)
        """Action limits, (width, 2)."""
        if len(self._base) != int(sim.model.nu):
            raise BadFile(
                f"{file} controls {len(self._base)} joints, but the robot has {sim.model.nu}.",
                hint="Export both again with: telic track export --tokens",
            )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the action columns."""
        return tuple(f"token {place}" for place in range(len(self.limits)))

    def memory(self, num_envs: int) -> dict[str, Tensor]:
        """Return the initial state for N robots."""
        width = len(self._shift) // self.facts.history
        past = torch.zeros(num_envs, self.facts.history - 1, width, device=self._shift.device)
        return {_PAST: past, _LAST: past.new_zeros(num_envs, len(self._base))}

    def control(self, action: Tensor, fresh: Tensor, memory: dict[str, Tensor]) -> Tensor:
        """Return joint targets, (N, nu), for tokens before quantization, (N, width).

        Where `fresh` is true, the last action is zero and the history repeats the observation.
        """
        begins = fresh[:, None]
        last = memory[_LAST].masked_fill(begins, 0.0)
        now = self._senses(last)
        past = torch.where(begins[:, None], now[:, None], memory[_PAST])
        # Oldest first and grouped by term, the order used by trackers.
        history = torch.cat((now[:, None], past), dim=1).flip(1)
        parts = split(history, self._widths(), dim=2)
        senses = torch.cat([part.flatten(1) for part in parts], dim=1)
        seen = ((senses - self._shift) * self._scale).clamp(-_CLIP, _CLIP)
        x = torch.cat((self.quantizer.snap(action.float()), seen), dim=1)
        for weight, bias in self._layers[:-1]:
            x = torch.nn.functional.silu(torch.addmm(bias, x, weight))
        weight, bias = self._layers[-1]
        done = torch.addmm(bias, x, weight).clamp(-1.0, 1.0)
        memory[_LAST] = done
        if self.facts.history > 1:
            memory[_PAST] = torch.cat((now[:, None], past[:, :-1]), dim=1)
        return (self._base + done * self._reach).to(self._fields[0].dtype)

    def _widths(self) -> list[int]:
        joints, driven = len(self._qpos), len(self._base)
        sizes = dict(zip(SENSES, (3, 3, 3, joints, joints, driven), strict=True))
        return [sizes[name] for name in self.facts.senses]

    def _senses(self, last: Tensor) -> Tensor:
        """Return the current proprioceptive observation, (N, k)."""
        qpos, qvel = (field.float() for field in self._fields)
        root = self._root
        if root.quaternion is not None and root.spin is not None:
            quaternion = qpos[:, root.quaternion : root.quaternion + 4]
            turning = qvel[:, root.spin : root.spin + 3]
        else:
            quaternion = torch.zeros(len(qpos), 4, device=qpos.device)
            quaternion[:, 0] = 1.0
            turning = torch.zeros(len(qpos), 3, device=qpos.device)
            if root.hinge is not None:
                half = 0.5 * (root.hinge.offset + root.hinge.sign * qpos[:, root.hinge.qpos])
                quaternion[:, 0] = half.cos()
                quaternion[:, 1:] = half.sin()[:, None] * self._axis
                # A rotation about a fixed axis leaves that axis unchanged.
                turning = root.hinge.sign * qvel[:, root.hinge.dof, None] * self._axis
        moving = torch.zeros(len(qpos), 3, device=qpos.device)
        for slide in root.slides:
            moving[:, _AXES.index(slide.axis)] = slide.sign * qvel[:, slide.dof]
        values = {
            "angular_velocity": turning,
            "linear_velocity": rotate(conjugate(quaternion), moving),
            "gravity": gravity_direction(quaternion),
            "joint_position": qpos[:, self._qpos] - self._rest,
            "joint_velocity": qvel[:, self._dofs],
            "last_action": last,
        }
        return torch.cat([values[name] for name in self.facts.senses], dim=1)


def token_file(model: mujoco.MjModel, path: str) -> Path | None:
    """Return the decoder file of a model, or None if it has none."""
    name = model_text(model, TOKENS)
    return None if name is None else Path(path).expanduser().absolute().parent / name


def write_decoder(file: Path, facts: DecoderFacts, values: dict[str, np.ndarray]) -> None:
    """Write a decoder to an npz file."""
    arrays: dict[str, Any] = {"facts": np.array(facts.model_dump_json()), **values}
    np.savez(file, **arrays)


def read_decoder(file: Path) -> tuple[DecoderFacts, dict[str, np.ndarray]]:
    """Read a decoder without unpickling. Raises BadFile if it is invalid."""
    try:
        check_file(file)
        with ZipFile(file) as archive:
            bounded_entries(archive)
        with np.load(file, allow_pickle=False) as found:
            values = {name: np.asarray(found[name]) for name in found.files}
        facts = DecoderFacts.model_validate(json.loads(str(values.pop("facts"))))
    except (OSError, ValueError, KeyError, BadZipFile) as error:
        raise BadFile(
            f"{file} is not a token decoder, or the file is corrupted ({type(error).__name__}).",
            hint="Export it again with: telic track export --tokens",
        ) from error
    if unknown := [name for name in facts.senses if name not in SENSES]:
        raise BadFile(f"{file} uses the unsupported observation {unknown[0]}.")
    return facts, values
