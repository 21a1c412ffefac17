"""Records by name that are read when they are looked at, and found by what they are about.

A long study has tens of thousands of runs; a command looks at a few. So a table that comes from an
index holds columns of plain values, reads a column when somebody looks at it, and makes a record of
a row only when somebody asks for it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, Generic, TypeVar, cast, get_args

from pydantic import BaseModel, GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema, from_json, to_json

from telic.core.text import is_dict

Row = TypeVar("Row", bound=BaseModel)
_NAMES = "names"
_VALUES, _WHICH = "values", "which"


class PackedColumns(Mapping[str, list[Any]]):
    """Columns as they are written: read at the first look, each on its own.

    A column in which the same values come again and again says which of its values stands in each
    row, so that tens of thousands of rows are read in a millisecond.
    """

    def __init__(self, packed: Mapping[str, bytes]) -> None:
        self._packed = packed
        self._read: dict[str, list[Any]] = {}

    def __getitem__(self, field: str) -> list[Any]:
        if field not in self._read:
            column: Any = from_json(self._packed[field])
            if is_dict(column):
                values: list[Any] = column[_VALUES]
                column = [values[number] for number in column[_WHICH]]
            self._read[field] = column
        return self._read[field]

    def __iter__(self) -> Iterator[str]:
        return iter(self._packed)

    def __len__(self) -> int:
        return len(self._packed)


def pack(column: list[Any]) -> bytes:
    """Write a column of plain values."""
    spelled = [to_json(value) for value in column]
    which = {value: number for number, value in enumerate(dict.fromkeys(spelled))}
    if 2 * len(which) > len(column):
        return b"[" + b",".join(spelled) + b"]"
    rows = to_json([which[value] for value in spelled])
    return b'{"%s":[%s],"%s":%s}' % (
        *(_VALUES.encode(), b",".join(which)),
        *(_WHICH.encode(), rows),
    )


class RecordTable(Mapping[str, Row], Generic[Row]):
    """Records of one kind by name, in the order in which they came; never changed.

    Args:
        kind: of its records.
        columns: what an earlier table wrote: names, and of each field a value per name. A field
            that is missing has its default everywhere.
        newer: records that came since, or that take the place of one in the columns.
    """

    def __init__(
        self,
        kind: type[Row],
        columns: Mapping[str, list[Any]] | None = None,
        newer: Mapping[str, Row] | None = None,
    ) -> None:
        self._kind, self._columns = kind, columns or {_NAMES: []}
        self._newer = dict(newer or {})
        self._made: dict[str, Row] = {}
        self._cells: dict[str, list[Any]] = {}
        self._groups: dict[str, dict[Any, list[str]]] = {}

    @cached_property
    def _places(self) -> dict[str, int]:
        """The row of every name; who only looks at columns needs none of them."""
        places = {name: place for place, name in enumerate(self._columns[_NAMES])}
        for name in self._newer:
            places.setdefault(name, len(places))
        return places

    @property
    def _names(self) -> Collection[str]:
        return self._places if self._newer else self._columns[_NAMES]

    def __getitem__(self, name: str) -> Row:
        found = self._newer.get(name) or self._made.get(name)
        if found is None:
            place = self._places[name]
            values = {x: column[place] for x, column in self._columns.items() if x != _NAMES}
            found = self._made[name] = self._kind.model_validate(values)
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return repr(dict(self))

    # ------------------------------------------------------------------ finding

    def values_of(self, *fields: str) -> Iterator[tuple[Any, ...]]:
        """Yield every name with its plain values of some fields; no record is made for it."""
        return zip(self._names, *map(self._column, fields), strict=True)

    def column(self, field: str, names: Iterable[str] | None = None) -> list[Any]:
        """Return the plain value of a field for some names, or all; no record is made for it."""
        cells = self._column(field)
        return cells if names is None else [cells[self._places[name]] for name in names]

    def place(self, name: str) -> int:
        """Return the row of a name: where its values stand in every column."""
        return self._places[name]

    def where(self, **wanted: Any) -> list[str]:
        """Return the names of the records whose fields have these values, in order."""
        groups = [self._group(field).get(value, []) for field, value in wanted.items()]
        if len(groups) == 1:
            return list(groups[0])
        fewest = min(groups, key=len)
        others = [set(group) for group in groups if group is not fewest]
        return [name for name in fewest if all(name in other for other in others)]

    def _column(self, field: str) -> list[Any]:
        """Return the plain values of a field, in the order of the names."""
        if field not in self._cells:
            count, info = len(self._columns[_NAMES]), self._kind.model_fields[field]
            old = self._columns.get(field) or [_plain(info.get_default())] * count
            cells = [*old, *([None] * (len(self) - count))]
            for name, record in self._newer.items():
                cells[self._places[name]] = _plain(getattr(record, field))
            self._cells[field] = cells
        return self._cells[field]

    def _group(self, field: str) -> dict[Any, list[str]]:
        if field not in self._groups:
            groups: dict[Any, list[str]] = {}
            for name, value in self.values_of(field):
                groups.setdefault(value, []).append(name)
            self._groups[field] = groups
        return self._groups[field]

    # ------------------------------------------------------------------ growing and writing

    def newest(self, count: int, besides: Iterable[str] = ()) -> RecordTable[Row]:
        """Return the last records, and some that are named; itself when that is all."""
        if len(self) <= count:
            return self
        kept = {*list(self)[-count:], *besides}
        return RecordTable(self._kind, None, {name: self[name] for name in self if name in kept})

    def grown(self, newer: Mapping[str, Row]) -> RecordTable[Row]:
        """Return a table in which these records came, too, or took the place of others."""
        grown = RecordTable(self._kind, self._columns, {**self._newer, **newer})
        grown._made = self._made  # made of the columns, which both have
        return grown

    def replaced(self, columns: Mapping[str, list[Any]]) -> RecordTable[Row]:
        """Return a table in which some fields have other plain values, in the order of names."""
        return RecordTable(self._kind, _ReplacedColumns(self, columns))

    @property
    def fields(self) -> list[str]:
        """What its records hold."""
        return list(self._kind.model_fields)

    def as_columns(self) -> dict[str, list[Any]]:
        """Return it as plain values; fields that have their default everywhere are left out."""
        columns: dict[str, list[Any]] = {_NAMES: list(self)}
        for field, info in self._kind.model_fields.items():
            cells = self._column(field)
            is_needed = info.is_required() or field in self._columns
            default = None if is_needed else _plain(info.get_default())
            if is_needed or any(cell != default for cell in cells):
                columns[field] = cells
        return columns

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Let a record hold a table: in files it is an object of objects."""
        (kind,) = get_args(source)
        rows = handler.generate_schema(dict[str, kind])

        def whole(value: Any, validate: core_schema.ValidatorFunctionWrapHandler) -> Any:
            return value if isinstance(value, cls) else cls(kind, None, validate(value))

        def written(value: Any, serialize: core_schema.SerializerFunctionWrapHandler) -> Any:
            return serialize(dict(cast("Mapping[str, Any]", value)))

        return core_schema.no_info_wrap_validator_function(
            whole,
            rows,
            serialization=core_schema.wrap_serializer_function_ser_schema(written, schema=rows),
        )


class _ReplacedColumns(Mapping[str, list[Any]]):
    """The columns of a table, some of them replaced; the others are looked at when asked for."""

    def __init__(self, table: RecordTable[Any], replaced: Mapping[str, list[Any]]) -> None:
        self._table, self._replaced = table, replaced

    def __getitem__(self, field: str) -> list[Any]:
        if field == _NAMES:
            return list(self._table)
        found = self._replaced.get(field)
        return self._table.column(field) if found is None else found

    def __iter__(self) -> Iterator[str]:
        return iter((_NAMES, *self._table.fields))

    def __len__(self) -> int:
        return 1 + len(self._table.fields)


class TableBuilder(Generic[Row]):
    """A table under way: what it holds is put in, and `table` is what it came to."""

    def __init__(self, kind: type[Row], begun: RecordTable[Row] | None = None) -> None:
        self._begun = RecordTable(kind) if begun is None else begun
        self._newer: dict[str, Row] = {}

    def put(self, name: str, record: Row) -> None:
        """Take in a record, or another one in its place."""
        self._newer[name] = record

    def __contains__(self, name: object) -> bool:
        return name in self._newer or name in self._begun

    def __getitem__(self, name: str) -> Row:
        return self._newer[name] if name in self._newer else self._begun[name]

    def table(self) -> RecordTable[Row]:
        """Return what was put in so far."""
        return self._begun.grown(self._newer) if self._newer else self._begun


def _plain(value: Any) -> Any:
    """Return a value as JSON has it; numbers and texts, which most are, at once."""
    return (
        value.model_dump(mode="json", exclude_defaults=True)
        if isinstance(value, BaseModel)
        else value
    )
