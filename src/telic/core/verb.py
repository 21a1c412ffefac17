"""A verb: one typed function with a frozen request, which every door renders.

    class EnvsRequest(VerbRequest):
        env: str | None = argument("Describe this one.", default=None)
        every: bool = option("Also list Gymnasium's other ids.", "--all", default=False)

    @verb(EnvsRequest)
    def envs(request: EnvsRequest) -> Catalogue:
        '''List environments, or describe one.'''

In Python `envs("Ant-v5", every=True)` has the signature of the request, and type checkers know it.
The command line, the MCP server and HTTP make their options, help and defaults from the fields
(`request.py`). What a person has to agree to is a `Question`, which a door puts to them before the
verb is done.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, ParamSpec, TypeVar, cast

from telic.core.request import RequestField, fields_of
from telic.errors import telling_places

Given = ParamSpec("Given")
Asked = TypeVar("Asked")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Question:
    """What a person is asked before a verb is done, and the command that asks it in a terminal."""

    text: str
    command: tuple[str, ...]
    seen: Mapping[str, Any] = dataclasses.field(default_factory=dict[str, Any])
    """hashes of what is shown; a yes holds for nothing else"""


class Verb(Generic[Given, Asked, Result]):
    """A function of one request, called in Python with the fields of the request."""

    def __init__(
        self,
        request: Callable[Given, Asked],
        function: Callable[[Asked], Result],
        *,
        examples: str = "",
        exit_code: Callable[[Result], int] = lambda result: 0,
        question: Callable[[Asked], Question | None] | None = None,
    ) -> None:
        self.request = cast("type[Asked]", request)
        self.question = question
        self.do = function
        self.examples = examples
        self.exit_code = exit_code
        self.has_result = function.__annotations__.get("return") not in (None, "None")
        self.help = inspect.cleandoc(function.__doc__ or "")
        self.__name__ = function.__name__
        self.__module__ = function.__module__
        self.__wrapped__ = request

    def __call__(self, *args: Given.args, **kwargs: Given.kwargs) -> Result:
        """Make the request and do it."""
        with telling_places():
            return self.do(self.request(*args, **kwargs))

    def asked_with(self, request: Callable[..., Any]) -> Verb[..., Any, Result]:
        """Return the same verb for a door that has words of its own for the request."""
        return Verb(
            request,
            self.do,
            examples=self.examples,
            exit_code=self.exit_code,
            question=self.question,
        )

    def ask(self, request: Asked) -> Question | None:
        """Return what a person has to agree to before the request is done; None: nothing."""
        return None if self.question is None else self.question(request)

    def __repr__(self) -> str:
        return f"<verb {self.__name__}>"

    @cached_property
    def fields(self) -> list[RequestField]:
        """What can be asked for."""
        return fields_of(self.request)

    @property
    def __doc__(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        lines = [f"    {field.name}: {field.help.help}" for field in self.fields]
        return "\n".join([self.help, "", "Args:", *lines])


def verb(
    request: Callable[Given, Asked],
    *,
    examples: str = "",
    exit_code: Callable[[Any], int] = lambda result: 0,
    question: Callable[[Asked], Question | None] | None = None,
) -> Callable[[Callable[[Asked], Result]], Verb[Given, Asked, Result]]:
    """Make a function of a request a verb.

    Args:
        request: the record that the function takes.
        examples: shown below the help on the command line.
        exit_code: of the command line, from the result.
        question: what a person has to agree to first, or None where nobody has to; a door asks it
            and does the request again with the `consent` and what was `seen`.
    """

    def make(function: Callable[[Asked], Result]) -> Verb[Given, Asked, Result]:
        return Verb(request, function, examples=examples, exit_code=exit_code, question=question)

    return make


class Wrapped:
    """A result that is its first field; what else it has is for showing it."""

    def as_data(self) -> Any:
        """Return the first field alone."""
        return getattr(self, next(iter(type(self).__annotations__)))


def as_data(result: Any) -> Any:
    """Return a result as plain data, the one document that every door writes."""
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
