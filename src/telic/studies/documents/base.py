"""Base classes for study documents (closed schemas, content hashes), and YAML files."""

import functools
import io
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, TypeVar

from pydantic import ConfigDict, Field, ValidationError, model_validator
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap
from ruamel.yaml.error import YAMLError

from telic.core.config import Record
from telic.core.text import is_dict, is_row
from telic.errors import BadFile, MissingFile
from telic.storage.files import plain, write_text
from telic.storage.journal import JournalEntry
from telic.storage.reading import is_plain, read_text
from telic.studies.canonical import content_hash
from telic.studies.errors import InvalidDocument, StudyError

_SCHEMA = re.compile(r"telic\.([a-z_]+)/(\d+)(?:\.\d+)?")

ActorKind = Literal["human", "agent", "system", "runner", "engine"]
Sha = str
"""64 lower-case hex digits"""


class DocumentPart(Record):
    """Part of a document with a closed schema. Extra keys must start with `x-`."""

    model_config = ConfigDict(
        extra="allow", populate_by_name=True, serialize_by_alias=True, defer_build=True
    )

    @model_validator(mode="after")
    def _refuse_unknown_keys(self) -> Self:
        if not self.__pydantic_extra__:  # fast path: thousands are read together
            return self
        if unknown := [key for key in self.__pydantic_extra__ if not key.startswith("x-")]:
            raise ValueError(f"unknown key {', '.join(unknown)} (free keys start with x-)")
        return self

    def as_data(self) -> dict[str, Any]:
        """Return the document as plain JSON values."""
        return self.model_dump(mode="json")

    def written_data(self) -> dict[str, Any]:
        """Return only the fields that were set explicitly, without defaults."""
        return self.model_dump(mode="json", exclude_unset=True)


class StudyActor(DocumentPart):
    """Person or program that performed an action. Engines are identified by their names."""

    kind: ActorKind
    name: str
    session: str | None = None

    @property
    def label(self) -> str:
        """Label of the form `kind:name`, e.g. `human:ada`."""
        return f"{self.kind}:{self.name}"


def actor_of(entry: JournalEntry) -> StudyActor:
    """Return the actor of a ledger entry."""
    return StudyActor.model_validate(entry.actor)


SYSTEM = StudyActor(kind="system", name="telic")
RUNNER = StudyActor(kind="runner", name="telic")


class Document(DocumentPart):
    """Base class for documents with a schema id, which subclasses set as `schema_id`."""

    unhashed: ClassVar[frozenset[str]] = frozenset({"updated_at", "content_hash"})
    """keys excluded from the content hash, as are keys that start with status"""

    schema_id: str = Field(alias="schema")

    @classmethod
    def parse(cls, data: Any, source: str = "document") -> Self:
        """Parse plain values. Raises InvalidDocument E_SCHEMA with a list of the invalid fields."""
        expected = str(cls.model_fields["schema_id"].default)
        given = data.get("schema") if is_dict(data) else None
        ours, theirs = _SCHEMA.fullmatch(expected), _SCHEMA.fullmatch(str(given))
        if ours is None or theirs is None or theirs[1] != ours[1]:
            why = f"{source} has schema {given!r}; expected {expected}."
            raise InvalidDocument("E_SCHEMA", why)
        if theirs[2] != ours[2]:
            raise InvalidDocument(
                "E_SCHEMA_MAJOR",
                f"{source} has schema {given}, but this version of telic reads {expected}.",
                hint="Use the version of telic that wrote it.",
            )
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            places = [
                f"{'.'.join(map(str, each['loc'])) or 'the top'}: "
                f"{each['msg'].removeprefix('Value error, ')}"
                for each in error.errors()
            ]
            raise InvalidDocument(
                "E_SCHEMA", f"{source} is not a valid {cls.__name__}: {'; '.join(places)}."
            ) from None

    def compute_hash(self) -> Sha:
        """Return the content hash. It excludes the status and other bookkeeping fields."""
        data = self.as_data()
        return content_hash(
            {k: v for k, v in data.items() if k not in self.unhashed and not k.startswith("status")}
        )


class Envelope(Document):
    """Document with an id and an author."""

    id: str
    created_at: str
    created_by: StudyActor
    content_hash: Sha | None = None


Doc = TypeVar("Doc", bound=Document)


# ---------------------------------------------------------------------------- YAML


def read_yaml(path: Path) -> Any:
    """Read a YAML file as plain values. Errors include the line and column."""
    return plain(_parsed(path, _values))


def read_document(path: Path, kind: type[Doc]) -> Doc:
    """Read a document from YAML, or raise InvalidDocument with the file and the field."""
    return kind.parse(read_yaml(path), str(path))


def write_yaml(path: Path, data: Any) -> None:
    """Write plain values or a record as YAML, preserving key order."""
    write_text(path, yaml_text(data))


def yaml_text(data: Any) -> str:
    """Return plain values as human-readable YAML, preserving comments."""
    writer, out = _yaml("rt"), io.StringIO()
    writer.width = 100
    writer.indent(mapping=2, sequence=4, offset=2)
    writer.dump(data if isinstance(data, CommentedMap) else plain(data), out)
    return out.getvalue()


def update_yaml(path: Path, changes: Mapping[str, Any]) -> None:
    """Update keys of a YAML file (nested mappings are merged), preserving comments.

    A value of None is written as null. No key is ever removed.
    """
    old = _parsed(path, _yaml("rt").load) or {}
    if not is_dict(old):
        raise InvalidDocument("E_YAML", f"{path} is not a mapping.")
    _merge_into(old, plain(changes))
    write_text(path, yaml_text(old))


def merged(old: Any, changes: Mapping[str, Any]) -> Any:
    """Return plain values with changes applied as `update_yaml` would."""
    copy: Any = plain(old) or {}
    _merge_into(copy, plain(changes))
    return copy


def _parsed(path: Path, parse: Callable[[str], Any]) -> Any:
    try:
        return parse(read_text(path))
    except MissingFile as error:
        raise StudyError("E_NO_FILE", error.message) from None
    except BadFile as error:
        raise InvalidDocument("E_YAML", error.message, hint=error.hint) from None
    except YAMLError as error:
        mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
        where = "" if mark is None else f" (line {mark.line + 1}, column {mark.column + 1})"
        why = (problem or str(error)).strip().splitlines()[0]
        raise InvalidDocument("E_YAML", f"{path} is not valid YAML: {why}{where}.") from None
    except RecursionError:
        raise InvalidDocument("E_YAML", f"{path} is nested too deeply.") from None
    except Exception as error:  # the parser crashes on some malformed inputs
        raise InvalidDocument("E_YAML", f"{path} is not valid YAML: {error!r:.200}.") from None


@functools.lru_cache(maxsize=64)
def _values(text: str) -> Any:
    """Parse YAML to plain values. Results are cached, because a launch rereads the same files.

    Callers must not modify the result. `plain` returns a copy.
    """
    values = plain(_without_dates(_yaml("safe").load(text)))
    if not is_plain(values):
        raise ValueError("the document contains numbers or texts that JSON cannot represent")
    return values


def _yaml(kind: Literal["rt", "safe"]) -> Any:
    yaml = YAML(typ=kind, pure=True)
    yaml.allow_duplicate_keys = False
    yaml.preserve_quotes = True
    return yaml


def _without_dates(value: Any) -> Any:
    """Convert dates that YAML has parsed back to text, because JSON has no dates."""
    if is_dict(value):
        return {str(key): _without_dates(item) for key, item in value.items()}
    if is_row(value):
        return [_without_dates(item) for item in value]
    return value.isoformat().replace("+00:00", "Z") if hasattr(value, "isoformat") else value


def _merge_into(old: dict[str, Any], changes: Mapping[str, Any]) -> None:
    for key, value in changes.items():
        inner = old.get(key)
        if is_dict(value) and is_dict(inner):
            _merge_into(inner, value)
        else:
            old[key] = value


def value_at(data: Any, name: str) -> Any:
    """Return the value at a dotted name, or raise KeyError."""
    for part in name.split("."):
        data = data[part]
    return data
