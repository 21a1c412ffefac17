"""What an environment is, in words and numbers: the record shown, saved and exported."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from telic.core.config import Record
from telic.envs.robot import Robot

JointKind = Literal["free", "ball", "slide", "hinge"]


class JointSpec(Record):
    """One joint of the model."""

    name: str
    kind: JointKind
    qpos_address: int = Field(description="first column of this joint in qpos")
    dof_address: int = Field(description="first column of this joint in qvel")
    low: float | None = Field(description="lower limit in metres or radians; None: unlimited")
    high: float | None = Field(description="upper limit in metres or radians; None: unlimited")


class EnvSpec(Record):
    """Everything a reward author, a recorder or an exporter needs to know of an environment."""

    id: str
    description: str = Field(description="one or two sentences for a person")
    obs_names: tuple[str, ...] = Field(description="one name per column of the observation")
    action_names: tuple[str, ...] = Field(description="one name per column of the action")
    action_low: tuple[float, ...]
    action_high: tuple[float, ...]
    num_actions: int | None = Field(
        default=None, description="number of choices if actions are discrete"
    )
    dt_s: float | None = Field(
        description="simulated seconds per step; None: the task has no clock"
    )
    max_episode_steps: int | None = Field(description="time limit; None: unlimited")
    info_keys: dict[str, str] = Field(description="name of each info value: meaning")
    body_names: tuple[str, ...] = Field(
        default=(), description="in the order of the by-body info values"
    )
    joints: tuple[JointSpec, ...] = ()
    torso: str | None = Field(
        default=None, description="body whose motion is the motion of the robot"
    )
    feet: tuple[str, ...] = Field(default=(), description="bodies meant to touch the ground")
    robot: Robot | None = Field(
        default=None, description="facts measured quantities need; see robot_of"
    )
    notes: tuple[str, ...] = Field((), description="guesses made and limits a user should know of")
    arguments: dict[str, object] = Field(default_factory=dict, description="constructor arguments")

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Names of the joints, in the model's order."""
        return tuple(joint.name for joint in self.joints)

    @property
    def obs_dim(self) -> int:
        """Columns of the observation."""
        return len(self.obs_names)

    @property
    def act_dim(self) -> int:
        """Columns of the action; 1 when actions are discrete."""
        return len(self.action_names)
