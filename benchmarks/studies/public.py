"""Run studies on public repositories: a change that helps, one that hurts, one that does nothing.

    python -m benchmarks.studies.public FOLDER CASE [CASE ...]

FOLDER holds one folder per case with the unpacked source distribution, e.g. FOLDER/cleanrl, and a
virtual environment FOLDER/CASE.venv that can run it. Everything goes through `telic study`, as a
person at a terminal would do it; the table is appended to FOLDER/results.jsonl.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from tests.studies.toy.doors import CommandLine

from telic.studies.documents.base import read_yaml, update_yaml, write_yaml
from telic.studies.loop import run_study
from telic.studies.study import Study

CONFIRM = ("--confirm", "RUN_CANDIDATE")


class Case(NamedTuple):
    """A public repository: how it trains, the number that decides, and three known changes."""

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
    seed_flag: str = "--seed"
    files: dict[str, str] = {}
    """configuration files that a person adds"""


CASES = {
    "cleanrl": Case(
        style="single file, argparse",
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
}


def main(home: Path, names: list[str]) -> None:
    os.environ["TELIC_CONFIG_DIR"] = str(home / "config")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    for name in names:
        begun = time.monotonic()
        rows = run_case(home, name, CASES[name])
        for row in rows:
            row |= {"repository": name, "style": CASES[name].style}
            row["minutes"] = round((time.monotonic() - begun) / 60, 1)
            with (home / "results.jsonl").open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(row)


def run_case(home: Path, name: str, case: Case) -> list[dict[str, Any]]:
    """Return the verdicts of the three changes."""
    root = home / name
    if not (root / ".git").exists():
        for path, text in case.files.items():
            (root / path).write_text(text)
        who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        for words in (("init", "-q"), ("add", "-f", "."), (*who, "commit", "-qm", "public")):
            subprocess.run(["git", *words], cwd=root, check=True, capture_output=True)
    door = CommandLine(root)
    begun = time.monotonic()
    door.agent("init", "--task", "public", "--study", "known", "--says", "a known effect")
    print(f"{name}: init took {time.monotonic() - begun:.1f} s", flush=True)
    study = Study.find(root)
    describe(study, home / f"{name}.venv", case)
    steps = ("--set", f"baseline.steps={case.steps}", "--amend", "first version")
    door.agent("contract", *steps)
    door.person("approve")
    step = run_study(Study.find(root), _agent(), may_launch=True, on_step=_say)
    assert step.action == "decide", step
    door.person("decide", step.args["candidate"], "accept", "--because", "the baseline")
    rows = []
    for effect in ("helps", "hurts", "nothing"):
        change = getattr(case, effect)
        rows.append({"effect": effect, "change": change, **try_change(door, root, effect, change)})
    return rows


def describe(study: Study, environment: Path, case: Case) -> None:
    """Fill in what a person or an agent would: the adapter, the metric and the contract."""
    folder = study.folder
    adapter = read_yaml(folder.adapter)
    adapter["commands"]["train"] = {
        "argv": [*case.train, "{overrides}"],
        "activate": {"kind": "venv", "path": str(environment)},
    }
    adapter["commands"]["eval"] = None
    adapter["config"] = {"system": "custom", "override_style": case.style_of_overrides}
    adapter["seeds"] = {"flag": case.seed_flag, "controllable": True}
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
    }
    phases = ["smoke", "short_trial", "promotion"]
    update_yaml(
        folder.contract,
        {
            "scope": {"params": params, "limits": {"max_concurrent": 1}},
            "budget": {"launches": 100, "wall_clock_h": 5},
            "baseline": {"est": {"wall_clock_h": 0.3}},
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
    door: CommandLine, root: Path, title: str, change: dict[str, list[Any]]
) -> dict[str, Any]:
    """Propose a change, run it to its audit, and return the verdict; it is never accepted."""
    study = Study.find(root)
    draft = {
        "title": title,
        "kind": "config",
        "hypothesis": {
            "statement": "It changes the return.",
            "mechanism": "A known effect.",
            "expected": {"metric": study.metric_spec.primary.key, "direction": "max"},
            "falsifier": "no gain over five seeds",
        },
        "change": {"overrides": {k: {"from": v[0], "to": v[1]} for k, v in change.items()}},
        "evidence_refs": [next(iter(study.state.evidence))],
    }
    path = root.parent / "idea.yaml"
    write_yaml(path, draft)
    name = door.agent("propose", str(path))["id"]
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
