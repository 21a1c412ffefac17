"""Run studies on public repositories with helpful, harmful and neutral changes.

    python -m benchmarks.studies.public FOLDER CASE [CASE ...]

FOLDER holds one folder per case with the unpacked source distribution, e.g. FOLDER/cleanrl, and a
virtual environment FOLDER/CASE.venv that can run it. All steps use `telic study`, as a person at a
terminal would. The table is appended to FOLDER/results.jsonl.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.published import publish, published_rows
from tests.studies.toy.interfaces import CommandLine

from telic.studies.documents.base import read_yaml, update_yaml, write_yaml
from telic.studies.loop import run_study
from telic.studies.study import Study

CONFIRM = ("--confirm", "RUN_CANDIDATE")


class Case(NamedTuple):
    """Public repository, with its training, its decisive metric, and three known changes."""

    title: str
    style: str
    train: list[str]
    style_of_overrides: str
    outputs: dict[str, Any]
    metric: dict[str, Any]
    extractor: dict[str, Any]
    steps: int
    helps: dict[str, list[Any]]
    hurts: dict[str, list[Any]]
    nothing: dict[str, list[Any]]
    seed_flag: str | None = "--seed"
    baseline: dict[str, Any] | None = None
    """parameters of the baseline"""
    patched: str | None = None
    """file in which a patch changes parameters, or None for the command line"""
    files: tuple[tuple[str, str], ...] = ()
    """configuration files that a person adds"""
    smoke_steps: int | None = None
    """steps until the metric is logged, if more than the default of smoke runs"""
    deterministic: str | None = None
    """"no" if equal seeds give different results"""


REJAX = """\
ppo:
  env: CartPole-v1
  agent_kwargs:
    activation: "relu"
  total_timesteps: 16384
  eval_freq: 4096
  num_envs: 16
  num_steps: 128
  num_epochs: 4
  num_minibatches: 4
  learning_rate: 0.00003
  max_grad_norm: 10
  ent_coef: 0.01
  clip_eps: 0.2
  gamma: 0.99
  gae_lambda: 0.95
  skip_initial_evaluation: false
"""
CASES = {
    "cleanrl": Case(
        title="CleanRL 1.2.0 `ppo.py`, 8,192 steps",
        style="single file, argparse, TensorBoard",
        train=["python", "cleanrl/ppo.py", "--seed", "{seed}", "--total-timesteps", "{steps}"],
        style_of_overrides="--k v",
        outputs={"run_dir_template": "runs/*"},
        metric={"key": "charts/episodic_return", "aggregate": "auc"},
        extractor={"kind": "tensorboard", "path": "."},
        steps=8192,
        helps={"learning-rate": [2.5e-4, 1.5e-3]},
        hurts={"learning-rate": [2.5e-4, 1e-6]},
        nothing={"wandb-project-name": ["cleanRL", "other"]},
    ),
    "rl_zoo3": Case(
        title="RL Zoo 2.9.2 PPO, 10,000 steps",
        style="package, argparse and YAML, CSV",
        train=[
            *("python", "-m", "rl_zoo3.train", "--algo", "ppo", "--env", "CartPole-v1"),
            *("--seed", "{seed}", "-n", "{steps}", "-f", "{run_dir}", "--eval-freq", "-1"),
            *("--device", "cpu", "--verbose", "0", "-params"),
        ],
        style_of_overrides="k:v",
        outputs={},
        metric={"key": "r", "aggregate": "mean"},
        extractor={"kind": "csv", "path": "."},
        steps=10_000,
        baseline={"learning_rate": 1e-4, "stats_window_size": 100},
        helps={"learning_rate": [1e-4, 1e-3]},
        hurts={"learning_rate": [1e-4, 1e-7]},
        nothing={"stats_window_size": [100, 50]},
    ),
    "sheeprl": Case(
        title="SheepRL 0.8.4 PPO, 8,192 steps",
        style="package, Hydra, TensorBoard",
        train=[
            *("python", "-m", "sheeprl", "exp=ppo", "env.id=CartPole-v1", "fabric.accelerator=cpu"),
            *("seed={seed}", "algo.total_steps={steps}", "env.num_envs=4", "env.sync_env=True"),
            *("env.capture_video=False", "algo.run_test=False", "checkpoint.save_last=False"),
            *("checkpoint.every=0", "metric.log_every=512", "buffer.memmap=False"),
            *("log_root={run_dir}", "hydra.run.dir={run_dir}/hydra", "num_threads=1"),
        ],
        style_of_overrides="k=v",
        outputs={},
        metric={"key": "Rewards/rew_avg", "aggregate": "auc"},
        extractor={"kind": "tensorboard", "path": "."},
        steps=8192,
        baseline={"algo.optimizer.lr": 1e-4, "checkpoint.keep_last": 5},
        helps={"algo.optimizer.lr": [1e-4, 2e-3]},
        hurts={"algo.optimizer.lr": [1e-4, 1e-8]},
        nothing={"checkpoint.keep_last": [5, 2]},
        seed_flag="seed",
    ),
    "sf": Case(
        title="Sample Factory 2.1.1 APPO, 8,192 steps",
        style="asynchronous workers, argparse, TensorBoard",
        train=[
            *("python", "-m", "sf_examples.train_gym_env", "--algo=APPO", "--env=CartPole-v1"),
            *("--seed={seed}", "--train_for_env_steps={steps}", "--train_dir={run_dir}"),
            *("--experiment=x", "--device=cpu", "--serial_mode=True", "--async_rl=False"),
            *("--num_workers=1", "--num_envs_per_worker=4", "--worker_num_splits=1"),
            *("--batch_size=512", "--rollout=64", "--with_wandb=False"),
            "--experiment_summaries_interval=1",
            "--use_rnn=False",
        ],
        style_of_overrides="--k=v",
        outputs={},
        metric={"key": "reward/reward", "aggregate": "last"},
        extractor={"kind": "tensorboard", "path": "."},
        steps=8192,
        baseline={"learning_rate": 1e-4, "keep_checkpoints": 2},
        helps={"learning_rate": [1e-4, 2e-3]},  # it does not: three of five seeds collapse
        hurts={"learning_rate": [1e-4, 1e-7]},
        nothing={"keep_checkpoints": [2, 3]},
        seed_flag="--seed",
        smoke_steps=8192,
        deterministic="no",
    ),
    "rejax": Case(
        title="Rejax 0.1.3 PPO, 16,384 steps",
        style="JAX, YAML, standard output",
        train=[
            *("python", "train.py", "--algorithm", "ppo", "--config", "configs/study.yaml"),
            *("--num-seeds", "1", "--seed_id", "{seed}"),
        ],
        style_of_overrides="source_edit",
        outputs={},
        metric={"key": "ret", "aggregate": "last"},
        extractor={
            "kind": "regex_stdout",
            "path": "stdout.log",
            "x-pattern": r"Step (?P<step>\d+), .*return: (?P<ret>[-\d.]+)",
        },
        steps=0,
        helps={"learning_rate": ["0.00003", "0.001"]},
        hurts={"learning_rate": ["0.00003", "0.0000001"]},
        nothing={"skip_initial_evaluation": ["false", "true"]},
        seed_flag=None,
        patched="configs/study.yaml",
        files=(("configs/study.yaml", REJAX),),
    ),
}


def main(home: Path, names: list[str]) -> None:
    """Run cases one after the other, and append their verdicts."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    rows_of_all: list[dict[str, Any]] = []
    for name in names:
        os.environ["TELIC_CONFIG_DIR"] = str(home / f"{name}.config")
        begun = time.monotonic()
        rows = run_case(home, name, CASES[name])
        for row in rows:
            row |= {"repository": name, "style": CASES[name].style}
            row["minutes"] = round((time.monotonic() - begun) / 60, 1)
            with (home / "results.jsonl").open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(row)
            rows_of_all.append(_shown(name, row))
    titles = [CASES[name].title for name in names]
    kept = [row for row in published_rows("studies") if row["repository"] not in titles]
    publish("studies", [*kept, *rows_of_all])


def _shown(name: str, row: dict[str, Any]) -> dict[str, Any]:
    changes = [f"{key} {old} → {new}" for key, (old, new) in row["change"].items()]
    low, high = row.get("ci") or (None, None)
    return {
        **{"repository": CASES[name].title, "style": row["style"], "change": ", ".join(changes)},
        **{"gain": row.get("delta"), "low": low, "high": high},
        "verdict": row["verdict"].replace("_", " "),
    }


def run_case(home: Path, name: str, case: Case) -> list[dict[str, Any]]:
    """Return the verdicts of the three changes."""
    root = home / name
    if not (root / ".git").exists():
        for path, text in case.files:
            (root / path).write_text(text)
        who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        for words in (("init", "-q"), ("add", "-f", "."), (*who, "commit", "-qm", "public")):
            subprocess.run(["git", *words], cwd=root, check=True, capture_output=True)
    door = CommandLine(root)
    begun = time.monotonic()
    door.agent("init", "--task", "public", "--study", "known", "--behavior", "a known effect")
    print(f"{name}: init took {time.monotonic() - begun:.1f} s", flush=True)
    study = Study.find(root)
    describe(study, home / f"{name}.venv", case)
    sizes = {"steps": case.steps, "smoke_steps": case.smoke_steps}
    given = [f"baseline.{name}={value}" for name, value in sizes.items() if value]
    steps = [word for each in given for word in ("--set", each)]
    door.agent("contract", *steps, "--amend", "first version")
    door.person("approve")
    step = run_study(Study.find(root), _agent(), may_launch=True, on_step=_say)
    assert step.action == "decide", step
    door.person("decide", step.args["candidate"], "accept", "--because", "the baseline")
    rows = []
    for effect in ("helps", "hurts", "nothing"):
        change = getattr(case, effect)
        found = try_change(door, root, effect, change, case)
        rows.append({"effect": effect, "change": change, **found})
    return rows


def describe(study: Study, environment: Path, case: Case) -> None:
    """Write the adapter, the metric and the contract as a person or an agent would."""
    folder = study.folder
    adapter = read_yaml(folder.adapter)
    adapter["commands"]["train"] = {
        "argv": [*case.train, "{overrides}"],
        "activate": {"kind": "venv", "path": str(environment)},
    }
    adapter["commands"]["eval"] = None
    adapter["config"] = {"system": "custom", "override_style": case.style_of_overrides}
    seeds = {"flag": case.seed_flag, "deterministic": case.deterministic}
    adapter["seeds"] = {**seeds, "controllable": True}
    adapter["outputs"] = {**adapter["outputs"], "checkpoint_glob": None, **case.outputs}
    adapter["hazards"] = []
    adapter["provenance"] = {}
    write_yaml(folder.adapter, adapter)
    spec = read_yaml(folder.metric_spec)
    spec["primary"] = {"direction": "max", "min_effect_abs": 0.0, **case.metric}
    spec["extractor"] = case.extractor
    write_yaml(folder.metric_spec, spec)
    write_yaml(
        folder.protocol,
        {"schema": "telic.eval_protocol/1", "command": None, "episodes": 1},
    )
    params = {
        path: {"type": "str" if isinstance(value[0], str) else "float"}
        for each in (case.helps, case.hurts, case.nothing)
        for path, value in each.items()
        if case.patched is None
    }
    params |= {name: {"type": "float"} for name in case.baseline or {}}
    phases = ["smoke", "short_trial", "promotion"]
    update_yaml(
        folder.contract,
        {
            "scope": {
                "params": params,
                "limits": {"max_concurrent": 1},
                "files": {"allow": [case.patched] if case.patched else []},
            },
            # Only numbers of a configuration file change, and they are read by the person.
            "evaluation": {"measures_training_log": case.patched is not None},
            "budget": {"launches": 100, "wall_clock_h": 5},
            "baseline": {"est": {"wall_clock_h": 0.3}, "overrides": case.baseline or {}},
            "task": {"success_definition": "a higher return"},
            "automation": {
                "launch": "pre_approved",
                "pre_approved": [{"kind": "config", "phases": phases}],
            },
            # Five seeds to claim with: an open question stays open.
            "seeds": {"promotion": "100-104"},
        },
    )


def try_change(
    door: CommandLine, root: Path, title: str, change: dict[str, list[Any]], case: Case
) -> dict[str, Any]:
    """Propose a change, run it to its audit, and return the verdict without accepting it."""
    study = Study.find(root)
    draft: dict[str, Any] = {
        "title": title,
        "kind": "config",
        "hypothesis": {
            "statement": "It changes the return.",
            "mechanism": "A known effect.",
            "expected": {"metric": study.metric_spec.primary.key, "direction": "max"},
            "falsifier": "no gain over five seeds",
        },
        "evidence_refs": [next(iter(study.state.evidence))],
    }
    path, options = root.parent / "idea.yaml", list[str]()
    if case.patched is None:
        values = {key: [value, value] for key, value in (case.baseline or {}).items()} | change
        overrides = {key: {"from": old, "to": new} for key, (old, new) in values.items()}
        draft["change"] = {"overrides": overrides}
    else:
        text = (root / case.patched).read_text()
        for key, (old, new) in change.items():
            text = text.replace(f"{key}: {old}", f"{key}: {new}")
        changed = root.parent / "changed.yaml"
        changed.write_text(text)
        options = ["--file", f"{case.patched}={changed}"]
    write_yaml(path, draft)
    name = door.agent("propose", str(path), *options)["id"]
    step = run_study(Study.find(root), _agent(), may_launch=True, on_step=_say)
    study = Study.find(root)
    audits = study.audits(name)
    if not audits:
        return {"verdict": study.candidate_state(name).status.value, "why": step.why}
    audit = audits[-1]
    if step.action == "decide":
        words = ("inconclusive", "--because", "only its verdict is wanted")
        door.person("decide", name, *words)
    found = {"delta": audit.stats.delta, "ci": audit.stats.ci, "why": audit.reasons[:1]}
    return {"verdict": audit.verdict, **found}


def _agent() -> Any:
    from telic.studies.documents.base import StudyActor

    return StudyActor(kind="agent", name="benchmark")


def _say(step: Any) -> None:
    print(f"  {step.action} {step.args.get('candidate', '')} {step.why}"[:180], flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), sys.argv[2:])
