"""What every document of a study has in common: a schema line, closed fields, a content hash."""

from __future__ import annotations

import re
import warnings
from typing import Any, ClassVar, Literal, Self

from pydantic import ConfigDict, Field, ValidationError, ValidationInfo, model_validator

from telic.core.config import Record
from telic.studies.canonical import content_hash
from telic.studies.errors import InvalidDocument

_FREE = "x-"
_SCHEMA = re.compile(r"telic\.([a-z_]+)/(\d+)(?:\.(\d+))?")

ActorKind = Literal["human", "agent", "system", "runner", "engine"]
Sha = str
"""64 lower-case hex digits"""


class DocumentPart(Record):
    """A closed part of a document; only keys that start with x- are free."""

    model_config = ConfigDict(extra="allow", populate_by_name=True, serialize_by_alias=True)

    @model_validator(mode="after")
    def _refuse_unknown_keys(self, info: ValidationInfo) -> Self:
        unknown = [key for key in self.model_extra or {} if not key.startswith(_FREE)]
        if unknown and (info.context or {}).get("newer"):
            warnings.warn(
                f"{type(self).__name__} has fields of a newer telic, kept as they are: "
                f"{', '.join(unknown)}",
                stacklevel=2,
            )
        elif unknown:
            raise ValueError(f"unknown key {', '.join(unknown)} (free keys start with x-)")
        return self

    def as_data(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return self.model_dump(mode="json")

    def written_data(self) -> dict[str, Any]:
        """Return only the fields that were given: what a person wrote, without our defaults."""
        return self.model_dump(mode="json", exclude_unset=True)


class StudyActor(DocumentPart):
    """Who did something; an engine's name says which engine."""

    kind: ActorKind
    name: str
    session: str | None = None

    @property
    def label(self) -> str:
        """How it is written in one word: human:ada."""
        return f"{self.kind}:{self.name}"


SYSTEM = StudyActor(kind="system", name="telic")
RUNNER = StudyActor(kind="runner", name="telic")


class Document(DocumentPart):
    """A file with a schema line; subclasses give `schema_id` its value."""

    unhashed: ClassVar[frozenset[str]] = frozenset({"updated_at", "content_hash"})
    """keys that the content hash leaves out, besides those that start with status"""

    schema_id: str = Field(alias="schema")

    @classmethod
    def parse(cls, data: Any, source: str = "document") -> Self:
        """Build from plain values; raises InvalidDocument E_SCHEMA that names every bad field."""
        context = {"newer": _is_newer(cls, data, source)}
        try:
            return cls.model_validate(data, context=context)
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
        """Return the content hash: of everything but status and bookkeeping."""
        data = self.as_data()
        return content_hash(
            {k: v for k, v in data.items() if k not in self.unhashed and not k.startswith("status")}
        )


class Envelope(Document):
    """A document with an identity and an author."""

    id: str
    created_at: str
    created_by: StudyActor
    content_hash: Sha | None = None


def _is_newer(kind: type[Document], data: Any, source: str) -> bool:
    """Check the schema line; True when the file is of a newer minor version than ours."""
    expected = str(kind.model_fields["schema_id"].default)
    given = data.get("schema") if isinstance(data, dict) else None
    ours, theirs = _SCHEMA.fullmatch(expected), _SCHEMA.fullmatch(str(given))
    if ours is None:
        raise TypeError(f"{kind.__name__} has no schema line")
    if theirs is None or theirs[1] != ours[1]:
        raise InvalidDocument(
            "E_SCHEMA", f"{source} starts with schema {given!r}; {expected} was expected."
        )
    if theirs[2] != ours[2]:
        raise InvalidDocument(
            "E_SCHEMA_MAJOR",
            f"{source} is written in {given}; this telic reads {expected}.",
            hint="Use the version of telic that wrote it.",
        )
    return int(theirs[3] or 0) > int(ours[3] or 0)
