"""Create studies with their initial files, and pause, resume and close them."""

from __future__ import annotations

from pathlib import Path

from telic.errors import UsageError
from telic.storage.files import write_text
from telic.storage.journal import JournalEntry
from telic.storage.reading import file_hash
from telic.studies.canonical import check_slug
from telic.studies.contract import evaluator_files
from telic.studies.documents.adapter import Adapter
from telic.studies.documents.base import StudyActor, read_document
from telic.studies.errors import GateRefused, StudyError
from telic.studies.folder import StudyFolder, StudyStatus, activate
from telic.studies.study import Study

_IGNORED = "locks/\nworktrees/\n*.lock\n.unfinished-*\n"
CONTRACT = """\
# Allowed changes, hardware, budget and evaluation of this study.
# Each part is approved by a person; an edit voids the approval of its part.
schema: telic.contract/1
version: 1
task:
  task_id: {task}
  statement: {statement}
  env_ids: []
  success_definition: ""        # when is the task complete? e.g. no fall for 20 s
metrics:
  spec: metric_spec.yaml
scope:
  kinds: [config, reward_tuning, curriculum, dr_probe]   # reward_engineering, code: opt in
  params: {{}}                    # name: {{type: float, min: 0.5, max: 4, max_step_ratio: 2}}
  files:
    allow: []
    deny: ["**/eval*.py"]
  limits: {{max_diff_lines: 200, max_changed_params: 4, max_concurrent: 1}}
budget:
  launches: 60
  # wall_clock_h, gpu_h, cpu_core_h, env_steps, llm_usd, llm_tokens, disk_gb, per_candidate
hardware:
  hosts: [local]
  gpus: []
  launcher: local
baseline:
  command: train
  overrides: {{}}
  seeds: [900, 901, 902, 903, 904]
  # steps: 1000000              # of a full training
  # est: {{wall_clock_h: 1}}      # what measuring one candidate costs
evaluation:
  protocol: eval_protocol.yaml
seeds:                          # disjoint: choosing, claiming, confirming
  selection: "1-99"
  promotion: "100-199"
  validation: "900-999"
automation:
  autoloop: false
  launch: ask                   # ask | pre_approved
  decide: ask                   # ask | auto
  max_debug_attempts: 3
stop_rules:
  - {{rule: no_progress, k: 5}}
"""
_KINDS = {
    "csv": ("csv", "progress.csv"),
    "json": ("jsonl", "metrics.jsonl"),
    "tensorboard": ("tensorboard", "."),
    "stdout": ("regex_stdout", "stdout.log"),
}
METRIC_SPEC = """\
# Metrics, and which one decides. telic study adapter --smoke checks that they are logged.
schema: telic.metric_spec/1
primary:
  key: {key}                  # the deciding metric by its name in the log
  direction: max
  aggregate: last             # mean | median | iqm | last | auc
  min_effect_abs: 0.0         # smallest relevant gain
components: []                # terms of the reward: {{key: reward/track}}
guardrails: []                # {{key: falls, direction: min, rule: non_inferior, margin: 0.1}}
no_guardrails_because: none named yet
extractor: {{kind: {kind}, path: {path}}}   # in the folder of a run
"""
PROTOCOL = """\
# How results are measured. Results of other protocols are not comparable.
schema: telic.eval_protocol/1
command:                      # null: the numbers come from the training run itself
evaluator_files: {files}
eval_seeds: []                # seeds not used in training
episodes: 10
"""


def create_study(
    root: Path, task_id: str, study_id: str, actor: StudyActor, *, statement: str = ""
) -> Study:
    """Create a study in the folder .telic of `root`, and make it the active study.

    If the study exists, it is activated, and missing files are completed. Outside of `root`,
    only the user's key and a copy of the ledger's last line are written.
    """
    if not root.is_dir():
        raise UsageError(f"{root} is not a folder.", hint="Pass the repository with --root.")
    folder = StudyFolder(
        root.absolute(), check_slug("task", task_id), check_slug("study", study_id)
    )
    purpose = statement or f"{task_id}: describe here what the robot must do"
    escaped = purpose.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
    texts = {
        folder.state_root / ".gitignore": _IGNORED,
        folder.task_card: f"# {task_id}\n\n{purpose}\n",
        folder.contract: CONTRACT.format(task=task_id, statement=f'"{escaped}"'),
    }
    for path, text in texts.items():
        if not path.exists():
            write_text(path, text)
    study = Study(folder)
    with study.locked():
        if not study.state.ledger_head.seq:
            study.append("study.created", None, {}, actor)
    activate(folder)
    return study


def write_templates(folder: StudyFolder) -> tuple[str, ...]:
    """Write missing metric and protocol files and return their names."""
    adapter = read_document(folder.adapter, Adapter) if folder.adapter.is_file() else None
    logged = adapter.metrics.map if adapter else {}
    sources = [source.kind for source in adapter.logging.sources] if adapter else []
    kind, path = next((_KINDS[each] for each in sources if each in _KINDS), _KINDS["json"])
    key = next((name for name in ("success", "return") if name in logged), "return")
    evaluators = evaluator_files(folder.root, adapter)
    lines = [f"\n  {name}: {file_hash(folder.root / name)}" for name in evaluators]
    texts = {
        folder.metric_spec: METRIC_SPEC.format(key=key, kind=kind, path=path),
        folder.protocol: PROTOCOL.format(files="".join(lines) or "{}"),
    }
    written = [path for path in texts if not path.exists()]
    for path in written:
        write_text(path, texts[path])
    return tuple(path.name for path in written)


def set_study_status(
    study: Study, status: StudyStatus, actor: StudyActor, reason: str
) -> JournalEntry:
    """Pause, resume or close a study. Agents may pause a study, but not resume or close it.

    Resuming lifts fired stop rules and removes the STOP file. Closing is permanent. Raises
    StudyError E_CLOSED if the study is closed, GateRefused E_NO_HUMAN if the actor is not a person,
    and E_RUN_LIVE if the study is to be closed while runs are live.
    """
    with study.locked():
        if study.state.study_status == "closed":
            raise StudyError("E_CLOSED", f"{study.name} is closed.", hint="Create a new study.")
        if status != "paused" and actor.kind != "human":
            raise GateRefused("E_NO_HUMAN", "Only a person can resume or close a study.")
        if status == "closed" and (live := study.state.active_runs):
            raise GateRefused(
                "E_RUN_LIVE",
                f"{', '.join(live)} is still running in {study.name}.",
                hint="Wait until it ends, or stop it: telic study run --stop RUN",
            )
        facts = {"status": status, "reason": reason}
        entry = study.append("study.status", None, facts, actor)
        if status == "open":
            study.folder.stop_file.unlink(missing_ok=True)
    return entry


def why_stopped(study: Study) -> str:
    """Return the reason why a study is stopped."""
    reasons = [f"{each.rule} ({each.why})" for each in study.state.fired_stops]
    if study.folder.stop_file.exists():
        reasons.append("a file named STOP exists")
    return "; ".join(reasons) or f"it is {study.state.study_status}"
