"""The model card: what the policy does, how well, on what evidence, and how to use and repeat it.

Markdown with the front matter of Hugging Face's reinforcement-learning cards, so that existing
viewers show the task and the score. Every number comes from the run's records; one that was never
measured says so.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from telic.core.text import number
from telic.report import document as doc
from telic.report.markdown import render_markdown

if TYPE_CHECKING:
    from telic.training.export.bundle import ExportEvidence, Json

MISSING = "not measured"


class Contents(NamedTuple):
    """What lies beside the card."""

    files: dict[str, str]
    """name of every other file: what it is"""
    deviations: dict[str, float]
    """largest deviation from the torch policy, by exported file"""
    curve: str | None
    video: str | None
    robot: doc.Section | None = None
    """what is there to deploy, how it was verified, and the licence of the robot's model"""


class PolicyProof(NamedTuple):
    """What whoever judged a policy has to say of it: more than its reward does."""

    title: str
    """what was asked for"""
    sections: tuple[doc.Section, ...]
    """first on the card"""
    files: dict[Path, tuple[str, str]]
    """to take along: name in the bundle, and what it is"""
    video: Path | None
    """of a judged episode"""
    other_physics: bool = False
    """whether it was tried with other physics than it was trained in"""


def card(evidence: ExportEvidence, contents: Contents, proof: PolicyProof | None = None) -> str:
    """Return the card; with a proof, what was asked and proven comes first."""
    config, reward = evidence.config, evidence.config["reward"]
    named = f"{evidence.env}: {reward}, seed {config['seed']}"
    report = doc.Report(
        named if proof is None else f"{proof.title} ({evidence.env})",
        header=doc.Section("", tuple(_headline(evidence, contents))),
        sections=(
            *(proof.sections if proof else ()),
            *([contents.robot] if contents.robot else []),
            doc.Section("Task", tuple(_task(evidence))),
            doc.Section("Reward", tuple(_reward(evidence))),
            doc.Section("Evaluation", tuple(_evaluation(evidence))),
            doc.Section("Training", tuple(_training(evidence))),
            doc.Section("Use", tuple(_use(evidence, contents))),
            doc.Section("Reproduce", tuple(_reproduce(evidence))),
            doc.Section("Licence", tuple(_licence(evidence, contents))),
            doc.Section("Limits", (doc.Items(tuple(_limits(evidence, proof))),)),
        ),
    )
    return f"{_front_matter(evidence)}\n\n{render_markdown(report, Path())}"


def _front_matter(evidence: ExportEvidence) -> str:
    env, record = json.dumps(evidence.env), evidence.evaluation or {}
    score = MISSING
    if record.get("mean_return") is not None:
        score = f"{record['mean_return']:.2f} +/- {record['std_return']:.2f}"
    return f"""---
library_name: telic
license: mit
pipeline_tag: reinforcement-learning
tags:
- {env}
- deep-reinforcement-learning
- reinforcement-learning
- telic
model-index:
- name: {json.dumps(_algorithm(evidence))}
  results:
  - task:
      type: reinforcement-learning
      name: reinforcement-learning
    dataset:
      name: {env}
      type: {env}
    metrics:
    - type: mean_reward
      value: {json.dumps(score)}
      name: mean_reward
      verified: false
---"""


def _headline(evidence: ExportEvidence, contents: Contents) -> list[doc.Block]:
    record = evidence.evaluation
    said = (
        "A policy for ",
        doc.Strong(evidence.env),
        f", trained with {_algorithm(evidence)} for {evidence.step:,} environment steps on the "
        "reward ",
        doc.Mono(evidence.config["reward"]),
        ".",
    )
    blocks: list[doc.Block] = [
        doc.Text(said),
        doc.Text((doc.Strong(f"Return {_score(record)}"), f" on {_episodes(record)}.")),
    ]
    if contents.curve:
        says = "Learning curve: return over environment steps"
        blocks.append(doc.Picture(Path(contents.curve), says))
    if contents.video:
        blocks.append(doc.Video(Path(contents.video), "Video of an evaluation episode"))
    return blocks


def _task(evidence: ExportEvidence) -> list[doc.Block]:
    about, shape = evidence.policy.facts, evidence.policy.shape
    low = [float(bound) for bound in evidence.policy.low]
    high = [float(bound) for bound in evidence.policy.high]
    names: list[str] = about["action_names"]
    memory = evidence.policy.memory_size
    arguments = doc.Mono(json.dumps(about["env_args"])) if about["env_args"] else "defaults"
    actions = f"one of {shape.outputs}" if shape.discrete else f"{len(names)} numbers, see below"
    rows: list[tuple[str, doc.Words]] = [
        ("environment", evidence.env),
        ("arguments", arguments),
        ("observation", f"{len(about['obs_names'])} numbers, not normalised"),
        *([("reward memory the policy sees", f"{memory} numbers")] if memory else []),
        ("action", actions),
        ("control step", f"{about['dt_s']:g} s" if about["dt_s"] else "no clock"),
    ]
    seen = [(str(index), name) for index, name in enumerate(about["obs_names"])]
    ranges = [(name, number(a), number(b)) for name, a, b in zip(names, low, high, strict=True)]
    blocks: list[doc.Block] = [
        _facts(rows),
        doc.Details("Observation", (doc.Table(("column", "name"), seen),)),
    ]
    if not shape.discrete:
        blocks.append(doc.Details("Action", (doc.Table(("name", "low", "high"), ranges),)))
    return blocks


def _reward(evidence: ExportEvidence) -> list[doc.Block]:
    reward, record = evidence.reward, evidence.evaluation or {}
    blocks: list[doc.Block] = [doc.Text(reward.get("description") or "No description.")]
    if reward.get("latex"):
        blocks.append(doc.Formula(reward["latex"]))
    sums: Mapping[str, Any] = record.get("reward_terms") or {}
    terms = {term["name"]: term for term in reward.get("terms", [])}
    rows = [
        (
            name,
            terms.get(name, {}).get("description") or "",
            number(terms.get(name, {}).get("weight"), missing="none"),
            number(sums.get(name), missing=MISSING),
        )
        for name in dict.fromkeys([*terms, *sums])
    ]
    if rows:
        heads = ("term", "rewards", "weight", "mean sum per episode")
        blocks.append(doc.Table(heads, rows))
    if evidence.reward_sha256:
        link, digest = doc.Link("reward_fn.py", "reward_fn.py"), doc.Mono(evidence.reward_sha256)
        blocks.append(doc.Text(("The code is in ", link, ", SHA-256 ", digest, ".")))
    return blocks


_EVALUATION_HEADS = (
    *("steps", "mean return", "95 % interval", "p10", "median", "p90", "length", "ended early"),
    "task's own return",
)


def _evaluation(evidence: ExportEvidence) -> list[doc.Block]:
    if not evidence.evaluations:
        return [doc.Text(f"Return: {MISSING}.")]

    def row(record: Json) -> tuple[doc.Words, ...]:
        values = (
            f"{record['global_step']:,}",
            _measured(record["mean_return"]),
            _interval(record["interval"]),
            *(_measured(record[name]) for name in ("p10_return", "median_return", "p90_return")),
            _measured(record["episode_length"]),
            f"{record['terminated_share']:.0%}",
            _measured(record["env_return"]),
        )
        is_this = record["global_step"] == evidence.step
        return tuple(doc.Strong(value) if is_this else value for value in values)

    blocks: list[doc.Block] = [
        doc.Text(
            f"Evaluated by telic's own evaluator during training: "
            f"{evidence.evaluations[-1]['episodes']} episodes from start states that training "
            "never used, the most likely action at every step, no noise. The interval is a 95 % "
            "bootstrap interval of the mean. This policy is the row in bold."
        ),
        doc.Table(_EVALUATION_HEADS, [row(record) for record in evidence.evaluations]),
    ]
    if evidence.siblings:
        rows = [
            (name, _measured(best.get("mean_return")), _interval(best.get("interval")))
            for name, best in evidence.siblings.items()
        ]
        blocks += [
            doc.Text("Other members of the same run, at their best:"),
            doc.Table(("member", "mean return", "95 % interval"), rows),
        ]
    return blocks


def _training(evidence: ExportEvidence) -> list[doc.Block]:
    summary = evidence.summary
    noticed: list[Json] = summary.get("findings") or []
    seconds = summary.get("training_time_s")
    rows = [
        ("trainer", _algorithm(evidence)),
        ("seed", str(evidence.config["seed"])),
        ("steps", f"{summary['total_timesteps']:,}" if summary else f"{evidence.step:,}"),
        ("time of the run", f"{seconds:,.0f} s" if seconds is not None else MISSING),
        ("state", summary.get("status", "unfinished")),
    ]
    settings = [(name, _listed(value)) for name, value in evidence.config["settings"].items()]
    findings = [
        (doc.Strong(finding["name"]), f" at {finding['step']:,} steps: {finding['message']}")
        for finding in noticed
    ]
    return [
        _facts(rows),
        doc.Details("Settings", (doc.Table(("setting", "value"), sorted(settings)),)),
        doc.Text("Findings of the health checks:"),
        doc.Items(tuple(findings) or ("none",)),
    ]


def _use(evidence: ExportEvidence, contents: Contents) -> list[doc.Block]:
    memory = evidence.policy.memory_size
    obs = f'"obs": np.zeros((1, {evidence.policy.obs_dim}), np.float32)'
    feeds = obs + (f', "memory": np.zeros((1, {memory}), np.float32)' if memory else "")
    call = "policy(obs, memory)" if memory else "policy(obs)"
    plays = (doc.Mono("python run_policy.py"), " plays it in Gymnasium")
    alone = (doc.Mono("run_policy.load()"), " gives the function ", doc.Mono(call))
    rows = [
        (doc.Link(name, name), what, _deviation(contents.deviations.get(name)))
        for name, what in contents.files.items()
    ]
    unit = "logits" if evidence.policy.shape.discrete else "half the action range"
    return [
        doc.Code(
            "import telic\n\n"
            'policy = telic.load_policy("policy.pt")\n'
            f"action = {call}  # one observation or a batch, as a Gymnasium environment gives it",
            "python",
        ),
        doc.Code(
            "import numpy as np\nimport onnxruntime\n\n"
            'session = onnxruntime.InferenceSession("policy.onnx")\n'
            f'action = session.run(["action"], {{{feeds}}})[0]',
            "python",
        ),
        doc.Text(
            (
                "Without telic and torch: ",
                *(alone if memory else plays),
                ". The normaliser, the clipping and the action range are inside every file.",
            )
        ),
        doc.Table(("file", "what", "largest deviation from the policy"), rows),
        doc.Text(
            "Deviations were measured by running each file on ordinary and extreme observations, "
            f"in units of {unit}."
        ),
    ]


def _reproduce(evidence: ExportEvidence) -> list[doc.Block]:
    manifest = evidence.manifest
    command = manifest.get("command") or "not recorded: the run was started from Python"
    versions: dict[str, str | None] = manifest.get("versions", {})
    rows: list[tuple[str, doc.Words]] = [
        *((name, version or "not installed") for name, version in versions.items()),
        ("python", manifest.get("python", MISSING)),
        ("platform", manifest.get("platform", MISSING)),
        ("run", ("key ", doc.Mono(manifest.get("key", MISSING)))),
    ]
    return [doc.ShellLine(command), _facts(rows)]


def _licence(evidence: ExportEvidence, contents: Contents) -> list[doc.Block]:
    model = asset_licence(evidence.config["env"], evidence.config["env_args"])
    return [
        doc.Text(
            (
                "The policy and the reward are their author's. This card names MIT, the licence of "
                "telic and of ",
                doc.Mono("run_policy.py"),
                "; change ",
                doc.Mono("license"),
                " above to share them under another one.",
            )
        ),
        *([] if contents.robot else [doc.Text(model)]),
    ]


def asset_licence(env: str, env_args: Mapping[str, Any]) -> doc.Words:
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
        doc.Mono(env),
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


def _limits(evidence: ExportEvidence, proof: PolicyProof | None) -> list[str]:
    untried = "" if proof and proof.other_physics else " or with other physics"
    seeds = "the members listed above" if evidence.siblings else "one training seed"
    lines = [
        f"The evidence is {seeds} and {_episodes(evidence.evaluation)}; other seeds differ.",
        f"Trained and evaluated in simulation only; not tried on hardware{untried}.",
        "The return says how well the reward is met, not whether that is the behaviour meant.",
    ]
    if evidence.config["settings"]["normalise_obs"]:
        lines.append("Observations more than 10 deviations from the usual are clipped there.")
    return lines


def _facts(rows: Sequence[tuple[str, doc.Words]]) -> doc.FactSheet:
    return doc.FactSheet(rows, heads=("", ""))


def _listed(value: object) -> str:
    is_many = isinstance(value, list | tuple)
    return ", ".join(map(str, cast("Sequence[object]", value))) if is_many else str(value)


def _measured(value: float | None) -> str:
    return number(value, missing=MISSING)


def _interval(ends: Sequence[float] | None) -> str:
    return f"{number(ends[0])} … {number(ends[1])}" if ends else MISSING


def _deviation(value: float | None) -> str:
    return "" if value is None else f"{value:.1e}"


def _score(record: Json | None) -> str:
    if record is None or record["mean_return"] is None:
        return MISSING
    return f"{number(record['mean_return'])} (95 % interval {_interval(record['interval'])})"


def _episodes(record: Json | None) -> str:
    return "no evaluation episodes" if record is None else f"{record['episodes']} fresh episodes"


def _algorithm(evidence: ExportEvidence) -> str:
    algorithm = evidence.summary.get("algorithm", "ppo")
    return "PPO" if algorithm == "ppo" else algorithm
