"""Check plain data against the JSON schemas that our records have.

Covers what pydantic writes for records, not all of JSON Schema; unknown keywords are ignored. It is
for people and programs that hold only the schema; the record itself has the last word.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}


def complaints(value: Any, schema: dict[str, Any]) -> list[str]:
    """Return one line for everything in `value` that does not fit the schema."""
    return [f"- {where or 'the answer'}: {what}" for where, what in _check(value, schema, schema)]


def _check(
    value: Any, schema: dict[str, Any], root: dict[str, Any], where: str = ""
) -> Iterator[tuple[str, str]]:
    if "$ref" in schema:
        schema = _resolve(schema["$ref"], root) | {k: v for k, v in schema.items() if k != "$ref"}
    if "anyOf" in schema:
        options = [list(_check(value, each, root, where)) for each in schema["anyOf"]]
        if all(options):
            yield min(options, key=len)[0]
            return
    if "enum" in schema and value not in schema["enum"]:
        yield where, f"must be one of {', '.join(map(repr, schema['enum']))}"
    if "const" in schema and value != schema["const"]:
        yield where, f"must be {schema['const']!r}"
    kind = schema.get("type")
    if kind is not None and not _is(value, kind):
        yield where, f"must be of type {kind}, not {type(value).__name__}"
    elif isinstance(value, dict):
        yield from _check_object(value, schema, root, where)
    elif isinstance(value, list):
        yield from _check_array(value, schema, root, where)
    elif isinstance(value, str):
        yield from _check_size(len(value), schema, "Length", "characters", where)
    elif isinstance(value, int | float):
        yield from _check_number(value, schema, where)


def _check_object(
    value: dict[str, Any], schema: dict[str, Any], root: dict[str, Any], where: str
) -> Iterator[tuple[str, str]]:
    properties, others = schema.get("properties", {}), schema.get("additionalProperties", True)
    for name in schema.get("required", []):
        if name not in value:
            yield _join(where, name), "is missing"
    for name, each in value.items():
        if name in properties:
            yield from _check(each, properties[name], root, _join(where, name))
        elif others is False:
            yield _join(where, name), "is not a known field"
        elif isinstance(others, dict):
            yield from _check(each, others, root, _join(where, name))
    yield from _check_size(len(value), schema, "Properties", "entries", where)


def _check_array(
    value: list[Any], schema: dict[str, Any], root: dict[str, Any], where: str
) -> Iterator[tuple[str, str]]:
    fixed = schema.get("prefixItems", [])
    for index, each in enumerate(value):
        item = fixed[index] if index < len(fixed) else schema.get("items", {})
        if isinstance(item, dict):
            yield from _check(each, item, root, _join(where, str(index)))
    yield from _check_size(len(value), schema, "Items", "items", where)


def _check_size(
    size: int, schema: dict[str, Any], word: str, unit: str, where: str
) -> Iterator[tuple[str, str]]:
    if size < schema.get(f"min{word}", 0):
        yield where, f"has {size} {unit}, at least {schema[f'min{word}']} are needed"
    if size > schema.get(f"max{word}", size):
        yield where, f"has {size} {unit}, at most {schema[f'max{word}']} are allowed"


def _check_number(value: float, schema: dict[str, Any], where: str) -> Iterator[tuple[str, str]]:
    if value < schema.get("minimum", value):
        yield where, f"must be at least {schema['minimum']}"
    if value > schema.get("maximum", value):
        yield where, f"must be at most {schema['maximum']}"
    if "exclusiveMinimum" in schema and value <= schema["exclusiveMinimum"]:
        yield where, f"must be greater than {schema['exclusiveMinimum']}"
    if "exclusiveMaximum" in schema and value >= schema["exclusiveMaximum"]:
        yield where, f"must be less than {schema['exclusiveMaximum']}"


def _is(value: Any, kind: str) -> bool:
    if isinstance(value, bool):  # a bool is an int to Python, not to JSON
        return kind == "boolean"
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES.get(kind, (object,)))


def _resolve(reference: str, root: dict[str, Any]) -> dict[str, Any]:
    found: Any = root
    for name in reference.removeprefix("#/").split("/"):
        found = found[name]
    return found


def _join(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name
