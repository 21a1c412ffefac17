"""The model card: what the policy does, how well, on what evidence, and how to use and repeat it.

Markdown with the front matter of Hugging Face's reinforcement-learning cards, so that existing
viewers show the task and the score. Every number comes from the run's records; one that was never
measured says so.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from telic.training.export.assets import asset_licence
from telic.training.export.evidence import Evidence, Json
from telic.training.export.markdown import MISSING, facts, folded, interval, number, table


class Contents(NamedTuple):
    """What lies beside the card."""

    files: dict[str, str]
    """name of every other file: what it is"""
    deviations: dict[str, float]
    """largest deviation from the torch policy, by exported file"""
    curve: str | None
    video: str | None


def card(evidence: Evidence, contents: Contents) -> str:
    """Return the card."""
    sections = [
        _front_matter(evidence),
        _headline(evidence, contents),
        _task(evidence),
        _reward(evidence),
        _evaluation(evidence),
        _training(evidence),
        _use(evidence, contents),
        _reproduce(evidence),
        _licence(evidence),
        _limits(evidence),
    ]
    return "\n\n".join(each.strip() for each in sections) + "\n"


def _front_matter(evidence: Evidence) -> str:
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


def _headline(evidence: Evidence, contents: Contents) -> str:
    config, record = evidence.config, evidence.evaluation
    lines = [
        f"# {evidence.env}: {config['reward']}, seed {config['seed']}",
        "",
        f"A policy for **{evidence.env}**, trained with {_algorithm(evidence)} for "
        f"{evidence.step:,} environment steps on the reward *{config['reward']}*.",
        "",
        f"**Return {_score(record)}** on {_episodes(record)}.",
    ]
    if contents.curve:
        lines += ["", f"![Learning curve: return over environment steps]({contents.curve})"]
    if contents.video:
        lines += ["", f"[Video of an evaluation episode]({contents.video})"]
    return "\n".join(lines)


def _task(evidence: Evidence) -> str:
    about, shape = evidence.policy.facts, evidence.policy.shape
    low, high = evidence.policy.low.tolist(), evidence.policy.high.tolist()
    names = about["action_names"]
    actions = f"one of {shape.outputs}" if shape.discrete else f"{len(names)} numbers, see below"
    memory = evidence.policy.memory_size
    rows = {
        "environment": evidence.env,
        "arguments": f"`{json.dumps(about['env_args'])}`" if about["env_args"] else "defaults",
        "observation": f"{len(about['obs_names'])} numbers, not normalised",
        "reward memory the policy sees": f"{memory} numbers" if memory else None,
        "action": actions,
        "control step": f"{about['dt_s']:g} s" if about["dt_s"] else "no clock",
    }
    ranges = [(name, number(a), number(b)) for name, a, b in zip(names, low, high, strict=True)]
    parts = ["## Task", facts(rows)]
    columns = [(index, name) for index, name in enumerate(about["obs_names"])]
    parts.append(folded("Observation", table(["column", "name"], columns)))
    if not shape.discrete:
        parts.append(folded("Action", table(["name", "low", "high"], ranges)))
    return "\n\n".join(parts)


def _reward(evidence: Evidence) -> str:
    reward, record = evidence.reward, evidence.evaluation or {}
    parts = ["## Reward", reward.get("description") or "No description."]
    if reward.get("latex"):
        parts.append(f"$$\n{reward['latex']}\n$$")
    sums: Mapping[str, Any] = record.get("reward_terms") or {}
    known = {each["name"]: each for each in reward.get("terms", [])}
    rows = [
        (
            name,
            known.get(name, {}).get("description") or "",
            number(known.get(name, {}).get("weight"), "none"),
            number(sums.get(name)),
        )
        for name in [*known, *(name for name in sums if name not in known)]
    ]
    if rows:
        parts.append(table(["term", "rewards", "weight", "mean sum per episode"], rows))
    if evidence.reward_sha256:
        source = f"[reward_fn.py](reward_fn.py), SHA-256 `{evidence.reward_sha256}`"
        parts.append(f"The code is in {source}.")
    return "\n\n".join(parts)


def _evaluation(evidence: Evidence) -> str:
    def row(record: Json) -> tuple[str, ...]:
        mark = "**" if record["global_step"] == evidence.step else ""
        values = (
            f"{record['global_step']:,}",
            number(record["mean_return"]),
            interval(record["interval"]),
            number(record["p10_return"]),
            number(record["median_return"]),
            number(record["p90_return"]),
            number(record["episode_length"]),
            f"{record['terminated_share']:.0%}",
            number(record["env_return"]),
        )
        return tuple(f"{mark}{each}{mark}" for each in values)

    columns = [
        "steps",
        "mean return",
        "95 % interval",
        "p10",
        "median",
        "p90",
        "length",
        "ended early",
        "task's own return",
    ]
    parts = ["## Evaluation"]
    if not evidence.evaluations:
        return "\n\n".join([*parts, f"Return: {MISSING}."])
    episodes = evidence.evaluations[-1]["episodes"]
    parts += [
        f"Evaluated by telic's own evaluator during training: {episodes} episodes from start "
        "states that training never used, the most likely action at every step, no noise. The "
        "interval is a 95 % bootstrap interval of the mean. This policy is the row in bold.",
        table(columns, [row(each) for each in evidence.evaluations]),
    ]
    if evidence.siblings:
        rows = [
            (name, number(best.get("mean_return")), interval(best.get("interval")))
            for name, best in evidence.siblings.items()
        ]
        parts += [
            "Other members of the same run, at their best:",
            table(["member", "mean return", "95 % interval"], rows),
        ]
    return "\n\n".join(parts)


def _training(evidence: Evidence) -> str:
    summary = evidence.summary
    seconds = summary.get("training_time_s")
    rows = {
        "trainer": _algorithm(evidence),
        "seed": evidence.config["seed"],
        "steps": f"{summary['total_timesteps']:,}" if summary else f"{evidence.step:,}",
        "time of the run": f"{seconds:,.0f} s" if seconds is not None else MISSING,
        "state": summary.get("status", "unfinished"),
    }
    settings = table(["setting", "value"], sorted(evidence.config["settings"].items()))
    findings = summary.get("findings") or []
    told = [
        f"- **{each['name']}** at {each['step']:,} steps: {each['message']}" for each in findings
    ]
    return "\n\n".join(
        [
            "## Training",
            facts(rows),
            folded("Settings", settings),
            "Findings of the health checks:\n\n" + ("\n".join(told) if told else "- none"),
        ]
    )


def _use(evidence: Evidence, contents: Contents) -> str:
    size = evidence.policy.obs_dim
    memory = evidence.policy.memory_size
    feed = f'"memory": np.zeros((1, {memory}), np.float32)' if memory else ""
    obs = f'"obs": np.zeros((1, {size}), np.float32)'
    feeds = ", ".join(filter(None, [obs, feed]))
    call = "policy(obs, memory)" if memory else "policy(obs)"
    plays = "`python run_policy.py` plays it in Gymnasium"
    alone = f"`run_policy.load()` gives the function `{call}`" if memory else plays
    rows = [
        (f"[{name}]({name})", what, _deviation(contents.deviations.get(name)))
        for name, what in contents.files.items()
    ]
    return f"""## Use

```python
import telic

policy = telic.load_policy("policy.pt")
action = {call}  # one observation or a batch, as a Gymnasium environment gives it
```

```python
import numpy as np
import onnxruntime

session = onnxruntime.InferenceSession("policy.onnx")
action = session.run(["action"], {{{feeds}}})[0]
```

Without telic and torch: {alone}. The normaliser, the
clipping and the action range are inside every file.

{table(["file", "what", "largest deviation from the policy"], rows)}

Deviations were measured by running each file on ordinary and extreme observations, in units of
{"logits" if evidence.policy.shape.discrete else "half the action range"}."""


def _reproduce(evidence: Evidence) -> str:
    manifest = evidence.manifest
    command = manifest.get("command") or "not recorded: the run was started from Python"
    versions = {
        name: each or "not installed" for name, each in manifest.get("versions", {}).items()
    }
    rows = {
        **versions,
        "python": manifest.get("python", MISSING),
        "platform": manifest.get("platform", MISSING),
        "run": f"key `{manifest.get('key', MISSING)}`",
    }
    return f"""## Reproduce

```sh
{command}
```

{facts(rows)}"""


def _licence(evidence: Evidence) -> str:
    return f"""## Licence

The policy and the reward are their author's. This card names MIT, the licence of telic and of
`run_policy.py`; change `license` above to share them under another one.

{asset_licence(evidence.config["env"], evidence.config["env_args"])}"""


def _limits(evidence: Evidence) -> str:
    seeds = "the members listed above" if evidence.siblings else "one training seed"
    lines = [
        f"- The evidence is {seeds} and {_episodes(evidence.evaluation)}; other seeds differ.",
        "- Trained and evaluated in simulation only; not tried on hardware or with other physics.",
        "- The return says how well the reward is met, not whether that is the behaviour meant.",
    ]
    if evidence.config["settings"]["normalise_obs"]:
        lines.append("- Observations more than 10 deviations from the usual are clipped there.")
    return "## Limits\n\n" + "\n".join(lines)


def _deviation(value: float | None) -> str:
    return "" if value is None else f"{value:.1e}"


def _score(record: Json | None) -> str:
    if record is None or record["mean_return"] is None:
        return MISSING
    return f"{number(record['mean_return'])} (95 % interval {interval(record['interval'])})"


def _episodes(record: Json | None) -> str:
    return "no evaluation episodes" if record is None else f"{record['episodes']} fresh episodes"


def _algorithm(evidence: Evidence) -> str:
    algorithm = evidence.summary.get("algorithm", "ppo")
    return "PPO" if algorithm == "ppo" else algorithm
