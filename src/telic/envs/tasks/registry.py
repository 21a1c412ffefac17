"""The ten tasks by id."""

from __future__ import annotations

from telic.envs.task import Task
from telic.envs.tasks.ant import Ant
from telic.envs.tasks.half_cheetah import HalfCheetah
from telic.envs.tasks.hopper import Hopper, Walker2d
from telic.envs.tasks.humanoid import Humanoid, HumanoidStandup
from telic.envs.tasks.pendulum import InvertedDoublePendulum, InvertedPendulum
from telic.envs.tasks.reacher import Reacher
from telic.envs.tasks.swimmer import Swimmer

TASKS: dict[str, type[Task]] = {
    task.id: task
    for task in (
        HalfCheetah,
        Ant,
        Hopper,
        Walker2d,
        Humanoid,
        HumanoidStandup,
        Swimmer,
        Reacher,
        InvertedPendulum,
        InvertedDoublePendulum,
    )
}
