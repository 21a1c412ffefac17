"""Operations: typed functions of one request, provided by all interfaces.

    class EnvsRequest(VerbRequest):
        env: str | None = argument("Describe this environment.", default=None)
        every: bool = option("Also list Gymnasium's other ids.", "--all", default=False)

    @verb(EnvsRequest)
    def envs(request: EnvsRequest) -> VerbResult[list[EnvSummary]]:
        '''List environments, or describe one.'''

In Python, an operation is called with the fields of its request, e.g. `envs("Ant-v5", every=True)`.
The command line, the MCP server and HTTP derive options, help and defaults from the same fields
(`request.py`). A `Question` is a confirmation that a person must give before the operation runs.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar, cast

from telic.core.request import RequestField, VerbRequest, fields_of
from telic.core.text import printable
from telic.errors import readable_path_errors

Asked = TypeVar("Asked", bound=VerbRequest)
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Question:
    """Confirmation required before an operation, and the terminal command with which to confirm."""

    text: str
    command: tuple[str, ...]
    seen: Mapping[str, Any] = dataclasses.field(default_factory=dict[str, Any])
    """hashes of the displayed values, for which alone the confirmation is valid"""


class Verb(Generic[Asked, Result]):
    """Operation that is called with the fields of its request."""

    def __init__(
        self,
        request: type[Asked],
        function: Callable[[Asked], Result],
        *,
        examples: str = "",
        exit_code: Callable[[Any], int] = lambda result: 0,
        question: Callable[[Asked], Question | None] | None = None,
    ) -> None:
        self.request = request
        self.question = question
        self.do = function
        self.examples = examples
        self.exit_code = exit_code
        self.has_result = function.__annotations__.get("return") not in (None, "None")
        self.help = inspect.cleandoc(function.__doc__ or "")
        self.__name__ = function.__name__
        self.__module__ = function.__module__

    def __call__(self, *given: Any, **values: Any) -> Result:
        """Create the request and run the function."""
        with readable_path_errors():
            return self.do(self.request(*given, **values))

    def ask(self, request: Asked) -> Question | None:
        """Return the confirmation that the request requires, or None.

        The text may quote an agent's files, so control characters are escaped.
        """
        asked = None if self.question is None else self.question(request)
        return asked and dataclasses.replace(asked, text=printable(asked.text))

    def __repr__(self) -> str:
        return f"<verb {self.__name__}>"

    @cached_property
    def fields(self) -> list[RequestField]:
        """Fields of the operation's request."""
        return fields_of(self.request)

    @property
    def __signature__(self) -> inspect.Signature:
        kinds = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
        fields = sorted(self.fields, key=lambda field: not field.how.is_positional)
        return inspect.Signature(
            [
                inspect.Parameter(
                    field.name,
                    kinds[not field.how.is_positional],
                    default=inspect.Parameter.empty if field.is_required else field.default,
                    annotation=field.type,
                )
                for field in fields
            ]
        )

    @property
    def __doc__(self) -> str:  # pyrefly: ignore[bad-override]
        lines = [f"    {field.name}: {field.help}" for field in self.fields]
        return "\n".join([self.help, "", "Args:", *lines])


def verb(
    request: type[Asked],
    *,
    examples: str = "",
    exit_code: Callable[[Any], int] = lambda result: 0,
    question: Callable[[Asked], Question | None] | None = None,
) -> Callable[[Callable[[Asked], Result]], Verb[Asked, Result]]:
    """Convert a function of a request to an operation.

    Args:
        request: model that the function takes.
        examples: text below the help on the command line.
        exit_code: function that computes the command's exit code from the result.
        question: function that returns the required confirmation, or None. An interface asks for
            it and repeats the request with `consent` and the hashes in `seen`.
    """

    def make(function: Callable[[Asked], Result]) -> Verb[Asked, Result]:
        return Verb(request, function, examples=examples, exit_code=exit_code, question=question)

    return make


@dataclass(frozen=True)
class VerbResult(Generic[Result]):
    """Result of plain data or records, with display settings."""

    data: Result
    columns: tuple[str, ...] = ()
    """table columns. If empty, all columns with content are shown."""
    hint: str = ""
    """suggested next step"""

    def as_data(self) -> Result:
        """Return the data without display settings."""
        return self.data


def as_data(result: Any) -> Any:
    """Return a result as plain data, i.e. the JSON document that all interfaces return."""
    if hasattr(result, "as_data"):
        return as_data(result.as_data())
    if hasattr(result, "model_dump"):
        return result.model_dump(mode="json")
    if isinstance(result, Mapping):
        return {name: as_data(value) for name, value in cast("Mapping[str, Any]", result).items()}
    if hasattr(result, "_asdict"):
        return as_data(result._asdict())
    if isinstance(result, list | tuple):
        return [as_data(value) for value in cast("list[Any]", result)]
    return result
