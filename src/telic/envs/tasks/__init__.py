"""The ten MuJoCo tasks of Gymnasium, version 5, by id."""

from telic.envs.task import AnyTask
from telic.envs.tasks.mounted import InvertedDoublePendulum, InvertedPendulum, Reacher
from telic.envs.tasks.planar import HalfCheetah, Hopper, Swimmer, Walker2d
from telic.envs.tasks.spatial import Ant, Humanoid, HumanoidStandup

_ALL: tuple[type[AnyTask], ...] = (
    *(HalfCheetah, Ant, Hopper, Walker2d, Humanoid, HumanoidStandup),
    *(Swimmer, Reacher, InvertedPendulum, InvertedDoublePendulum),
)
TASKS: dict[str, type[AnyTask]] = {task.id: task for task in _ALL}
