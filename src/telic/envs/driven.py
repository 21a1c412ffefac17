"""Task for robots with position actuators, sensors, commands and domain randomization.

The policy observes quantities that the robot can measure: angular velocity (gyroscope), the gravity
direction (accelerometer), joint positions relative to the resting pose, joint velocities, the last
action, and the command. With `variation`, every episode is randomized
(`telic.envs.domain_randomization`). Random values are sampled at the start of an episode, and
depend only on its samples and the time, never on other simulations.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, ClassVar, Literal

import mujoco
import torch
from pydantic import Field, PositiveInt
from torch import Tensor

from telic.core.config import Config
from telic.core.rotations import conjugate, element, gravity_direction, rotate
from telic.core.seeds import uniform
from telic.core.tensors import norm, split
from telic.envs.anatomy import illegal_bodies
from telic.envs.domain_randomization import RANDOMIZATIONS, RandomizationLevel, RandomizedModel
from telic.envs.own_robot import CustomArguments, CustomTask
from telic.envs.task import Read, StepOutcome
from telic.robots.structure import DRIVEN, model_text
from telic.robots.terrain import (
    COLUMNS,
    FIELD_M,
    ROWS,
    TO_TOP_M,
    Terrain,
    TerrainKind,
    ground_in,
    standing_m,
    terrain,
)
from telic.sim.base import Simulation

_DRAWS, _NOISE, _PUSH, _FALL = 11, 12, 13, 14
"""Random number streams."""
_LATE, _ENCODER, _COMMANDS = 1, 2, 4
"""Indices into `_sizes` of the values sampled per episode."""
_FALLEN_RAD = math.radians(70.0)
_DROP = 2.0
"""Drop height in standing heights, which keeps the robot clear of the ground in any orientation."""
_PUSH_EVERY_S = 4.0
_GRAVITY = 9.81
_TRACKING = 0.25
"""Squared velocity error at which the tracking reward falls to 1/e."""
_BLOCK_NOISE = {"gyro": 0.2, "gravity": 0.05, "velocity": 0.1, "position": 0.01, "rate": 1.5}
"""Noise amplitude of each sensor, in its unit."""

_ARRIVED = 0.75
"""Fraction of the way to the top from which the field counts as crossed."""
HEIGHT, STEP = "ground_height", "ground_step"
"""Info keys of the terrain."""
MEANINGS = {
    HEIGHT: "height of the ground below the base, m",
    STEP: "obstacle size of the field below the base: step height of stairs, slope in m/m, or "
    "maximum lump height, m; 0 on flat ground",
}


# ---- velocity commands, e.g. for joystick control
# A command is a forward velocity, a sideways velocity and a yaw rate in the robot's frame. It is
# resampled every few seconds. Some commands are zero, and some specify a heading instead of a yaw
# rate, which is then proportional to the heading error.

NAMES = ("forward", "sideways", "turn")
_TURN_PER_RAD = 0.5
"""Gain from heading error to yaw rate, in 1/s."""
_PER_COMMAND = 5
"""Number of random values per command: three rates, standing still, and heading mode."""
_MAX_COMMANDS = 64
"""Maximum number of commands per episode, after which they repeat."""

Span = Annotated[tuple[float, float], Field(description="lowest and highest")]


class VelocityCommands(Config):
    """Ranges of velocity commands and their resampling period."""

    forward: Span = Field((-1.0, 1.0), description="forward velocity in m/s")
    sideways: Span = Field((-0.5, 0.5), description="velocity to the left in m/s")
    turn: Span = Field((-1.0, 1.0), description="yaw rate to the left in rad/s")
    every_s: float = Field(5.0, gt=0, description="interval between commands in s")
    still: float = Field(0.1, ge=0, le=1, description="fraction of zero commands")
    heading: float = Field(0.3, ge=0, le=1, description="fraction of heading commands")


class Commander:
    """Compute the current command from an episode's random numbers."""

    def __init__(self, commands: VelocityCommands, longest_s: float | None, like: Tensor) -> None:
        self._commands = commands
        wanted = _MAX_COMMANDS if longest_s is None else math.ceil(longest_s / commands.every_s)
        self.count = max(1, min(_MAX_COMMANDS, wanted))
        spans = [getattr(commands, name) for name in NAMES]
        self._low, high = like.new_tensor(spans).T
        self._width = high - self._low

    @property
    def numbers(self) -> int:
        """Number of random numbers per episode."""
        return self.count * _PER_COMMAND

    def at(self, drawn: Tensor, time: Tensor, yaw: Tensor) -> Tensor:
        """Return forward, sideways and yaw rates, (N, 3), from samples in [0, 1), (N, numbers).

        `time` is in seconds since the start of the episode, and `yaw` is in rad, both (N,).
        """
        which = (time / self._commands.every_s + 1e-6).long() % self.count
        every = drawn.view(-1, self.count, _PER_COMMAND)
        own = every.gather(1, which[:, None, None].expand(-1, 1, _PER_COMMAND)).squeeze(1)
        rates = self._low + self._width * own[:, :3]
        # The same random number determines the yaw rate or the heading.
        away = math.tau * own[:, 2] - math.pi - yaw
        away = torch.atan2(torch.sin(away), torch.cos(away))
        toward = torch.clamp(_TURN_PER_RAD * away, self._low[2], self._low[2] + self._width[2])
        turn = torch.where(own[:, 4] < self._commands.heading, toward, rates[:, 2])
        rates = torch.cat((rates[:, :2], turn[:, None]), dim=1)
        return rates * (own[:, 3] >= self._commands.still)[:, None]


# ---- task


class RobotArguments(CustomArguments):
    """Arguments of a robot whose actuators telic built."""

    commands: VelocityCommands | None = Field(
        None, description="velocity commands, resampled every few seconds, or None for no commands"
    )
    variation: RandomizationLevel = Field(
        "none",
        description="domain randomization of friction, masses, actuators, sensors and pushes",
    )
    sees_velocity: bool = Field(
        False, description="observe the trunk velocity, as a state estimator provides it"
    )
    terrain: TerrainKind = Field(
        "flat",
        description="kind of terrain (after a field is crossed, a harder field follows)",
    )
    terrain_hardest: float = Field(
        1.0, gt=0, le=1, description="difficulty of the hardest fields, relative to the maximum"
    )
    terrain_seed: int = Field(0, ge=0, lt=2**31, description="seed of the terrain")
    terrain_start: Literal["top", "foot"] = Field(
        "top", description="initial position on a field: in the middle or at the foot"
    )
    starts: Literal["standing", "fallen"] = Field(
        "standing",
        description="initial states (fallen: dropped in a random orientation and pose)",
    )
    history: PositiveInt = Field(1, description="number of stacked observations")
    terminate_when_unhealthy: bool = Field(
        False,
        description="end the episode after a fall: if tilted by more than 70 degrees or with a "
        "forbidden body (illegal_contacts) on the ground",
    )


def is_driven(model: mujoco.MjModel) -> bool:
    """Return whether telic built the model's actuators."""
    return model_text(model, DRIVEN) is not None


class RobotTask(CustomTask):
    """Task for a position-controlled robot with a reward for speed or velocity tracking."""

    Arguments = RobotArguments
    # pyrefly: ignore[bad-override-mutable-attribute]
    arguments: RobotArguments
    meanings: ClassVar[Mapping[str, str]] = {
        **CustomTask.travel_meanings,
        **{f"command_{name}": f"command, {name}, or 0 without one" for name in NAMES},
        **MEANINGS,
    }

    def __init__(self, arguments: RobotArguments, sim: Simulation, notes: Sequence[str]) -> None:
        super().__init__(arguments, sim, notes)
        self.seen = []  # computed by `observe`
        model, like = sim.model, self.qpos
        self._time = sim.field("time")
        free = self.robot.root
        assert free.quaternion is not None and free.spin is not None
        self._turned, self._spin = free.quaternion, free.spin
        self._quaternion = self.qpos[:, free.quaternion : free.quaternion + 4]
        longest = arguments.max_episode_steps
        self.commanded: Tensor | None = None
        """Commands that override the sampled ones, (N, 3), or None."""
        self._commander = None
        if arguments.commands is not None:
            length = None if longest is None else longest * self.dt
            self._commander = Commander(arguments.commands, length, like)
        self._spread = RANDOMIZATIONS.get(arguments.variation)
        legs = [leg.length_m for leg in self.robot.legs]
        self._leg_m = sum(legs) / len(legs) if legs else 0.3
        self._varied = None
        if self._spread is not None:
            base = int(model.jnt_bodyid[0])
            self._varied = RandomizedModel(sim, self._spread, base, self._leg_m)
        illegal = illegal_bodies(model, self.robot.torso, self.robot.feet)
        self._illegal = torch.tensor(illegal, dtype=torch.long, device=sim.device)
        watched = arguments.terminate_when_unhealthy and bool(illegal)
        self._forces = sim.field("cfrc_ext") if watched else None
        self.board: TerrainMap | None = None
        if arguments.terrain != "flat":
            laid = terrain(ground_in(arguments.model_dump()), standing_m(model))
            self.board = TerrainMap(laid, like, arguments.terrain_start == "foot")
        self.readers = {
            HEIGHT: partial(self._ground, "height"),
            STEP: partial(self._ground, "size"),
        }
        self._sizes = [
            *(1, 1, model.nu),  # random key, delay, encoder offsets
            self._varied.numbers if self._varied else 0,
            self._commander.numbers if self._commander else 0,
            2 if self.board is not None else 0,  # which field
        ]
        blocks = self.blocks = _blocks(arguments, self.actuators)
        self._one = sum(len(names) for names in blocks.values())
        now = [name for names in blocks.values() for name in names]
        past = [f"{name} {age} ago" for age in range(1, arguments.history) for name in now]
        self.obs_names = (*now, *past)
        noise = [_BLOCK_NOISE.get(block, 0.0) for block, names in blocks.items() for _ in names]
        self._noise = like.new_tensor(noise) * (self._spread.noise if self._spread else 0.0)
        everyone = sim.num_sims
        self.memory = {
            "drawn": like.new_zeros(everyone, sum(self._sizes)),
            "asked": self._middle.expand(everyone, -1).clone(),
        }
        if self.board is not None:
            self.memory["field"] = like.new_full((everyone, 3), -1.0)  # no row yet
        if arguments.history > 1:
            self.memory["past"] = like.new_zeros(everyone, self._one * (arguments.history - 1))

    def reward_note(self) -> str:
        """Describe the default reward."""
        if self.arguments.commands is not None:
            return "Default reward: tracking of the commanded velocity and yaw rate."
        return super().reward_note()

    # ---- episodes

    def start(self, seed: Tensor, episode: Tensor) -> tuple[Tensor, ...]:
        """Sample initial states near the resting pose, and the episode's random values."""
        qpos, qvel = super().start(seed, episode)
        if self.arguments.starts == "fallen":
            qpos = self._dropped(qpos, seed, episode)
        drawn = uniform(seed, episode, sum(self._sizes), stream=_DRAWS)
        return qpos, qvel, drawn.to(qpos.dtype)

    def _dropped(self, qpos: Tensor, seed: Tensor, episode: Tensor) -> Tensor:
        """Return states above the ground with random orientation and joint positions.

        Orientations are uniform over SO(3). Joints are halfway between rest and a uniform sample.
        """
        count = len(self._joints)
        u = uniform(seed, episode, 3 + count, stream=_FALL).to(qpos.dtype)
        one, other = (1.0 - u[:, 0]).sqrt(), u[:, 0].sqrt()
        first, second = math.tau * u[:, 1], math.tau * u[:, 2]
        turned = (one * first.sin(), one * first.cos(), other * second.sin(), other * second.cos())
        anywhere = torch.lerp(self._low[self._joints], self._high[self._joints], u[:, 3:])
        bent = torch.where(anywhere.isfinite(), 0.5 * (anywhere + self._rest), self._rest)
        dropped = qpos.clone()
        dropped[:, self._turned : self._turned + 4] = torch.stack(turned, 1)
        dropped[:, self._joints] = bent
        dropped[:, 2] = _DROP * self.qpos0[2]
        return dropped

    def begin(
        self, mask: Tensor, qpos: Tensor, qvel: Tensor, drawn: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Apply the sampled values where `mask` is true, and clear the action history."""
        rows = mask[:, None]
        self.memory["drawn"] = torch.where(rows, drawn, self.memory["drawn"])
        self.memory["asked"] = torch.where(rows, self._middle, self.memory["asked"])
        if "past" in self.memory:
            self.memory["past"] = self.memory["past"].masked_fill(rows, 0.0)
        if self._varied is not None:
            self._varied.begin(mask, split(drawn, self._sizes, dim=1)[3])
        return (qpos if self.board is None else self._placed(mask, qpos, drawn)), qvel

    def _placed(self, mask: Tensor, qpos: Tensor, drawn: Tensor) -> Tensor:
        """Move initial positions to a field that depends on the progress in the last episode."""
        assert self.board is not None
        row, origin = self.memory["field"][:, 0], self.memory["field"][:, 1:]
        row = self.board.next_row(row, origin, self.qpos[:, :2], drawn[:, -1])
        placed = torch.cat((qpos[:, :3] + self.board.start(row, drawn[:, -2]), qpos[:, 3:]), dim=1)
        field = torch.cat((row[:, None], placed[:, :2]), dim=1)
        self.memory["field"] = torch.where(mask[:, None], field, self.memory["field"])
        return placed

    def _ground(self, what: Literal["height", "size"], read: Read) -> Tensor:
        x, y = read("qpos")[:, 0], read("qpos")[:, 1]
        return torch.zeros_like(x) if self.board is None else getattr(self.board, what)(x, y)

    def control(self, action: Tensor) -> Tensor:
        """Return the controls from the current or delayed action, with encoder offsets."""
        if "past" in self.memory:
            kept = self.memory["past"][:, : -self._one]
            self.memory["past"] = torch.cat((self._measured(), kept), dim=1)
        asked, self.memory["asked"] = self.memory["asked"], action.to(self.memory["asked"].dtype)
        if self._spread is None:
            return action
        encoder = self._drawn(_ENCODER)
        if self._spread.late:
            late = self._drawn(_LATE)
            action = torch.where(late < self._spread.late, asked, action.to(asked.dtype))
        self._push()
        return action - self._off(encoder)

    def _push(self) -> None:
        """Push the trunk periodically by adding a random horizontal velocity."""
        assert self._spread is not None
        every = round(_PUSH_EVERY_S / self.dt)
        age = self._age()
        key = self._key()
        # The first push comes after half a period, so that episodes start undisturbed.
        is_due = (age % every) == every // 2
        if self.qvel.device.type == "cpu" and not bool(is_due.any()):
            return  # the common case; GPU code recorded in a graph must not branch on data
        u = uniform(key, age, 2, stream=_PUSH).to(self.qvel.dtype)
        speed = self._spread.push * math.sqrt(_GRAVITY * self._leg_m) * u[:, :1]
        angle = math.tau * u[:, 1:]
        kick = torch.cat((angle.cos(), angle.sin()), dim=1) * speed
        self.qvel[:, :2] += kick * is_due[:, None]

    # ---- observations

    def observe(self) -> Tensor:
        """Return the current and past measurements, with zeros for steps before the episode."""
        now = self._measured()
        return torch.cat((now, self.memory["past"]), dim=1) if "past" in self.memory else now

    def _measured(self) -> Tensor:
        """Return the robot's measurements, its command and its last action."""
        quaternion = self._quaternion
        position = self.qpos[:, self._joints] - self._rest
        if self._spread is not None:
            position = position + self._off(self._drawn(_ENCODER))
        parts = [self.qvel[:, self._spin : self._spin + 3], gravity_direction(quaternion)]
        if self.arguments.sees_velocity:
            parts.append(rotate(conjugate(quaternion), self.qvel[:, :3]))
        if self._commander is not None:
            parts.append(self._command(self._time))
        asked = (self.memory["asked"] - self._middle) / self._half
        parts += [position, self.qvel[:, self._rates], asked]
        now = torch.cat(parts, dim=1)
        if self._spread is not None:
            u = uniform(self._key(), self._age(), self._one, stream=_NOISE)
            now = now + (2.0 * u.to(now.dtype) - 1.0) * self._noise
        return now

    def _command(self, time: Tensor) -> Tensor:
        assert self._commander is not None
        if self.commanded is not None:
            return self.commanded
        yaw = torch.atan2(element(self._quaternion, 1, 0), element(self._quaternion, 0, 0))
        return self._commander.at(self._drawn(_COMMANDS), time, yaw)

    def outcome(self, action: Tensor, moved: Tensor) -> StepOutcome:
        """Compute the tracking reward, or the speed reward without commands, minus effort."""
        speed = super().outcome(action, moved)
        ends = None
        if self.arguments.terminate_when_unhealthy:
            ends = gravity_direction(self._quaternion)[:, 2] > -math.cos(_FALLEN_RAD)
            if self._forces is not None:
                pressed = self._forces[:, self._illegal, 3:].square().sum(2)
                ends = ends | (pressed > self.robot.contact_threshold**2).any(1)
        if self._commander is None:
            none = {f"command_{name}": torch.zeros_like(moved[:, 0]) for name in NAMES}
            return StepOutcome(speed.reward, ends, {**speed.values, **none})
        command = self._command(self._time - self.dt)  # the command during this step
        velocity = rotate(conjugate(self._quaternion), self.qvel[:, :3])[:, :2]
        turning = self.qvel[:, self._spin + 2]
        off = (velocity - command[:, :2]).square().sum(1)
        tracking = torch.exp(-off / _TRACKING)
        turns = torch.exp(-(turning - command[:, 2]).square() / _TRACKING)
        reward = tracking + 0.5 * turns + speed.values["reward_ctrl"]
        commands = {f"command_{name}": command[:, i].clone() for i, name in enumerate(NAMES)}
        return StepOutcome(reward, ends, {**speed.values, **commands, "reward_forward": tracking})

    # ---- sampled values

    def _drawn(self, part: int) -> Tensor:
        """Return the part of the episode's sampled values with an index in `_sizes`."""
        before = sum(self._sizes[:part])
        return self.memory["drawn"][:, before : before + self._sizes[part]]

    def _key(self) -> Tensor:
        return (self.memory["drawn"][:, 0] * 2.0**24).long()

    def _age(self) -> Tensor:
        """Return the number of control steps since the start of the episode, (N,)."""
        return (self._time / self.dt + 0.5).long()

    def _off(self, encoder: Tensor) -> Tensor:
        """Return the encoder offset of each joint, in rad."""
        assert self._spread is not None
        return (2.0 * encoder - 1.0) * self._spread.encoder_rad


def _blocks(arguments: RobotArguments, actuators: tuple[str, ...]) -> dict[str, list[str]]:
    """Return the names of the observations by sensor."""
    axes = "xyz"
    blocks: dict[str, list[str]] = {
        "gyro": [f"gyro_{axis}" for axis in axes],
        "gravity": [f"gravity_{axis}" for axis in axes],
    }
    if arguments.sees_velocity:
        blocks["velocity"] = [f"velocity_{axis}" for axis in axes]
    if arguments.commands is not None:
        blocks["command"] = [f"command_{name}" for name in NAMES]
    blocks["position"] = [f"{name} position" for name in actuators]
    blocks["rate"] = [f"{name} velocity" for name in actuators]
    blocks["action"] = [f"{name} last action" for name in actuators]
    return blocks


# ---- terrain


class TerrainMap:
    """Terrain heights, and initial positions chosen by a curriculum over terrain fields."""

    def __init__(self, board: Terrain, like: Tensor, starts_at_foot: bool) -> None:
        self._heights = like.new_tensor(board.heights).flatten()
        self._sizes = like.new_tensor(board.sizes).flatten()
        self._points = board.heights.shape
        self._at_foot = starts_at_foot
        self._starts = like.new_tensor(board.feet if starts_at_foot else board.starts)

    def height(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the terrain height in m, interpolated bilinearly between grid points."""
        rows, columns = self._points
        # In MuJoCo, the first and the last point lie on the edges of the height field.
        across = (x / (ROWS * FIELD_M) + 0.5) * (columns - 1)
        along = (y / (COLUMNS * FIELD_M) + 0.5) * (rows - 1)
        left = across.floor().clamp(0, columns - 2)
        near = along.floor().clamp(0, rows - 2)
        share, part = (across - left).clamp(0, 1), (along - near).clamp(0, 1)
        first = near.long() * columns + left.long()
        low = torch.lerp(self._heights[first], self._heights[first + 1], share)
        high = torch.lerp(self._heights[first + columns], self._heights[first + columns + 1], share)
        on_board = (across >= 0) & (across <= columns - 1) & (along >= 0) & (along <= rows - 1)
        return torch.lerp(low, high, part) * on_board

    def size(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the obstacle size of the field at a position, in m. See `Terrain.sizes`."""
        row = (x / FIELD_M + ROWS / 2.0).floor().clamp(0, ROWS - 1).long()
        column = (y / FIELD_M + COLUMNS / 2.0).floor().clamp(0, COLUMNS - 1).long()
        return self._sizes[row * COLUMNS + column]

    def next_row(self, row: Tensor, origin: Tensor, place: Tensor, chance: Tensor) -> Tensor:
        """Return the row of fields to start on, which depends on the previous progress.

        An episode that moved half a field, or far enough toward the top, is followed by a harder
        field. Little motion leads to an easier field. After the hardest row, the row is random.

        Args:
            row: row of the last episode, or a negative number if there was none, (N,).
            origin: initial position of that episode, (N, 2).
            place: final position of that episode, (N, 2).
            chance: uniform samples in [0, 1), (N,).
        """
        made = (place - origin)[:, 0] if self._at_foot else norm(place - origin)
        enough = _ARRIVED * TO_TOP_M if self._at_foot else FIELD_M / 2.0
        harder = (made > enough).to(row.dtype) - (made < FIELD_M / 8.0).to(row.dtype)
        later = (row + harder).clamp_min(0.0)
        return torch.where((row < 0.0) | (later >= ROWS), (chance * ROWS).floor(), later)

    def start(self, row: Tensor, chance: Tensor) -> Tensor:
        """Return the initial position on a field of the given row, (N, 3)."""
        return self._starts[row.long(), (chance * COLUMNS).long()]
