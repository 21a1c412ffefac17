"""Registers the tasks with Gymnasium; only once the simulator runs."""

import gymnasium
from isaaclab.app import running

assert running, "Isaac Sim must be started first"
for name in ("Isaac-Roll-v0", "Isaac-Roll-Play-v0"):
    gymnasium.register(name, entry_point="isaaclab_tasks.roll:RollEnv", disable_env_checker=True)
