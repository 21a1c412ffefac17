"""What an adapter says of a repository and nobody confirmed yet: shown and confirmed as one."""

from __future__ import annotations

from typing import Any

from telic.studies.approvals import Consent
from telic.studies.canonical import content_hash
from telic.studies.documents.adapter import Adapter, confirm_field
from telic.studies.documents.base import Sha, rewrite_yaml, value_at
from telic.studies.errors import GateRefused
from telic.studies.study import Study


def needed_fields(adapter: Adapter) -> tuple[str, ...]:
    """Return the fields that a launch needs a person's word for."""
    commands = [name for name in ("train", "smoke", "eval") if getattr(adapter.commands, name)]
    runs_words = adapter.launcher.kind == "custom" or bool(adapter.launcher.options.get("probe"))
    launcher = ["launcher"] if runs_words else []
    return (*(f"commands.{name}" for name in commands), "metrics", "seeds", "outputs", *launcher)


def unconfirmed(study: Study) -> dict[str, Any]:
    """Return what the adapter says in those fields, where nobody has confirmed it."""
    if not study.folder.adapter.is_file():
        return {}
    adapter, data = study.adapter, study.adapter.as_data()
    return {
        field: value_at(data, field)
        for field in needed_fields(adapter)
        if not _is_confirmed(adapter, field)
    }


def unconfirmed_hash(study: Study) -> Sha | None:
    """Return the hash of what is to be confirmed; None when nothing is."""
    found = unconfirmed(study)
    return content_hash(found) if found else None


def confirm_all(study: Study, consent: Consent, seen: Sha) -> tuple[str, ...]:
    """Confirm all that a person was shown; raises GateRefused E_CHANGED for another text."""
    if unconfirmed_hash(study.refresh()) != seen:
        raise GateRefused("E_CHANGED", "adapter.yaml changed while you were asked.")
    fields, adapter = tuple(unconfirmed(study)), study.adapter
    for field in fields:
        adapter = confirm_field(adapter, field)
    rewrite_yaml(study.folder.adapter, adapter)
    note = {"text": f"{consent.actor.label} confirmed {', '.join(fields)} of adapter.yaml"}
    study.refresh().append("note.added", None, {**note, "fields": list(fields)}, consent.actor)
    return fields


def _is_confirmed(adapter: Adapter, field: str) -> bool:
    whole = adapter.provenance.get(field.partition(".")[0])
    part = adapter.provenance.get(field)
    return any(each is not None and each.status == "confirmed" for each in (whole, part))
