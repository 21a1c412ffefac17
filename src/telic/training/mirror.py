"""Mirror symmetry for PPO: every sample is also used with left and right exchanged.

Joints are paired using the model, which defines the mirror image of a state. Observation columns
are matched in simulation: random actions are applied to states, mirrored actions to mirrored
states, and each column must equal a column of the mirrored robot up to sign. The same steps verify
the symmetry: states, rewards and observations must agree, or BadEnvironment is raised.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import mujoco
import numpy as np
import torch
from torch import Tensor

from telic.core.tensors import integers
from telic.envs.mujoco import MujocoEnv
from telic.envs.spec import Robot
from telic.envs.vector import VecEnv
from telic.errors import BadEnvironment
from telic.training.rollout import ActionMap, Scoring

_FLIP = np.array([1.0, -1.0, 1.0])
_NEAR_M, _PARALLEL = 0.02, 0.98
"""tolerances for pairing joints, because the sides of models differ by millimeters"""
STATES = 128
"""number of pairs of states for finding and verifying a mirror symmetry"""
_AGREES = 0.05
"""largest mean difference of mirrored values, relative to their size"""


class SignedOrder(NamedTuple):
    """Signed permutation of columns. Output i is input column `index[i]` times `sign[i]`.

    `index` and `sign` have shape (columns,), or (P, 1, columns) for a population.
    """

    index: Tensor
    sign: Tensor

    def apply(self, rows: Tensor) -> Tensor:
        """Mirror rows (..., columns)."""
        return rows.gather(-1, self.index.expand_as(rows)) * self.sign


class Mirror(NamedTuple):
    """Mirror symmetry of inputs and of actions in units of half the action range."""

    inputs: SignedOrder
    actions: SignedOrder

    @classmethod
    def of(cls, members: Sequence[Mirror], device: torch.device) -> Mirror:
        """Stack the mirrors of a population's members."""

        def joined(orders: list[SignedOrder]) -> SignedOrder:
            parts = zip(*orders, strict=True)
            return SignedOrder(*(torch.stack(part).unsqueeze(1).to(device) for part in parts))

        return cls(
            joined([one.inputs for one in members]), joined([one.actions for one in members])
        )


def joint_partners(model: mujoco.MjModel, facts: Robot, name: str) -> SignedOrder:
    """Return the mirrored counterpart of each limb. Raises BadEnvironment if a limb has none.

    The mirror plane is the robot's x-z plane. A reflection M maps a rotation about an axis a to a
    rotation by the same angle about -M a, and a slide along a to a slide along M a.
    """
    data = mujoco.MjData(model)
    data.qpos[:] = facts.rest_qpos
    joints = {int(model.jnt_qposadr[j]): j for j in range(model.njnt)}
    own = [joints[limb.qpos] for limb in facts.limbs]
    for limb in facts.limbs:
        data.qpos[limb.qpos] = 0.0
    mujoco.mj_forward(model, data)
    places, axes = data.xanchor[own], data.xaxis[own]
    middle = float(data.xpos[facts.torso or 0][1])
    index, signs = list[int](), list[float]()
    for limb, joint, place, axis in zip(facts.limbs, own, places, axes, strict=True):
        shown = np.array([place[0], 2.0 * middle - place[1], place[2]])
        is_slide = model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_SLIDE
        along = (1.0 if is_slide else -1.0) * _FLIP * axis
        off = np.linalg.norm(places - shown, axis=-1)
        off[np.abs(axes @ along) <= _PARALLEL] = np.inf
        # If both sides lie in the mirror plane, as in planar robots, choose the other joint.
        near = [int(i) for i in np.flatnonzero(off <= max(off.min(), 1e-6) + 1e-6)]
        best = next((i for i in near if own[i] != joint), near[0] if near else 0)
        if not near or off[best] > _NEAR_M:
            raise BadEnvironment(
                f"{name} is not symmetric: {limb.name} has no mirrored counterpart."
            )
        index.append(best)
        signs.append(float(np.sign(axes[best] @ along)))
    return SignedOrder(torch.tensor(index, dtype=torch.long), torch.tensor(signs))


def mirrored_state(model: mujoco.MjModel, facts: Robot, name: str) -> tuple[SignedOrder, ...]:
    """Return the mirror symmetries of qpos and qvel. Raises BadEnvironment if there are none."""
    partners, root = joint_partners(model, facts, name), facts.root
    qpos, qvel = (SignedOrder(torch.arange(n), torch.ones(n)) for n in (model.nq, model.nv))
    seen = {slide.qpos for slide in root.slides}
    for slide in root.slides:
        if slide.axis == "y":
            qpos.sign[slide.qpos] = qvel.sign[slide.dof] = -1.0
    if root.quaternion is not None and root.spin is not None:
        seen |= set(range(root.quaternion, root.quaternion + 4))
        qpos.sign[[root.quaternion + 1, root.quaternion + 3]] = -1.0
        qvel.sign[[root.spin, root.spin + 2]] = -1.0
    elif root.hinge is not None:
        seen.add(root.hinge.qpos)
        if root.hinge.axis != "y":
            qpos.sign[root.hinge.qpos] = qvel.sign[root.hinge.dof] = -1.0
    for place, limb in enumerate(facts.limbs):
        other = facts.limbs[int(partners.index[place])]
        qpos.index[limb.qpos], qvel.index[limb.dof] = other.qpos, other.dof
        qpos.sign[limb.qpos] = qvel.sign[limb.dof] = partners.sign[place]
        seen.add(limb.qpos)
    if seen != set(range(model.nq)):
        raise BadEnvironment(f"{name} has joints outside the robot that cannot be mirrored.")
    if torch.equal(qpos.index, torch.arange(model.nq)) and root.quaternion is None:
        raise BadEnvironment(f"{name} does not have a left and a right side.")
    return qpos, qvel


def _mirrored_actions(model: mujoco.MjModel, facts: Robot, name: str) -> SignedOrder:
    partners = joint_partners(model, facts, name)
    joints = {int(model.jnt_qposadr[j]): j for j in range(model.njnt)}
    limbs = {joints[limb.qpos]: place for place, limb in enumerate(facts.limbs)}
    kinds = [int(mujoco.mjtTrn.mjTRN_JOINT), int(mujoco.mjtTrn.mjTRN_JOINTINPARENT)]
    driven = [int(model.actuator_trnid[i, 0]) for i in range(model.nu)]
    for i, joint in enumerate(driven):
        if int(model.actuator_trntype[i]) not in kinds or joint not in limbs:
            raise BadEnvironment(f"The actuator {model.actuator(i).name} drives several joints.")
    by_limb = {limbs[joint]: i for i, joint in enumerate(driven)}
    index = [by_limb.get(int(partners.index[limbs[joint]]), -1) for joint in driven]
    if -1 in index or len(by_limb) < model.nu:
        raise BadEnvironment(f"The actuators of {name} are not symmetric.")
    return SignedOrder(torch.tensor(index), partners.sign[[limbs[joint] for joint in driven]])


@torch.no_grad()
def find_mirror(env: VecEnv, scoring: Scoring) -> Mirror:
    """Find and verify the mirror symmetry of samples on a separate environment.

    Args:
        env: 2 x `STATES` environments on flat ground without domain randomization.
        scoring: reward of one member for all environments.

    Raises BadEnvironment with a description of the asymmetry.
    """
    if not isinstance(env, MujocoEnv) or env.driver is not None or env.act_dim != env.model.nu:
        raise BadEnvironment("Mirroring is only supported for robots simulated by telic.")
    if env.task.arguments.phase_hz:
        raise BadEnvironment("The policy observes a phase variable that cannot be mirrored.")
    model, facts, name = env.model, env.robot, env.spec.id
    qpos, qvel = mirrored_state(model, facts, name)
    actions, to_env = _mirrored_actions(model, facts, name), ActionMap(env)
    random = torch.Generator().manual_seed(0)
    start, speed = _random_states(facts, model.nv, random)
    task: Any = env.task
    if getattr(task, "commanded", None) is not None or getattr(task.arguments, "commands", None):
        asked = torch.rand(STATES, 3, generator=random, dtype=torch.float64) - 0.5
        task.commanded = torch.cat((asked, asked * torch.tensor([1.0, -1.0, -1.0])))
    obs = env.place(
        torch.cat((start, qpos.apply(start))).double(),
        torch.cat((speed, qvel.apply(speed))).double(),
    )
    scoring.reset(torch.ones(1, 2 * STATES, dtype=torch.bool))
    rows, scores, apart = list[Tensor](), list[Tensor](), list[Tensor]()
    live = torch.ones(STATES, dtype=torch.bool)
    for _ in range(2 + int(getattr(task.arguments, "history", 1))):
        seen = scoring.inputs(obs, None, torch.empty(1, 2 * STATES, scoring.critic_inputs))
        rows.append(seen.view(2, STATES, -1)[:, live])
        action = 0.5 * torch.randn(STATES, env.act_dim, generator=random).clamp(-2.0, 2.0)
        both = to_env(torch.cat((action, actions.apply(action))))
        step = env.step(both)
        score = scoring.score(obs, both, step)
        terms = torch.cat((score.total.view(-1, 1), score.terms[0]), dim=1)
        scores.append(terms.view(2, STATES, -1)[:, live])
        after = step.info["qpos"].float().view(2, STATES, -1)
        way = (after[0] - start).abs().mean(0).clamp_min(1e-3)
        apart.append(((qpos.apply(after[0]) - after[1]).abs() / way)[live].median(0).values)
        # The states of a pair no longer correspond after an episode ends.
        ends = (step.terminated | step.truncated).view(2, STATES).any(0)
        live, obs = live & ~ends, step.obs
        scoring.reset(ends.repeat(2).view(1, -1))
        if int(live.sum()) < STATES // 4:
            break
    worst = torch.stack(apart).amax(0)
    if float(worst.max()) > _AGREES:
        raise BadEnvironment(
            f"{name} is not symmetric: after mirrored actions from mirrored states, "
            f"qpos[{int(worst.argmax())}] deviates by {float(worst.max()):.0%} of the change."
        )
    left, right = torch.cat(scores, dim=1)
    off = (left - right).abs().mean(0)
    if float(off[0]) > _AGREES * float(left[:, 0].std()) + 1e-5:
        of = f" ({scoring.term_names[0][int(off[1:].argmax())]})" if len(off) > 1 else ""
        raise BadEnvironment(
            f"The reward differs between left and right{of}, so samples cannot be mirrored.",
            hint="Disable `mirror`, because the task is not symmetric.",
        )
    names = [*env.spec.obs_names, *(f"memory {i}" for i in range(scoring.critic_inputs))]
    left, right = torch.cat(rows, dim=1).double()
    return Mirror(_matched(left, right, names), actions)


def _random_states(facts: Robot, dofs: int, random: torch.Generator) -> tuple[Tensor, Tensor]:
    """Sample velocities, and poses around the resting pose with random tilt and height."""
    qpos = torch.tensor(facts.rest_qpos).float().expand(STATES, -1).clone()
    for limb in facts.limbs:
        low, high = limb.range or (-0.6, 0.6)
        bend = qpos[:, limb.qpos] + 0.6 * (2.0 * torch.rand(STATES, generator=random) - 1.0)
        qpos[:, limb.qpos] = bend.clamp(low + 0.02, max(high - 0.02, low + 0.02))
    root, lift = facts.root, 0.5 * (facts.rest_height or 0.5)
    for slide in root.slides:
        if slide.axis == "z":
            qpos[:, slide.qpos] += lift * (torch.rand(STATES, generator=random) - 0.8)
    if root.quaternion is not None:
        turned = slice(root.quaternion, root.quaternion + 4)
        qpos[:, turned] += 0.3 * torch.randn(STATES, 4, generator=random)
        qpos[:, turned] /= qpos[:, turned].square().sum(1, keepdim=True).sqrt()
    return qpos, 0.5 * torch.randn(STATES, dofs, generator=random)


def _matched(left: Tensor, right: Tensor, names: list[str]) -> SignedOrder:
    """Match columns (N, d) of states and mirrored states up to sign."""
    count = left.shape[1]
    index, sign = torch.arange(count), torch.zeros(count)
    size = right.abs().mean(0)
    is_seen = (size > 1e-5) | (left.abs().mean(0) > 1e-5)  # constant zero columns stay zero
    off = torch.stack(
        [
            torch.stack([(left * s - column).abs().mean(0) for s in (1.0, -1.0)]) / (width + 1e-6)
            for column, width in zip(right.T.unsqueeze(-1), size, strict=True)
        ]
    )
    for column in integers(is_seen.nonzero().flatten()):
        if float(sign[column]):
            continue
        own = off[column]
        if float(own.min()) > _AGREES:
            raise BadEnvironment(
                f'The observation "{names[column]}" has no mirror image: the nearest column of '
                f"the mirrored robot deviates by {float(own.min()):.0%}."
            )
        # Among equal matches, prefer the same column, then an unmatched reciprocal match.
        close = (own <= own.min() + 1e-3) & (sign == 0) & (off[:, :, column].T <= _AGREES)
        found = [(int(s), int(k)) for s, k in close.nonzero()]
        if not found:
            raise BadEnvironment(f'"{names[column]}" has no unique mirrored counterpart.')
        s, k = min(found, key=lambda each: (each[1] != column, float(own[each])))
        index[column], index[k] = k, column
        sign[column] = sign[k] = 1.0 - 2.0 * s
    return SignedOrder(index, sign)
