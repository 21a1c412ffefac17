"""How much room for contacts a model needs on a GPU, where it is fixed beforehand."""

from __future__ import annotations

from typing import NamedTuple

import mujoco
import torch
from torch import Tensor

from telic.core.seeds import derive
from telic.core.tensors import from_numpy, norm
from telic.sim.cpu import CpuSimulation

_TRIAL_SIMS = 32
_TRIAL_STEPS = 60
_TRIAL_SUBSTEPS = 5
_MARGIN = 1.5
_ROWS_MULTIPLE = 16  # constraint rows are padded to tiles of this size anyway
_FEWEST_CONTACTS = 4
_FEWEST_ROWS = 48  # for models that touch anything; costs 1 % of HalfCheetah's speed


class Room(NamedTuple):
    """Space for contacts on a GPU, fixed for the lifetime of a simulation."""

    contacts: int
    """per simulation on average: all simulations share one store"""
    rows: int
    """constraint rows per simulation: no simulation may have more"""


def room_for(model: mujoco.MjModel) -> Room:
    """Find out how many contacts a model makes: tumble it on the CPU for a moment."""
    sim = CpuSimulation(model, _TRIAL_SIMS, num_threads=1)
    contacts, rows = sim.field("ncon"), sim.field("nefc")
    generator = torch.Generator().manual_seed(derive("room"))
    sim.reset(torch.ones(_TRIAL_SIMS, dtype=torch.bool), *_tumbled(model, generator))
    low, high = from_numpy(model.actuator_ctrlrange.T.copy())
    limited = from_numpy(model.actuator_ctrllimited.astype(bool))
    low, high = torch.where(limited, low, -1.0), torch.where(limited, high, 1.0)
    most_contacts = most_rows = 0
    for _ in range(_TRIAL_STEPS):
        share = torch.rand(_TRIAL_SIMS, model.nu, generator=generator, dtype=torch.float64)
        sim.step(low + (high - low) * share, _TRIAL_SUBSTEPS)
        most_contacts = max(most_contacts, int(contacts.max()))
        most_rows = max(most_rows, int(rows.max()))
    rows_needed = -(-int(_MARGIN * most_rows + 1) // _ROWS_MULTIPLE) * _ROWS_MULTIPLE
    if most_contacts:
        rows_needed = max(_FEWEST_ROWS, rows_needed)
    return Room(max(_FEWEST_CONTACTS, int(_MARGIN * most_contacts)), rows_needed)


def _tumbled(model: mujoco.MjModel, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return poses in which robots fall every way: half as they stand, half turned at random."""
    rows = _TRIAL_SIMS
    qpos = torch.tensor(model.qpos0).repeat(rows, 1)
    turned = slice(rows // 2, rows)
    for joint in range(model.njnt):
        kind, first = model.jnt_type[joint], int(model.jnt_qposadr[joint])
        if kind == mujoco.mjtJoint.mjJNT_FREE or kind == mujoco.mjtJoint.mjJNT_BALL:
            first += 3 if kind == mujoco.mjtJoint.mjJNT_FREE else 0
            turn = torch.randn(rows // 2, 4, generator=generator, dtype=torch.float64)
            qpos[turned, first : first + 4] = turn / norm(turn, dim=1, keepdim=True)
        elif kind == mujoco.mjtJoint.mjJNT_HINGE:
            low, high = model.jnt_range[joint] if model.jnt_limited[joint] else (-1.5, 1.5)
            share = torch.rand(rows // 2, generator=generator, dtype=torch.float64)
            qpos[turned, first] = low + (high - low) * share
    return qpos, torch.zeros(rows, model.nv, dtype=torch.float64)
