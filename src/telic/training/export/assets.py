"""Whose models a policy was trained on, and under which licence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from telic.report.document import Mono, Words


def asset_licence(env: str, env_args: Mapping[str, Any]) -> Words:
    """Say under which licence the environment's assets are, or that it is unknown."""
    if is_own_model(env) or "xml_file" in env_args:
        return (
            "It was trained on a model file of the author's, which is not in this folder. "
            "The licence of that model and its meshes is unknown here: state it before sharing."
        )
    if comes_with_gymnasium(env):
        return (
            "It was trained on a task of Gymnasium, whose models are under the MIT licence "
            "(Farama Foundation). Physics of MuJoCo tasks is by MuJoCo, under Apache 2.0. "
            "None of them is in this folder."
        )
    return (
        "It was trained on ",
        Mono(env),
        ", which is not in this folder. Its licence is unknown here: state it before sharing.",
    )


def is_own_model(env: str) -> bool:
    """Say whether an environment is a model file of the user's."""
    return env.endswith((".xml", ".mjcf", ".mjb", ".urdf"))


def comes_with_gymnasium(env: str) -> bool:
    """Say whether an id is one of Gymnasium's own tasks, not of a package that adds some."""
    import gymnasium

    known = gymnasium.registry.get(env)
    return known is not None and str(known.entry_point).startswith("gymnasium.envs")
