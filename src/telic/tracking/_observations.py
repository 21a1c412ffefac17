"""Observations of the policy and the critic: terms, column layout, noise and history."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from telic.core.rotations import conjugate, element, heading, multiply, rotate
from telic.core.seeds import uniform
from telic.core.tensors import split
from telic.errors import UnknownName
from telic.motions.clip import MotionFrames
from telic.motions.kinematics import BodyStates
from telic.tracking._parts import RootState, TrackedParts
from telic.tracking._reference import HumanFrames, ReferenceTable
from telic.tracking._tokens import TokenShape
from telic.tracking.config import TrackingConfig

NOISY = ("future_turns", "anchor_turn", "human_points", "human_turns")
"""command terms with noise, because a real robot must measure their inputs"""


@dataclass(frozen=True, slots=True)
class TrackingMoment:
    """States of N robots and their references at one time."""

    parts: TrackedParts
    root: RootState
    joint_pos: Tensor
    """joint positions (N, J) relative to the default pose"""
    joint_vel: Tensor
    action: Tensor
    """previous action (N, A)"""
    bodies: BodyStates
    """states of the robot's tracked bodies"""
    now: MotionFrames
    """current reference frame"""
    future: MotionFrames
    """future reference frames (N, F, ...)"""
    future_fine: Tensor
    """future positions of the fine joints (N, Fh, fine joints)"""
    person: HumanFrames
    """frames of the person (N, Fh, ...)"""
    target: BodyStates
    """reference bodies at the time of `bodies`"""


class RowFacts(NamedTuple):
    """Sizes that determine the widths of observation terms."""

    joints: int
    actions: int
    bodies: int
    points: int
    person: int
    lower: int
    fine: int
    frames: int
    human_frames: int


@dataclass(frozen=True, slots=True)
class ObservationTerm:
    """Observation term with functions that return its width and its value."""

    width: Callable[[RowFacts], int]
    value: Callable[[TrackingMoment], Tensor]


def six(quat: Tensor) -> Tensor:
    """Return rotations in 6D (..., 6): two columns of the rotation matrix, row by row."""
    return torch.stack([element(quat, row, column) for row in range(3) for column in (0, 1)], -1)


def turned(robot: Tensor, reference: Tensor) -> Tensor:
    """Return reference orientations (N, F, 4) relative to robots (N, 4) in 6D, shape (N, F * 6)."""
    return six(multiply(conjugate(robot)[:, None].expand_as(reference), reference)).flatten(1)


def _gravity(m: TrackingMoment) -> Tensor:
    down = torch.zeros_like(m.root.pos)
    down[:, 2] = -1.0
    return rotate(conjugate(m.root.quat), down)


def future_joints(future: MotionFrames) -> Tensor:
    """Return joint positions and velocities frame by frame, shape (N, F * 2J)."""
    return torch.cat((future.joint_pos, future.joint_vel), dim=-1).flatten(1)


def _future_places(m: TrackingMoment) -> Tensor:
    """Return future root displacements in the heading frame of the reference."""
    way = m.future.root_pos - m.now.root_pos[:, None]
    return rotate(conjugate(heading(m.now.root_quat))[:, None], way).flatten(1)


def _lower_joints(m: TrackingMoment) -> Tensor:
    both = (m.future.joint_pos[..., m.parts.lower], m.future.joint_vel[..., m.parts.lower])
    return torch.cat(both, dim=-1).flatten(1)


def local_points(bodies: BodyStates, parts: TrackedParts) -> Tensor:
    """Return the tracked points in the root frame, shape (N, points, 3)."""
    chosen = parts.points
    places = bodies.pos[:, chosen] + rotate(bodies.quat[:, chosen], parts.offsets)
    return rotate(conjugate(bodies.quat[:, :1]), places - bodies.pos[:, :1])


def point_turns(bodies: BodyStates, parts: TrackedParts) -> Tensor:
    """Return orientations of the points' bodies in the root frame, shape (N, points, 4)."""
    quat = bodies.quat[:, parts.points]
    return multiply(conjugate(bodies.quat[:, :1]).expand_as(quat), quat)


def _body_places(m: TrackingMoment) -> Tensor:
    return rotate(conjugate(m.bodies.quat[:, :1]), m.bodies.pos - m.bodies.pos[:, :1]).flatten(1)


SENSED: dict[str, ObservationTerm] = {
    "angular_velocity": ObservationTerm(lambda f: 3, lambda m: m.root.ang_vel),
    "linear_velocity": ObservationTerm(
        lambda f: 3, lambda m: rotate(conjugate(m.root.quat), m.root.lin_vel)
    ),
    "gravity": ObservationTerm(lambda f: 3, _gravity),
    "joint_position": ObservationTerm(lambda f: f.joints, lambda m: m.joint_pos),
    "joint_velocity": ObservationTerm(lambda f: f.joints, lambda m: m.joint_vel),
    "last_action": ObservationTerm(lambda f: f.actions, lambda m: m.action),
}
"""proprioceptive terms that may have a history"""
COMMANDED: dict[str, ObservationTerm] = {
    "future_joints": ObservationTerm(
        lambda f: f.frames * 2 * f.joints, lambda m: future_joints(m.future)
    ),
    "future_turns": ObservationTerm(
        lambda f: f.frames * 6, lambda m: turned(m.root.quat, m.future.root_quat)
    ),
    "future_heights": ObservationTerm(lambda f: f.frames, lambda m: m.future.root_pos[..., 2]),
    "future_places": ObservationTerm(lambda f: f.frames * 3, _future_places),
    "height": ObservationTerm(lambda f: 1, lambda m: m.now.root_pos[:, 2:]),
    "anchor_turn": ObservationTerm(
        lambda f: 6, lambda m: turned(m.root.quat, m.now.root_quat[:, None])
    ),
    "anchor_place": ObservationTerm(
        lambda f: 3, lambda m: rotate(conjugate(m.root.quat), m.now.root_pos - m.root.pos)
    ),
    "lower_joints": ObservationTerm(lambda f: f.frames * 2 * f.lower, _lower_joints),
    "points": ObservationTerm(
        lambda f: 3 * f.points, lambda m: local_points(m.target, m.parts).flatten(1)
    ),
    "point_turns": ObservationTerm(
        lambda f: 4 * f.points, lambda m: point_turns(m.target, m.parts).flatten(1)
    ),
    "human_points": ObservationTerm(
        lambda f: f.human_frames * 3 * f.person, lambda m: m.person.points.flatten(1)
    ),
    "human_turns": ObservationTerm(
        lambda f: f.human_frames * 6, lambda m: turned(m.root.quat, m.person.root_quat)
    ),
    "fine_joints": ObservationTerm(
        lambda f: f.human_frames * f.fine, lambda m: m.future_fine.flatten(1)
    ),
    "body_places": ObservationTerm(lambda f: 3 * f.bodies, _body_places),
    "body_turns": ObservationTerm(
        lambda f: 6 * f.bodies, lambda m: turned(m.bodies.quat[:, 0], m.bodies.quat)
    ),
}
"""terms of the command and the privileged state"""


def term(name: str, known: dict[str, ObservationTerm]) -> ObservationTerm:
    """Return a term by name, or raise UnknownName."""
    if name not in known:
        raise UnknownName("observation", name, list(known))
    return known[name]


class RowColumns:
    """Column layout of an observation row, by group and term."""

    def __init__(self, config: TrackingConfig, facts: RowFacts) -> None:
        seen, encoders = config.observations, config.networks.encoders
        self.facts = facts
        self.history = seen.history
        self.policy = {name: term(name, SENSED).width(facts) for name in seen.policy}
        self.past = {name: term(name, SENSED).width(facts) for name in seen.critic_history}
        commanded = dict.fromkeys(name for each in encoders.values() for name in each.terms)
        self.commanded = {name: term(name, COMMANDED).width(facts) for name in commanded}
        self.critic = {name: term(name, COMMANDED).width(facts) for name in seen.critic}
        first = next(iter(encoders.values()))
        self.target = {name: self.commanded[name] for name in first.terms}
        count = len(encoders)
        sizes = {
            "senses": self.history * sum(self.policy.values()),
            "driving": count,
            "available": count,
            "commanded": sum(self.commanded.values()),
            "critic": sum(self.critic.values()) + self.history * sum(self.past.values()),
            "target": sum(self.target.values()),
            "guide": facts.actions if config.losses.guide or config.trainer.warm_up else 0,
        }
        self.spans: dict[str, tuple[int, int]] = {}
        at = 0
        for name, size in sizes.items():
            self.spans[name] = (at, at + size)
            at += size
        self.width = at
        self.guided = sizes["guide"]
        """number of guide columns, or 0"""

    def names(self) -> tuple[str, ...]:
        """Return the column names."""
        out: list[str] = []
        for kind, widths in (("senses", self.policy), ("critic", self.past)):
            for name, width in widths.items():
                ages = range(self.history - 1, -1, -1)
                out += [f"{kind} {name} {i} {age} ago" for age in ages for i in range(width)]
            if kind == "senses":
                count = self.spans["driving"][1] - self.spans["driving"][0]
                out += [f"{word} {i}" for word in ("driving", "available") for i in range(count)]
                terms = self.commanded.items()
                out += [f"told {n} {i}" for n, w in terms for i in range(w)]  # language: quoted
                out += [f"critic {n} {i}" for n, width in self.critic.items() for i in range(width)]
        out += [f"target {n} {i}" for n, width in self.target.items() for i in range(width)]
        return (*out, *(f"guide {i}" for i in range(self.guided)))

    def commanded_columns(self, names: tuple[str, ...]) -> tuple[int, ...]:
        """Return the column indices of the given command terms."""
        at, places = self.spans["commanded"][0], dict[str, range]()
        for name, width in self.commanded.items():
            places[name] = range(at, at + width)
            at += width
        return tuple(column for name in names for column in places[name])

    def token_shape(self, config: TrackingConfig) -> TokenShape:
        """Return the network shape for this layout."""
        encoders = {
            name: self.commanded_columns(each.terms)
            for name, each in config.networks.encoders.items()
        }
        return TokenShape(encoders, self.spans, self.facts.actions, config.networks)


_NOISE = 22
"""random number stream"""
_PERSON = ("human_points", "human_turns")


class RowView:
    """Build the observations of N robots, with the history in the memory of the task."""

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
        there = table.has_person[:, None]
        # Without any recorded person, every clip uses the stick figure.
        there = there | ~table.has_person.any()
        self.available = (there | ~torch.tensor(needs, device=device)).float()
        """1 where the input of an encoder is available, (clips, encoders)"""
        columns = self.columns
        amount = [seen.policy[name] for name, k in columns.policy.items() for _ in range(k)]
        silent = [0.0] * sum(columns.past.values())
        commanded = [
            seen.command_noise if name in NOISY else 0.0
            for name, width in columns.commanded.items()
            for _ in range(width)
        ]
        self.sensed = len(amount) + len(silent)
        """number of values with a history"""
        self._noise = torch.tensor([*amount, *silent, *commanded], device=device)
        self._is_noisy = not playing and any((*amount, *commanded))
        limbs = parts.robot.facts.limbs
        self._qpos = torch.tensor([limb.qpos for limb in limbs], device=device)
        self._dofs = torch.tensor([limb.dof for limb in limbs], device=device)
        self._rest = torch.tensor(parts.robot.home.joint_pos, device=device)
        self._reach = parts.action_size * config.robot.action_limit
        self._is_offset = config.robot.action_base == "reference"
        self._numbers = torch.arange(self.available.shape[1], device=device)
        self._back = torch.arange(columns.history - 1, -1, -1, device=device)

    def moment(
        self,
        qpos: Tensor,
        qvel: Tensor,
        bodies: BodyStates,
        frame: Tensor,
        memory: dict[str, Tensor],
    ) -> TrackingMoment:
        """Return the states of robots and references at clip frames (N,)."""
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
        """Return the observation rows (N, width), and the sensor values (N, k) for the history."""
        columns = self.columns
        sensed = [SENSED[name].value(moment) for name in (*columns.policy, *columns.past)]
        values = {
            name: COMMANDED[name].value(moment)
            for name in dict.fromkeys((*columns.commanded, *columns.critic))
        }
        both = torch.cat((*sensed, *(values[name] for name in columns.commanded)), dim=1)
        if self._is_noisy:
            u = uniform(memory["key"], age, both.shape[1], stream=_NOISE).float()
            both = both + (2.0 * u - 1.0) * self._noise
        now, commanded = both[:, : self.sensed], both[:, self.sensed :]
        sizes = [sum(columns.policy.values()), sum(columns.past.values())]
        senses, past = split(self._remembered(now, memory["past"], age), sizes, dim=2)
        guide = () if self.columns.guided == 0 else (self.guide(memory, age),)
        rows = torch.cat(
            (
                _by_term(senses, list(columns.policy.values())),
                (memory["encoder"][:, None] == self._numbers).float(),
                self.available[memory["clip"]],
                commanded,
                *(values[name] for name in columns.critic),
                _by_term(past, list(columns.past.values())),
                *(values[name] for name in columns.target),
                *guide,
            ),
            dim=1,
        )
        return rows, now

    def guide(self, memory: dict[str, Tensor], age: Tensor) -> Tensor:
        """Return actions (N, A) toward the next frame's joints, compensated for actuator lag."""
        parts = self.parts
        rows = self.table.rows(memory["clip"], memory["frame"] + age + 1)
        pose, driven = self.table.pose(rows), parts.action_joints
        aim = pose.joint_vel[:, driven] * parts.action_lag
        if not self._is_offset:
            aim = aim + pose.joint_pos[:, driven] - self._rest[driven]
        return (aim / self._reach).clamp(-1.0, 1.0)

    def _remembered(self, now: Tensor, past: Tensor, age: Tensor) -> Tensor:
        """Return the sensor history (N, H, k), from the oldest to the newest value.

        At age a, only the last a steps belong to the current episode. Older steps are padded.
        """
        if self.columns.history == 1:
            return now[:, None]
        stack = torch.cat((now[:, None], past), dim=1)
        index = torch.minimum(self._back[None], age[:, None])
        return stack.gather(1, index[..., None].expand(-1, -1, now.shape[1]))


def row_facts(config: TrackingConfig, parts: TrackedParts, person: int) -> RowFacts:
    """Return the sizes that determine the width of an observation row."""
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
    """Return histories (N, H, k) flattened term by term, shape (N, H * k)."""
    return torch.cat([part.flatten(1) for part in split(history, widths, dim=2)], dim=1)
