"""What is written into the run folder before anything starts: enough to start it again by hand."""

from __future__ import annotations

from typing import Any

from telic import __version__
from telic.storage.files import write_json, write_text
from telic.studies import git_read
from telic.studies.documents.base import RUNNER
from telic.studies.documents.runs import Run, RunStatus, Times
from telic.studies.launch.attempt import LaunchAttempt
from telic.studies.launch.command import OVERRIDES_FILE
from telic.studies.launch.hardware import fact_sheet
from telic.studies.launch.redaction import redact_environment
from telic.studies.launch.request import ARTEFACTS


def write_run_folder(attempt: LaunchAttempt) -> None:
    """Write run.json, cmd.json, env.json, git.json, hw.json and what the launcher starts from."""
    folder = attempt.run_folder
    (folder / ARTEFACTS).mkdir(parents=True)
    if attempt.adapter.config.override_style == "file":
        write_json(folder / ARTEFACTS / OVERRIDES_FILE, attempt.overrides)
    write_json(folder / "cmd.json", command_facts(attempt))
    write_json(folder / "env.json", _environment_facts(attempt))
    write_json(folder / "git.json", _tree_facts(attempt))
    write_json(folder / "hw.json", fact_sheet(attempt.machine))
    if attempt.rendered.document is not None:
        write_text(folder / str(attempt.rendered.document_name), attempt.rendered.document)
    write_json(attempt.study.folder.run_file(attempt.run_id), _run(attempt).as_data())


def command_facts(attempt: LaunchAttempt) -> dict[str, Any]:
    """Return the command and what starts it."""
    return {
        "nonce": attempt.nonce,
        "argv": list(attempt.command.argv),
        "argv_hash": attempt.command.hash,
        "cwd": str(attempt.command.cwd),
        "timeout_s": attempt.order.timeout_s,
        "launcher": attempt.adapter.launcher.kind,
        "launcher_options": attempt.adapter.launcher.options,
        "started_by": list(attempt.rendered.argv),
        "rendered_hash": attempt.rendered.hash,
        "tool_version": __version__,
    }


def _run(attempt: LaunchAttempt) -> Run:
    return Run(
        id=attempt.run_id,
        created_at=attempt.now,
        created_by=RUNNER,
        candidate=attempt.request.candidate,
        phase=attempt.request.phase,
        seed=attempt.request.seed,
        cmd_hash=attempt.command.hash,
        nonce=attempt.nonce,
        launcher=attempt.adapter.launcher.kind,
        status=RunStatus.STARTING,
        times=Times(planned_at=attempt.now),
        resources=attempt.reservation,
        artefacts={"run_dir": ARTEFACTS, "stdout": "stdout.log", "stderr": "stderr.log"},
        retry_of=attempt.request.retry_of,
    )


def _environment_facts(attempt: LaunchAttempt) -> dict[str, Any]:
    environment = attempt.environment
    return {
        "set": redact_environment(environment.changed),
        "inherited": redact_environment(
            {k: v for k, v in environment.variables.items() if k not in environment.changed}
        ),
        "withheld": list(environment.withheld),
        "network": "offline" if environment.is_offline else "approved",
        "enforced_by": "environment" if environment.is_offline else "none",
    }


def _tree_facts(attempt: LaunchAttempt) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "tree": str(attempt.tree),
        "mode": attempt.candidate.isolation.mode,
        "base_commit": attempt.candidate.base_commit,
        "patch_hash": attempt.candidate.change.patch_sha256,
    }
    if git_read.is_repository(attempt.tree):
        facts["commit"] = git_read.head_commit(attempt.tree)
        facts["changed"] = list(git_read.changed_paths(attempt.tree))
        facts["diff"] = git_read.ask(attempt.tree, "diff", "--no-ext-diff", "HEAD", "--").out
    return facts
