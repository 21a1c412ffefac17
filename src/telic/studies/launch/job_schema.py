"""The part of the Kubernetes Job schema that we write, as data, and a check against it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

_NAME = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_LABEL = r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?"
_QUANTITY = r"\d+(\.\d+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?"
_PATH = r"/[^\0:]*"
_VARIABLE = r"[-._a-zA-Z][-._a-zA-Z0-9]*"
_RESOURCE = r"([a-z0-9.-]+/)?[A-Za-z0-9][-A-Za-z0-9_.]*"

# A schema is a type, a pattern for text, a list with the schema of its elements, or a dict of
# fields; "?" marks optional fields and "*" is the schema of keys that are free, after a pattern.
_LABELS = {"*": (r"([a-z0-9.-]+/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", _LABEL)}
_CONTAINER = {
    "name": _NAME,
    "image": r"[a-z0-9][A-Za-z0-9._:/@-]*",
    "command": [str],
    "workingDir?": _PATH,
    "env?": [{"name": _VARIABLE, "value": str}],
    "envFrom?": [{"secretRef": {"name": _NAME}}],
    "resources?": {"limits?": {"*": (_RESOURCE, _QUANTITY)}},
    "volumeMounts?": [{"name": _NAME, "mountPath": _PATH}],
}
JOB = {
    "apiVersion": r"batch/v1",
    "kind": r"Job",
    "metadata": {"name": _NAME, "namespace?": _NAME, "labels": _LABELS},
    "spec": {
        "backoffLimit": r"0",
        "completions": r"1",
        "parallelism": r"1",
        "activeDeadlineSeconds?": int,
        "template": {
            "metadata": {"labels": _LABELS},
            "spec": {
                "restartPolicy": r"Never",
                "containers": [_CONTAINER],
                "volumes?": [{"name": _NAME, "persistentVolumeClaim": {"claimName": _NAME}}],
            },
        },
    },
}


def manifest_problems(manifest: Any) -> list[str]:
    """Return where a Job manifest departs from the schema."""
    return list(_problems(manifest, JOB, "job"))


def _problems(value: Any, schema: Any, place: str) -> Iterator[str]:
    if isinstance(schema, type):
        if not isinstance(value, schema) or isinstance(value, bool):
            yield f"{place} must be {schema.__name__}, not {value!r}"
    elif isinstance(schema, str):
        if not isinstance(value, str | int) or not re.fullmatch(schema, str(value)):
            yield f"{place}={value!r} does not look like {schema}"
    elif isinstance(schema, list):
        if not isinstance(value, list) or not value:
            yield f"{place} must be a list that is not empty"
            return
        for number, each in enumerate(value):
            yield from _problems(each, schema[0], f"{place}[{number}]")
    elif not isinstance(value, dict):
        yield f"{place} must hold keys and values"
    elif "*" in schema:
        key_pattern, inner = schema["*"]
        for key, each in value.items():
            if not re.fullmatch(key_pattern, key):
                yield f"{place} has the impossible key {key!r}"
            yield from _problems(each, inner, f"{place}.{key}")
    else:
        yield from _field_problems(value, schema, place)


def _field_problems(value: dict[str, Any], schema: dict[str, Any], place: str) -> Iterator[str]:
    fields = {name.rstrip("?"): inner for name, inner in schema.items()}
    for key in value:
        if key not in fields:
            yield f"{place}.{key} is not a field we write"
    for name, inner in schema.items():
        key = name.rstrip("?")
        if key in value:
            yield from _problems(value[key], inner, f"{place}.{key}")
        elif not name.endswith("?"):
            yield f"{place}.{key} is missing"
