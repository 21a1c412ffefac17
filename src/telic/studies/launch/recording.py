"""What is written into the run folder before anything starts: enough to start it again by hand."""

from __future__ import annotations

from typing import Any

from telic import __version__
from telic.storage.files import write_json, write_text
from telic.studies import git_read
from telic.studies.documents.base import RUNNER
from telic.studies.documents.runs import Run, RunStatus, Times
from telic.studies.launch.command import OVERRIDES_FILE
from telic.studies.launch.hardware import fact_sheet
from telic.studies.launch.planning import ARTEFACTS
from telic.studies.launch.redaction import redact_environment
from telic.studies.launch.situation import Situation


def write_run_folder(s: Situation) -> None:
    """Write run.json, cmd.json, env.json, git.json, hw.json and what the launcher starts from."""
    folder = s.run_folder
    (folder / ARTEFACTS).mkdir(parents=True)
    if s.adapter.config.override_style == "file":
        write_json(folder / ARTEFACTS / OVERRIDES_FILE, s.overrides)
    write_json(folder / "cmd.json", command_facts(s))
    write_json(folder / "env.json", _environment_facts(s))
    write_json(folder / "git.json", _tree_facts(s))
    write_json(folder / "hw.json", fact_sheet(s.machine))
    if s.rendered.document is not None:
        write_text(folder / str(s.rendered.document_name), s.rendered.document)
    write_json(s.folder.run_file(s.run_id), _run(s).as_data())


def command_facts(s: Situation) -> dict[str, Any]:
    """Return the command and what starts it."""
    return {
        "nonce": s.nonce,
        "argv": list(s.command.argv),
        "argv_hash": s.command.hash,
        "cwd": str(s.command.cwd),
        "timeout_s": s.order.timeout_s,
        "launcher": s.adapter.launcher.kind,
        "launcher_options": s.adapter.launcher.options,
        "started_by": list(s.rendered.argv),
        "rendered_hash": s.rendered.hash,
        "tool_version": __version__,
    }


def _run(s: Situation) -> Run:
    return Run(
        id=s.run_id,
        created_at=s.now,
        created_by=RUNNER,
        candidate=s.request.candidate,
        phase=s.request.phase,
        seed=s.request.seed,
        cmd_hash=s.command.hash,
        nonce=s.nonce,
        launcher=s.adapter.launcher.kind,
        status=RunStatus.STARTING,
        times=Times(planned_at=s.now),
        resources=s.reservation,
        artefacts={"run_dir": ARTEFACTS, "stdout": "stdout.log", "stderr": "stderr.log"},
        retry_of=s.request.retry_of,
    )


def _environment_facts(s: Situation) -> dict[str, Any]:
    environment = s.environment
    return {
        "set": redact_environment(environment.changed),
        "inherited": redact_environment(
            {k: v for k, v in environment.variables.items() if k not in environment.changed}
        ),
        "withheld": list(environment.withheld),
        "network": "offline" if environment.is_offline else "approved",
        "enforced_by": "environment" if environment.is_offline else "none",
    }


def _tree_facts(s: Situation) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "tree": str(s.tree),
        "mode": s.candidate.isolation.mode,
        "base_commit": s.candidate.base_commit,
        "patch_hash": s.candidate.change.patch_sha256,
    }
    if git_read.is_repository(s.tree):
        facts["commit"] = git_read.head_commit(s.tree)
        facts["changed"] = list(git_read.changed_paths(s.tree))
        facts["diff"] = git_read.ask(s.tree, "diff", "--no-ext-diff", "HEAD", "--").out
    return facts
