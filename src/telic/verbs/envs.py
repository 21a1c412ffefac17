"""Environments: list them, or describe one."""

from __future__ import annotations

from telic.core.request import VerbRequest, argument, option
from telic.core.verb import Shown, verb
from telic.envs.catalogue import EnvSummary, catalogue, describe
from telic.envs.simulators.names import permit_env
from telic.envs.spec import EnvSpec
from telic.search.task import SearchTask
from telic.verbs.search import search_tasks

_COLUMNS = ("id", "obs_dim", "act_dim", "max_episode_steps", "description")
_ENVS_HINT = (
    "Describe one: telic envs Ant-v5. Also valid: any Gymnasium id (--all), module:Class, robot.xml"
)


class EnvsRequest(VerbRequest):
    """Training environments, one of them, or the tasks of policy search."""

    env: str | None = argument(
        "Environment to describe: an id, module:Class or MJCF path.", default=None
    )
    every: bool = option("Also list other Gymnasium ids.", "--all", default=False)
    search: bool = option("List the tasks of telic search instead.", default=False)


@verb(EnvsRequest)
def envs(request: EnvsRequest) -> Shown[list[EnvSummary]] | EnvSpec | Shown[list[SearchTask]]:
    """List environments, or describe one: observations, actions, info values, bodies, reward."""
    if request.search:
        return search_tasks()
    if request.env is not None:
        permit_env(request.env)
        return describe(request.env)
    found = [env for env in catalogue() if request.every or env.fast]
    return Shown(found, _COLUMNS, _ENVS_HINT)
