"""A study with a baseline, runs that really left logs, and candidates that won, lost and gamed."""

import json
import math

from telic.storage.files import write_json
from telic.studies.candidates import transition
from telic.studies.contract import amend
from telic.studies.decide import decide_candidate
from telic.studies.documents.base import RUNNER, SYSTEM, update_yaml
from telic.studies.evidence.audit import audit_result
from telic.studies.evidence.measurement import analyze_run
from tests.studies.candidates.small_study import AGENT, HUMAN, end_run, make, make_study, start_run
from tests.studies.fresh import FreshStudy

POINTS = 24
STEPS = 1_000_000
BASE, BETTER, GAMED = 0.60, 0.80, 0.45
SELECTION, PROMOTION, VALIDATION = (1, 2), (101, 102, 103, 104, 105), (901, 902, 903, 904, 905)


def measured_study(root) -> FreshStudy:
    """A study whose metric spec has terms and a target."""
    study = make_study(root)
    update_yaml(
        study.folder.metric_spec,
        {
            "primary": {"key": "success", "direction": "max", "aggregate": "last", "target": 0.95},
            "components": [
                {"key": "reward/alive", "bounds": [0, 1]},
                {"key": "reward/forward"},
                {"key": "reward/energy"},
            ],
        },
    )
    amend(study, HUMAN, "terms and a target")
    return study


def noise(*numbers):
    """A repeatable number from -0.5 to 0.5."""
    return math.modf(sum(n * 0.6180339887 * (i + 1) for i, n in enumerate(numbers)))[0] - 0.5


def log_rows(final, seed, *, is_gamed=False):
    rows = []
    for i in range(POINTS + 1):
        share = i / POINTS
        rise = 1 - math.exp(-4 * share)
        success = final * rise + 0.02 * noise(seed, i) + 0.03 * noise(seed)
        alive = 0.5 + 0.4 * rise
        forward = 2 * rise + 0.1 * noise(seed, i, 3)
        if is_gamed:
            success, alive = final * (1.6 - share) + 0.02 * noise(seed, i), 0.5 + 40 * share
        rows.append(
            {
                "step": STEPS * share,
                "time": 1_700_000_000 + 10 * i,
                "success": success,
                "falls": 0.1 + 0.02 * noise(seed, i, 5),
                "return": alive + forward - 0.2,
                "reward/alive": alive,
                "reward/forward": forward,
                "reward/energy": -0.2,
                "kl": 0.02 + 0.01 * noise(seed, i, 7),
            }
        )
    return rows


def leave_files(study, run, rows):
    """Write what the launch path and the training leave in a run folder."""
    folder = study.folder.run(run)
    (folder / "artifacts").mkdir(parents=True)
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "artifacts" / "metrics.jsonl").write_text(text)
    (folder / "stdout.log").write_text("training\n")
    machine = {"platform": "Linux 6.1 x86_64", "gpus": None, "precision_flags": {}}
    write_json(folder / "hw.json", machine)
    write_json(folder / "git.json", {"changed": [], "mode": "in_place"})
    write_json(folder / "exit.json", {"code": 0, "signal": None, "ended_by": None})


def validated(study, title, **changes) -> str:
    """Make a candidate and pass it through validation, as a system would."""
    name = make(study, title, **changes)
    state = study.state
    facts = {
        "checks": [{"id": "V01", "passed": True}],
        "contract_hash": state.contract_hash,
        "content_hash": state.candidates[name].content_hash,
        "phase": "promotion",
    }
    transition(study, name, "validated", SYSTEM, "checked", facts)
    return name


def run_phase(study, candidate, phase, seeds, final, luck=0, code_hash="0" * 64, **kinds):
    facts = {"gates": GATES, "steps": STEPS}
    runs = [start_run(study, candidate, phase, seed, **facts) for seed in seeds]
    for run, seed in zip(runs, seeds, strict=True):
        leave_files(study, run, log_rows(final, seed + luck, **kinds))
        actual = {"wall_clock_h": 0.5, "env_steps": STEPS, "launches": 1}
        end_run(study, run, actual=actual, code_hash=code_hash)
    return runs


GATES = {"G18": True}


def promoted(study, title, final, *, seeds=PROMOTION, **changes):
    """A candidate with promotion runs that have ended."""
    kinds = {key: changes.pop(key) for key in ("is_gamed", "code_hash") if key in changes}
    plan = {"phases": ["promotion"], "seeds": {"promotion": list(seeds)}, "steps": STEPS}
    name = validated(study, title, plan=plan, **changes)
    runs = run_phase(study, name, "promotion", seeds, final, **kinds)
    transition(study, name, "completed", RUNNER, "promotion is over")
    trusted = study.incumbent and study.incumbent.candidate
    if trusted is not None:  # the arm beside it
        done = {run.seed for run in study.state.runs_of(trusted, "promotion").values()}
        for run in run_phase(study, trusted, "promotion", sorted(set(seeds) - done), BASE, 7):
            analyze_run(study, run, HUMAN)
    return name, runs


def baseline(study):
    """The baseline with five validation runs that have ended."""
    plan = {
        "phases": ["incumbent_validation"],
        "seeds": {"incumbent_validation": list(VALIDATION)},
        "steps": STEPS,
    }
    name = validated(study, "baseline", kind="baseline", plan=plan, change={}, evidence_refs=[])
    study.append("candidate.advanced", name, {"phase": "incumbent_validation"}, SYSTEM)
    runs = run_phase(study, name, "incumbent_validation", VALIDATION, BASE)
    transition(study, name, "completed", RUNNER, "validation is over")
    return name, runs


def established_study(root):
    """Make a study whose baseline is the incumbent."""
    study = measured_study(root)
    name, runs = baseline(study)
    for run in runs:
        analyze_run(study, run, AGENT)
    audit_result(study, name, AGENT)
    decide_candidate(study, name, "accept", HUMAN, "the baseline repeats")
    return study
