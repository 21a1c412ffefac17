"""The hooks that hosts call: one JSON object in, at most one out."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from telic.errors import TelicError
from telic.plugin.guard import before_shell, study_root

_NEEDS_SOMEBODY = ("repair", "stop", "agree", "wait", "ask")


def answer(name: str, text: str) -> str:
    """Return what a hook answers to the host's event; nothing when it has nothing to say.

    Raises TelicError, never a usage error: hosts take exit code 2 for a denial.
    """
    try:
        event = json.loads(text)
    except ValueError:
        event = None
    if not isinstance(event, dict):
        raise TelicError("A hook reads one JSON object from standard input.")
    said = HOOKS[name](cast("dict[str, Any]", event))
    return "" if said is None else json.dumps(said) + "\n"


def at_stop(event: dict[str, Any]) -> dict[str, Any] | None:
    """Return the host's answer to an agent that wants to stop: a reminder, or None.

    An agent that was reminded once (`stop_hook_active`) may stop: nobody is held for ever.
    """
    root = study_root(Path(event.get("cwd") or "."))
    if root is None or event.get("stop_hook_active"):
        return None
    for state in sorted(root.glob(".telic/tasks/*/studies/*/state.json")):
        if not _may_go_on_alone(json.loads(state.read_bytes())):
            continue
        reason = _open_work(root, task=state.parts[-4], study=state.parts[-2])
        if reason is not None:
            return {"decision": "block", "reason": reason}
    return None


def _may_go_on_alone(state: dict[str, Any]) -> bool:
    """Whether a person approved that the loop of a study goes on by itself, and it may."""
    approvals: dict[str, Any] = state.get("approvals") or {}
    automation: dict[str, Any] = state.get("automation") or {}
    approval: dict[str, Any] = approvals.get("autonomy") or {}
    return (
        bool(automation.get("autoloop"))
        and approval.get("status") == "approved"
        and state.get("study_status") == "open"
        and not state.get("fired_stops")
    )


def _open_work(root: Path, task: str, study: str) -> str | None:
    from telic.studies.next import next_step
    from telic.studies.study import Study

    step = next_step(Study.find(root, task, study))
    if step.action in _NEEDS_SOMEBODY or step.blocking:
        return None
    return (
        f"telic: the loop of {task}/{study} is approved and not finished. Next: {step.action}, "
        f"because {step.why}. {step.command or 'Ask telic study next.'}"
    )


Hook = Callable[[dict[str, Any]], dict[str, Any] | None]
HOOKS: dict[str, Hook] = {"before-shell": before_shell, "at-stop": at_stop}
