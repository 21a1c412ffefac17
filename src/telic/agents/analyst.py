"""Ask a model to say in words what a session found."""

from __future__ import annotations

from telic.agents.asking import ask
from telic.agents.records import Analysis
from telic.llm import Models


def analyse(models: Models, shown: dict[str, str], story: str) -> Analysis:
    """Return the analysis that goes into the report."""
    values = {"intent": shown["intent"], "environment": shown["environment"], "story": story}
    return ask(models, "analyst", Analysis, values)
