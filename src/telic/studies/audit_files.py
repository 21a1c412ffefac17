"""Write what a scan found: the adapter and the task card of a task, keeping what people said."""

from __future__ import annotations

from telic.storage.files import write_text
from telic.studies.card import render_card
from telic.studies.documents.base import rewrite_yaml, write_yaml
from telic.studies.folder import StudyFolder
from telic.studies.scan.adapter import draft_adapter, keep_confirmed, matching_presets
from telic.studies.scan.records import RepositoryAudit


def write_audit(folder: StudyFolder, found: RepositoryAudit) -> None:
    """Fill adapter.yaml and the task card; confirmed fields and people's comments stay."""
    drafted = draft_adapter(found, folder.root, matching_presets(found.packages))
    if folder.adapter.exists():
        rewrite_yaml(folder.adapter, keep_confirmed(drafted, folder.read_adapter()))
    else:
        write_yaml(folder.adapter, drafted)
    write_card(folder, found)


def write_card(folder: StudyFolder, found: RepositoryAudit) -> str:
    """Write the task card anew and return it; people's own words in it stay."""
    path = folder.task_card
    held = path.read_text("utf-8") if path.exists() else ""
    text = render_card(folder.task_id, "", found, held)
    write_text(path, text)
    return text
