"""Build the rows that policies and critics see: the moment, its terms, noise and the past."""

from __future__ import annotations

import torch
from torch import Tensor

from telic.core.seeds import uniform
from telic.core.tensors import split
from telic.tracking.config import TrackingConfig
from telic.tracking.observations import (
    NOISY,
    SENSED,
    TOLD,
    RowColumns,
    RowFacts,
    TrackingMoment,
)
from telic.tracking.parts import TrackedParts
from telic.tracking.reference import BodyFrames, ReferenceTable

_NOISE = 22
"""stream of random numbers"""
_PERSON = ("human_points", "human_turns")


class RowView:
    """Looks at N robots and their references; what it remembers lies in the task's memory."""

    def __init__(
        self,
        config: TrackingConfig,
        parts: TrackedParts,
        table: ReferenceTable,
        dt: float,
        *,
        playing: bool,
    ) -> None:
        self.parts, self.table = parts, table
        device, command, seen = table.frames.device, config.command, config.observations
        self.columns = RowColumns(config, row_facts(config, parts, table.person_points))
        steps = torch.arange(max(command.frames, command.human_frames), device=device)
        self._ahead = steps[: command.frames] * max(1, round(command.spacing_s / dt))
        self._human_ahead = steps[: command.human_frames] * max(
            1, round(command.human_spacing_s / dt)
        )
        encoders = config.networks.encoders.values()
        needs = [any(name in _PERSON for name in each.terms) for each in encoders]
        self._needs = torch.tensor(needs, device=device)
        self.available = torch.zeros(table.clips, len(needs), device=device)
        """(clips, encoders) 1 where an encoder has something to see"""
        self.find_available()
        columns = self.columns
        amount = [seen.policy[name] for name, k in columns.policy.items() for _ in range(k)]
        silent = [0.0] * sum(columns.past.values())
        told = [
            seen.command_noise if name in NOISY else 0.0
            for name, width in columns.told.items()
            for _ in range(width)
        ]
        self.sensed = len(amount) + len(silent)
        """numbers that have a past"""
        self._noise = torch.tensor([*amount, *silent, *told], device=device)
        self._is_noisy = not playing and any((*amount, *told))
        limbs = parts.robot.facts.limbs
        self._qpos = torch.tensor([limb.qpos for limb in limbs], device=device)
        self._dofs = torch.tensor([limb.dof for limb in limbs], device=device)
        self._rest = torch.tensor(parts.robot.home.joint_pos, device=device)
        self._reach = parts.action_size * config.robot.action_limit
        self._is_offset = config.robot.action_base == "reference"
        self._numbers = torch.arange(self.available.shape[1], device=device)
        self._back = torch.arange(columns.history - 1, -1, -1, device=device)

    def find_available(self) -> None:
        """Find out anew which encoders have something to see of which clips."""
        there = self.table.has_person[:, None]
        # Where nobody was recorded at all, a stick figure stands in for everybody.
        there = there | ~self.table.has_person.any()
        self.available.copy_((there | ~self._needs).float())

    def moment(
        self,
        qpos: Tensor,
        qvel: Tensor,
        bodies: BodyFrames,
        frame: Tensor,
        memory: dict[str, Tensor],
    ) -> TrackingMoment:
        """Return robots beside what they are to follow, from their place in a clip, (N,)."""
        table, parts, clip = self.table, self.parts, memory["clip"][:, None]
        ahead = table.rows(clip, frame[:, None] + self._ahead)
        human = table.rows(clip, frame[:, None] + self._human_ahead)
        future = table.pose(ahead)
        joint_pos = qpos[:, self._qpos].float() - self._rest
        return TrackingMoment(
            parts=parts,
            root=parts.root(qpos.float(), qvel.float()),
            joint_pos=joint_pos.index_add(1, parts.action_joints, memory["offset"]),
            joint_vel=qvel[:, self._dofs].float(),
            action=memory["action"],
            bodies=bodies,
            now=type(future)._make(part[:, 0] for part in future),
            future=future,
            future_fine=table.pose(human).joint_pos[..., parts.fine],
            person=table.person(human),
            target=table.bodies(ahead[:, 0]),
        )

    def rows(
        self, moment: TrackingMoment, memory: dict[str, Tensor], age: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the rows (N, width), and what was sensed now, (N, k), to be remembered."""
        columns = self.columns
        sensed = [SENSED[name].value(moment) for name in (*columns.policy, *columns.past)]
        values = {
            name: TOLD[name].value(moment)
            for name in dict.fromkeys((*columns.told, *columns.critic))
        }
        both = torch.cat((*sensed, *(values[name] for name in columns.told)), dim=1)
        if self._is_noisy:
            u = uniform(memory["key"], age, both.shape[1], stream=_NOISE).float()
            both = both + (2.0 * u - 1.0) * self._noise
        now, told = both[:, : self.sensed], both[:, self.sensed :]
        sizes = [sum(columns.policy.values()), sum(columns.past.values())]
        senses, past = split(self._remembered(now, memory["past"], age), sizes, dim=2)
        guide = () if self.columns.guided == 0 else (self.guide(memory, age),)
        rows = torch.cat(
            (
                _by_term(senses, list(columns.policy.values())),
                (memory["encoder"][:, None] == self._numbers).float(),
                self.available[memory["clip"]],
                told,
                *(values[name] for name in columns.critic),
                _by_term(past, list(columns.past.values())),
                *(values[name] for name in columns.target),
                *guide,
            ),
            dim=1,
        )
        return rows, now

    def guide(self, memory: dict[str, Tensor], age: Tensor) -> Tensor:
        """Return the actions (N, A) that aim at the next frame's joints, ahead by drives' lag."""
        parts = self.parts
        rows = self.table.rows(memory["clip"], memory["frame"] + age + 1)
        pose, driven = self.table.pose(rows), parts.action_joints
        aim = pose.joint_vel[:, driven] * parts.action_lag
        if not self._is_offset:
            aim = aim + pose.joint_pos[:, driven] - self._rest[driven]
        return (aim / self._reach).clamp(-1.0, 1.0)

    def _remembered(self, now: Tensor, past: Tensor, age: Tensor) -> Tensor:
        """Return what was sensed lately, oldest first, (N, H, k); the first fills what is before.

        At age a only the last a steps are of this episode.
        """
        if self.columns.history == 1:
            return now[:, None]
        stack = torch.cat((now[:, None], past), dim=1)
        index = torch.minimum(self._back[None], age[:, None])
        return stack.gather(1, index[..., None].expand(-1, -1, now.shape[1]))


def row_facts(config: TrackingConfig, parts: TrackedParts, person: int) -> RowFacts:
    """Return what the widths of rows follow from."""
    return RowFacts(
        joints=parts.joints,
        actions=len(parts.action_joints),
        bodies=len(parts.bodies),
        points=len(parts.points),
        person=person,
        lower=len(parts.lower),
        fine=len(parts.fine),
        frames=config.command.frames,
        human_frames=config.command.human_frames,
    )


def _by_term(history: Tensor, widths: list[int]) -> Tensor:
    """Return histories (N, H, k) flattened term by term, (N, H * k)."""
    return torch.cat([part.flatten(1) for part in split(history, widths, dim=2)], dim=1)
