"""JSON Schemas of the documents, for editors and other tools; made from the records."""

from __future__ import annotations

from functools import cache
from typing import Any

from telic.studies.documents.adapter import Adapter
from telic.studies.documents.base import Document
from telic.studies.documents.candidate import Candidate
from telic.studies.documents.contract import Contract
from telic.studies.documents.metrics import MetricSpec, Protocol
from telic.studies.documents.registry import Registry
from telic.studies.documents.runs import Decision, Evidence, Experiments, QueueManifest, Run
from telic.studies.state import StudyState

_DOCUMENTS: tuple[type[Document], ...] = (
    Adapter,
    Candidate,
    Contract,
    Decision,
    Evidence,
    Experiments,
    MetricSpec,
    Protocol,
    QueueManifest,
    Registry,
    Run,
    StudyState,
)
_DIALECT = "https://json-schema.org/draft/2020-12/schema"


@cache
def json_schemas() -> dict[str, dict[str, Any]]:
    """Return the schema of every document by file name, e.g. contract-1.json."""
    found: dict[str, dict[str, Any]] = {}
    for kind in _DOCUMENTS:
        name = str(kind.model_fields["schema_id"].default)
        schema = _closed(kind.model_json_schema(by_alias=True))
        schema["properties"]["schema"] = {"const": name}
        file = name.removeprefix("telic.").replace("/", "-") + ".json"
        found[file] = {"$schema": _DIALECT, "$id": name, **schema}
    return found


def _closed(schema: Any) -> Any:
    """Allow no keys but the known ones and those that start with x-."""
    if isinstance(schema, list):
        return [_closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    out = {key: _closed(value) for key, value in schema.items()}
    if schema.get("type") == "object" and "properties" in schema:
        out |= {"additionalProperties": False, "patternProperties": {"^x-": {}}}
    return out
