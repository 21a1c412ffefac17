"""What makes N simulations a task: starts, observations, rewards and ends of episodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Generic, NamedTuple, TypeVar

import torch
from pydantic import Field, PositiveInt
from torch import Tensor

from telic.core.config import Config
from telic.core.seeds import normal, uniform
from telic.sim import Simulation

Read = Callable[[str], Tensor]
"""gives a field of the simulation, or "action", as it was at the end of the transition"""

# Argument types that several tasks share, each with the description that is its help text.
Range = tuple[float, float]
Camera = dict[str, float | tuple[float, float, float]]

FrameSkip = Annotated[PositiveInt, Field(description="physics steps per control step")]
ForwardWeight = Annotated[float, Field(description="reward per m/s forward")]
ControlWeight = Annotated[float, Field(description="cost per squared action")]
ContactWeight = Annotated[float, Field(description="cost per squared contact force")]
HealthyReward = Annotated[float, Field(description="reward per step while healthy")]
TerminateWhenUnhealthy = Annotated[bool, Field(description="end the episode when unhealthy")]
HealthyHeight = Annotated[Range, Field(description="heights of the torso that are healthy, m")]
HealthyAngle = Annotated[Range, Field(description="angles of the torso that are healthy, rad")]
NoiseScale = Annotated[float, Field(ge=0, description="noise of the initial pose and velocity")]
HidePosition = Annotated[
    bool, Field(description="leave the horizontal position out of what is seen")
]
IncludeBlock = Annotated[bool, Field(description="show this block of the observation")]


class TaskArguments(Config):
    """Arguments every task takes; each task adds its own, named and preset as in Gymnasium."""

    xml_file: str = Field(description="model: the name of a Gymnasium asset, or a path")
    frame_skip: FrameSkip
    max_episode_steps: PositiveInt | None = Field(1000, description="time limit; None: unlimited")
    default_camera_config: Camera = Field(
        default_factory=dict, description="camera for rendering, as MjvCamera fields"
    )


ArgumentsT = TypeVar("ArgumentsT", bound=TaskArguments)


class Outcome(NamedTuple):
    """What a transition was worth."""

    reward: Tensor  # (N,)
    terminated: Tensor | None  # (N,) bool; None: this task never terminates
    values: dict[str, Tensor]  # info values that came out on the way, fresh memory


class Task(Generic[ArgumentsT]):
    """A task over the fields of a simulation, in batched torch; each of the ten derives from it.

    Fields taken in the constructor are live views: they show the present state, so a method reads
    them at the moment it is called. Floating-point results have the simulation's precision.
    """

    id: str
    description: str
    Arguments: ClassVar[type[TaskArguments]]
    meanings: ClassVar[Mapping[str, str]]
    """the task's own info values and what they mean"""
    normal_velocities: ClassVar[bool] = False
    """whether episodes start with normal velocities, not uniform ones"""
    notes: tuple[str, ...] = ()
    """guesses made and limits a user should know of"""
    obs_names: tuple[str, ...]
    readers: Mapping[str, Callable[[Read], Tensor]]
    """the info values of the task that are computed only when asked for"""

    def __init__(self, arguments: ArgumentsT, sim: Simulation) -> None:
        self.arguments = arguments
        self.readers = {}
        self._amounts: dict[float, Tensor] = {}
        self.qpos = sim.field("qpos")
        self.qvel = sim.field("qvel")
        self.dt = sim.model.opt.timestep * arguments.frame_skip
        self.qpos0 = torch.tensor(sim.model.qpos0, dtype=self.qpos.dtype, device=sim.device)

    def start(self, seed: Tensor, episode: Tensor) -> tuple[Tensor, Tensor]:
        """Return initial qpos, (N, nq), and qvel, (N, nv), as a pure function of the arguments.

        By default they are near the default pose: uniform noise of ± the argument
        reset_noise_scale, or of the same scale and normal for velocities of `normal_velocities`.
        """
        scale: float = getattr(self.arguments, "reset_noise_scale", 0.0)
        positions, velocities = self.qpos.shape[1], self.qvel.shape[1]
        if self.normal_velocities:
            noise = uniform(seed, episode, positions) * 2.0 - 1.0
            return self.qpos0 + scale * noise, scale * normal(seed, episode, velocities, stream=1)
        noise = scale * (uniform(seed, episode, positions + velocities) * 2.0 - 1.0)
        return self.qpos0 + noise[:, :positions], noise[:, positions:]

    def observe(self) -> Tensor:
        """Return the observation of the present state, (N, obs_dim), in memory of its own."""
        raise NotImplementedError

    def track(self) -> Tensor:
        """Return a copy of the positions whose change over a step is the velocity, (N, k)."""
        return self.qpos[:, :0]

    def outcome(self, action: Tensor, moved: Tensor) -> Outcome:
        """Judge the step that led to the present state.

        Args:
            action: (N, act_dim), as applied.
            moved: (N, k), change of the tracked positions over this step.
        """
        raise NotImplementedError

    def where(self, condition: Tensor, amount: float) -> Tensor:
        """Return `amount` where a condition holds and 0 elsewhere, (N,)."""
        if amount not in self._amounts:
            self._amounts[amount] = self.qpos.new_tensor(amount)
        # A tensor without dimensions gives a bool its precision; a Python float would not.
        return condition * self._amounts[amount]


def between(value: Tensor, bounds: tuple[float, float]) -> Tensor:
    """Tell where a value lies strictly within bounds."""
    return (value > bounds[0]) & (value < bounds[1])


AnyTask = Task[Any]
"""a task whatever its arguments are"""
