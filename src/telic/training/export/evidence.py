"""Everything a run's records say about one policy, read once for its card."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from telic.report.document import Mono, Words
from telic.storage.files import read_json
from telic.storage.layout import MemberFolder, RunFolder
from telic.storage.scalars import Column, read_columns, read_rows
from telic.training.policy import Policy

Json = dict[str, Any]


class ExportEvidence(NamedTuple):
    """The records of one policy; what was never written is empty."""

    member: str
    step: int
    policy: Policy
    config: Json
    """the member's own: env, env_args, steps, seed, reward, weights, settings"""
    manifest: Json
    reward: Json
    """latex, description, terms"""
    summary: Json
    curve: dict[str, Column]
    evaluations: list[Json]
    siblings: dict[str, Json]
    """best evaluation of every other member of the run, by name"""

    @property
    def evaluation(self) -> Json | None:
        """The evaluation of exactly this checkpoint."""
        return next((each for each in self.evaluations if each["global_step"] == self.step), None)

    @property
    def reward_sha256(self) -> str | None:
        """Hash of the reward's source; None for the environment's own."""
        hashes: Json = self.manifest.get("rewards") or {}
        return hashes.get(self.config["reward"])

    @property
    def env(self) -> str:
        """The environment's id, class, or the name of its model file without the user's folders."""
        name = self.config["env"]
        return Path(name).name if is_own_model(name) else name


def gather(run: RunFolder, member: MemberFolder, policy: Policy) -> ExportEvidence:
    """Read the records."""
    others = [folder for folder in run.members() if folder.name != member.name]
    return ExportEvidence(
        member=member.name,
        step=policy.facts["step"],
        policy=policy,
        config=read_json(member.config),
        manifest=_read(run.manifest),
        reward=_read(member.reward_spec),
        summary=_read(member.summary),
        curve=read_columns(member.scalars, ["global_step", "episodic_return"]),
        evaluations=read_rows(member.scalars, "eval"),
        siblings={folder.name: _read(folder.summary).get("best") or {} for folder in others},
    )


def _read(path: Path) -> Json:
    return read_json(path) if path.exists() else {}


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

    spec = gymnasium.registry.get(env)
    return spec is not None and str(spec.entry_point).startswith("gymnasium.envs")
