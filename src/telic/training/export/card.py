"""The model card: what the policy does, how well, on what evidence, how to use and reproduce it.

Every number comes from the run's records; one that was never measured says so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import jinja2

from telic.core.text import number
from telic.report import document as doc
from telic.report.markdown import fenced, formula, plain, render_section, words

if TYPE_CHECKING:
    from telic.training.export.bundle import ExportEvidence

_MISSING = "not measured"


class Contents(NamedTuple):
    """The other files of the bundle."""

    files: dict[str, str]
    """name of every other file: what it is"""
    deviations: dict[str, float]
    """largest deviation from the torch policy, by exported file"""
    curve: str | None
    video: str | None
    robot: doc.Section | None = None
    """what can be deployed, how it was verified, and the licence of the robot's model"""


class PolicyProof(NamedTuple):
    """Measurements of a judge, beyond the reward."""

    title: str
    """the request"""
    sections: tuple[doc.Section, ...]
    """first on the card"""
    files: dict[Path, tuple[str, str]]
    """to copy: name in the bundle, and what it is"""
    video: Path | None
    """of a judged episode"""
    other_physics: bool = False
    """whether it was evaluated with other physics than it was trained in"""


def card(evidence: ExportEvidence, contents: Contents, proof: PolicyProof | None = None) -> str:
    """Return the card; with a proof, the request and its verdict come first."""
    policy, reward = evidence.policy, evidence.reward
    sums = (evidence.evaluation or {}).get("reward_terms") or {}
    terms = {term["name"]: term for term in reward.get("terms", [])}
    names: list[str] = policy.facts["action_names"]
    env, env_args = evidence.config["env"], evidence.config["env_args"]
    algorithm = evidence.summary.get("algorithm", "ppo")
    sections = (*(proof.sections if proof else ()), *filter(None, [contents.robot]))
    text = _template().render(
        {**evidence._asdict(), **contents._asdict()},
        proof=proof,
        sections=[render_section(section) for section in sections],
        env=evidence.env,
        evaluation=evidence.evaluation or {"mean_return": None},
        reward_sha256=evidence.reward_sha256,
        facts=policy.facts,
        algorithm="PPO" if algorithm == "ppo" else algorithm,
        actions=list(zip(names, policy.low.tolist(), policy.high.tolist(), strict=False)),
        terms=[(name, terms.get(name, {}), sums.get(name)) for name in {**terms, **sums}],
        call="policy(obs, memory)" if policy.memory_size else "policy(obs)",
        own_model=is_own_model(env) or "xml_file" in env_args,
        gymnasium_task=comes_with_gymnasium(env),
        json=json.dumps,
    )
    return re.sub(r"\n{3,}", "\n\n", text).rstrip() + "\n"


@cache
def _template() -> jinja2.Template:
    folder = jinja2.FileSystemLoader(Path(__file__).parent)
    environment = jinja2.Environment(loader=folder, trim_blocks=True, keep_trailing_newline=True)

    def shown(value: float | None, missing: str = _MISSING) -> str:
        return number(value, missing=missing)

    def mono(text: str) -> str:
        return words(doc.Mono(text))

    def interval(ends: Sequence[float] | None) -> str:
        return f"{number(ends[0])} … {number(ends[1])}" if ends else _MISSING

    environment.filters |= {
        **{"plain": plain, "fenced": fenced, "formula": formula},
        **{"number": shown, "interval": interval, "mono": mono},
    }
    return environment.get_template("card.md.j2")


def is_own_model(env: str) -> bool:
    """Return whether an environment is a model file of the user's."""
    return env.endswith((".xml", ".mjcf", ".mjb", ".urdf"))


def comes_with_gymnasium(env: str) -> bool:
    """Return whether an id is one of Gymnasium's own tasks, not of a package that adds some."""
    import gymnasium

    spec = gymnasium.registry.get(env)
    return spec is not None and str(spec.entry_point).startswith("gymnasium.envs")
