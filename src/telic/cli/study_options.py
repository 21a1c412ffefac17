"""Options that the commands of `telic study` share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from telic.studies.folder import StudyFolder

Root = Annotated[Path, typer.Option("--root", help="The repository.")]
Task = Annotated[str | None, typer.Option("--task", help="Task; the active one if left out.")]
Study = Annotated[str | None, typer.Option("--study", help="Study; the active one if left out.")]

HERE = Path()


def find_study(root: Path, task: str | None, study: str | None) -> StudyFolder:
    """Return the study that the options name."""
    from telic.studies.folder import StudyFolder

    return StudyFolder.find(root, task, study)
