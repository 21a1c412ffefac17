"""Load rewards from a file or text, and explain errors in their code.

`RewardCode` holds the source text of a reward. It creates instances, provides information for
messages, and converts exceptions raised by the code to errors with a line, a cause and a hint.
"""

from __future__ import annotations

import ast
import inspect
import math
import os
import re
import types
import warnings
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, cast

import mujoco
import numpy
import torch

from telic import quantities
from telic.core.text import closest, is_mapping, is_row
from telic.envs.spec import RewardFinding, RewardSpec, TermSpec
from telic.errors import BadFile, MissingFile, RewardError, TelicError
from telic.rewards.composed import offered_modules
from telic.rewards.contract import RewardFunction
from telic.sandbox.source import compile_source, namespace, source_lines
from telic.storage.reading import read_text

_MAX_LENGTH = 200_000
Call = Callable[[Any, Any, Any, Any], Any]
"""(obs, action, next_obs, info) -> (total, terms)"""
_NO_FLOAT = "Values have shape (N,), one number per environment: remove float(...) and .item()."
_MISTAKES = {
    "only one element tensors can be converted": _NO_FLOAT,
    "cannot be converted to Scalar": _NO_FLOAT,
    "Boolean value of Tensor with more than one value": "Values have one number per "
    "environment: use "
    "torch.where(condition, a, b) instead "
    "of if, & instead of and, torch.maximum "
    "for max.",
    "must match the size of tensor": "Shapes (N,) and (N, k) do not match: reduce one with "
    ".sum(-1), or add a dimension with [:, None].",
    "truth value of an array": "Compare single numbers: use np.any(...) or np.all(...).",
    "division by zero": "Guard the division, e.g. x / max(y, 1e-6).",
}
"""hints by part of the message of Python or torch"""
_BATCHED = re.compile(
    r"\btorch\b|\[:,|\[\.\.\.,|\b(?:dim|keepdim)=|^\s+(?:memory|weights)\s*[=:]", re.MULTILINE
)
"""patterns that indicate code written for a batch of environments"""


class Instance(NamedTuple):
    """Instance of a reward, with the function to call and the object that holds the state."""

    call: Call
    owner: Any


class RewardCode:
    """Source of a reward module, which is executed once to find its class or function."""

    def __init__(self, text: str, label: str, *, trusted: bool = False) -> None:
        """Check and execute a text. With `trusted`, run ordinary Python without the check."""
        text = without_own_imports(text)
        self.text, self.label, self.filename = text, label, f"<{label}>"
        self.notes: list[RewardFinding] = []
        if trusted:
            self._names = _trusted_names()
            self._compiled = compile(text, self.filename, "exec", dont_inherit=True)
        else:
            self._names = namespace(provided=provided_names())
            self._compiled = compile_source(text, label)
        self.tree = ast.parse(text)
        try:
            self.name = self._choose()
        except TelicError:
            raise
        except Exception as error:
            raise self.explain(error) from error

    def _execute(self) -> dict[str, Any]:
        scope = dict(self._names)
        exec(self._compiled, scope)
        if "reward_fn" not in scope and callable(scope.get("_make_reward")):
            scope["reward_fn"] = scope["_make_reward"]()
        return scope

    def _choose(self) -> str:
        """Return the name of the reward: the last class in the text, or else `reward_fn`."""
        own = {k: v for k, v in self._execute().items() if self._names.get(k) is not v}
        imported = {
            alias.asname or alias.name.partition(".")[0]
            for node in self.tree.body
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in node.names
        }
        kinds = {name: kind for name, kind in own.items() if isinstance(kind, type)}
        derived = [name for name, kind in kinds.items() if issubclass(kind, RewardFunction)]
        similar = [name for name, kind in kinds.items() if callable(getattr(kind, "compute", None))]
        derived = [name for name in derived if name not in imported] or derived
        if not derived and "reward_fn" in own:
            return "reward_fn"
        found = derived or similar
        if not found:
            functions = [k for k, v in own.items() if isinstance(v, types.FunctionType)]
            raise RewardError(
                f"{self.label} defines no reward"
                + (f" (only {', '.join(functions)})." if functions else "."),
                hint="Define a class with compute(self, obs, action, next_obs, info) deriving from "
                "RewardFunction, or a function reward_fn(obs, action, next_obs, info).",
            )
        if len(found) > 1:
            message = f"{self.label} defines {', '.join(found)}; the last one is used."
            self.notes.append(RewardFinding(name="several_rewards", message=message))
        return found[-1]

    def create(self, weights: Mapping[str, float]) -> Instance:
        """Execute the text again, so that instances do not share closures, globals or classes."""
        owner = self._execute()[self.name]
        if isinstance(owner, type):
            owner = _construct(owner, weights)
        elif weights:
            owner.weights = {**owner.weights, **weights}
        function = getattr(owner, "compute", owner)
        if not callable(function):
            raise RewardError(f"reward_fn is {type(owner).__name__}, not a function.")
        places = inspect.signature(function).parameters.values()
        by_place = [p for p in places if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        takes_more = any(p.kind is p.VAR_POSITIONAL for p in places)
        required = sum(p.default is p.empty for p in by_place)
        if required > 4 or (len(by_place) < 4 and not takes_more):
            raise RewardError(
                f"{getattr(function, '__name__', 'The reward')} takes "
                f"({', '.join(p.name for p in by_place)}).",
                hint='It must take (obs, action, next_obs, info). info["qpos"], info["xpos"] and '
                "others contain the simulation state.",
                line=getattr(getattr(function, "__code__", None), "co_firstlineno", None),
            )
        return Instance(function, owner)

    # ---- facts for messages and for choosing the execution mode

    def line(self, number: int | None) -> str:
        """Return one line of the text without its indentation."""
        lines = source_lines(self.text)
        return lines[number - 1].strip() if number and number <= len(lines) else ""

    def place(self, line: int | None) -> str:
        """Return a location as shown in messages, e.g. "reward.py line 12"."""
        return self.label if line is None else f"{self.label} line {line}"

    def wrong_term(
        self, term: str, what: str, hint: str, kind: type[RewardError] = RewardError
    ) -> RewardError:
        """Return the error for a term, or for the total if `term` is empty."""
        line = self.term_line(term) if term else None
        where = f'{self.place(line)}, term "{term}"' if term else f"{self.label}, the total"
        return kind(f"{where} {what}", hint=hint, line=line, term=term or None)

    @cached_property
    def strings(self) -> frozenset[str]:
        """All string constants in the code, including the names of info values."""
        constants = (node for node in ast.walk(self.tree) if isinstance(node, ast.Constant))
        return frozenset(each.value for each in constants if isinstance(each.value, str))

    @cached_property
    def is_batched(self) -> bool:
        """True if the code appears to be written for a batch of environments."""
        return _BATCHED.search(self.text) is not None

    def term_line(self, name: str) -> int | None:
        """Return the line on which a function mentions a term."""
        for function in ast.walk(self.tree):
            for node in ast.walk(function) if isinstance(function, ast.FunctionDef) else ():
                if isinstance(node, ast.Constant) and node.value == name:
                    return node.lineno
        return None

    @cached_property
    def kept_names(self) -> dict[str, int]:
        """Return attributes outside of memory that are assigned at run time, with their lines."""
        kept: dict[str, int] = {}
        for function in ast.walk(self.tree):
            if not isinstance(function, ast.FunctionDef) or function.name == "__init__":
                continue
            for node in ast.walk(function):
                match node:
                    case ast.Nonlocal() | ast.Global():
                        kept |= dict.fromkeys(node.names, node.lineno)
                    case ast.Attribute(value=ast.Name(id="self"), attr=name):
                        if isinstance(node.ctx, ast.Store) and name not in ("memory", "weights"):
                            kept[name] = node.lineno
                    case _:
                        pass
        return kept

    def describe(self, owner: object) -> RewardSpec:
        """Return a reward's specification, as declared or derived from its docstring."""
        weights: Mapping[str, float] = getattr(owner, "weights", None) or {}
        described = isinstance(owner, RewardFunction)
        declared = owner.described_terms() if described else getattr(owner, "terms", None)
        named = [node for node in ast.walk(self.tree) if getattr(node, "name", "") == self.name]
        texts = (ast.get_docstring(cast("Any", node)) for node in (*named, self.tree))
        text = next(filter(None, texts), "").partition("\n\n")[0]
        return RewardSpec(
            latex=str(getattr(owner, "latex", "") or ""),
            description=str(getattr(owner, "description", "") or " ".join(text.split())),
            terms=tuple(
                each.model_copy(update={"weight": float(weights[each.name])})
                if each.name in weights
                else each
                for each in _declared_terms(declared)
            ),
        )

    def explain(
        self,
        error: Exception,
        when: str = "",
        info_names: Iterable[str] = (),
        sizes: str | None = None,
    ) -> RewardError:
        """Convert an exception raised by the reward to an error with a line, a cause and a hint."""
        if isinstance(error, RewardError) and error.line is not None:
            return error
        line, trace = None, error.__traceback__
        while trace is not None:
            is_own = trace.tb_frame.f_code.co_filename == self.filename
            line, trace = trace.tb_lineno if is_own else line, trace.tb_next
        text, hint = self.line(line), None
        if isinstance(error, KeyError):
            name = str(getattr(error, "name", error.args[0] if error.args else ""))
            what = f'no key "{name}" in the dictionary'
            known = set(info_names)
            # A dictionary of the reward itself may also lack a key.
            if known and name not in known and (isinstance(error, TelicError) or "info" in text):
                what, hint = unknown_info(name, known)
        elif isinstance(error, TelicError):
            what, hint = error.message.rstrip("."), error.hint
        else:
            message = str(error).splitlines()[0].rstrip(".") if str(error) else "no message"
            what = f"{type(error).__name__}: {message}"
            hint = next((hint for part, hint in _MISTAKES.items() if part in message), None)
            hint = sizes if isinstance(error, IndexError) else hint
        shown = f" Line: {text}" if text else ""
        return RewardError(f"{self.place(line)}: {what}{when}.{shown}", hint=hint, line=line)


def _construct(kind: Any, weights: Mapping[str, float]) -> Any:
    """Create an instance, with weights set before `__init__` reads them."""
    needed = [
        each.name
        for each in list(inspect.signature(kind.__init__).parameters.values())[1:]
        if each.default is each.empty
        and each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)
    ]
    if needed:
        raise RewardError(
            f"{kind.__name__}.__init__ requires {', '.join(needed)}.",
            hint="Give all arguments of __init__ a default value.",
        )
    instance = kind.__new__(kind)
    own = getattr(kind, "weights", None)
    if not isinstance(own, property):
        instance.weights = {**(own or {}), **weights}
    kind.__init__(instance)
    return instance


def _declared_terms(declared: Any) -> list[TermSpec]:
    """Parse terms declared as a dictionary, or as a list of names, pairs or dictionaries."""
    if is_mapping(declared):
        declared = [
            {"name": name, **value} if is_mapping(value) else (name, value)
            for name, value in declared.items()
        ]
    terms: list[TermSpec] = []
    for term in declared if is_row(declared) else ():
        if isinstance(term, str):
            terms.append(TermSpec(name=term))
        elif is_mapping(term):
            known = {k: v for k, v in term.items() if k in TermSpec.model_fields}
            terms.append(TermSpec(**known))
        elif is_row(term) and len(term) == 2:
            terms.append(TermSpec(name=term[0], description=str(term[1])))
    return terms


# ---- reading the source


def read_code(source: object, *, trusted: bool = False, label: str | None = None) -> RewardCode:
    """Return the code of a reward, given its path or text.

    Raises:
        RewardError: the source is missing, not Python, or defines no reward.
        RefusedCode: the source uses a feature that is not allowed in untrusted code.
    """
    if not isinstance(source, str | Path):
        raise RewardError(
            f"A {type(source).__name__} is not a reward.",
            hint="Pass a path, or the text of a file.",
        )
    text, name = _read(source)
    label = label or name
    if "\0" in text:
        raise RewardError(f"{label} contains null bytes.", hint="Pass a Python file.")
    # LaTeX in ordinary strings makes Python warn of unknown escapes, which are harmless here.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            return RewardCode(text, label, trusted=trusted)
        except SyntaxError as error:
            shown = (error.text or "").strip()
            raise RewardError(
                f"{label} line {error.lineno} is not valid Python: {error.msg}."
                + (f" Line: {shown}" if shown else ""),
                hint="Check that line and the line before it.",
                line=error.lineno,
            ) from None
        except (RecursionError, MemoryError) as error:
            raise RewardError(f"{label} is nested too deeply.") from error


def _read(source: str | Path) -> tuple[str, str]:
    if isinstance(source, str) and "\n" in source:
        return source, "reward"
    path = Path(source).expanduser()
    try:
        return read_text(path), path.name
    except MissingFile:
        siblings = path.parent.glob("*.py") if os.path.isdir(path.parent) else ()
        near = closest(path.name, [each.name for each in siblings])
        raise RewardError(
            f'Reward file not found: "{str(source)[-200:]}".',
            hint=f"Closest: {', '.join(near)}." if near else "Pass the path of a Python file.",
        ) from None
    except BadFile as error:
        raise RewardError(
            f"This is not a reward: {error.message}", hint=error.hint or "Pass a Python file."
        ) from None


def without_own_imports(text: str) -> str:
    """Remove imports of RewardFunction, which is predefined, from a text.

    Other systems use other import paths for the class. Reward files for them run unchanged.
    """
    if len(text) > _MAX_LENGTH:
        return text  # the allow-list rejects oversized texts before they are parsed
    lines = [line.encode() for line in source_lines(text)]  # Python counts columns in bytes
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.ImportFrom) or node.end_lineno is None:
            continue
        if [(each.name, each.asname) for each in node.names] == [("RewardFunction", None)]:
            first, last = node.lineno - 1, node.end_lineno - 1
            before, after = lines[first][: node.col_offset], lines[last][node.end_col_offset :]
            lines[first : last + 1] = [before + b"pass" + after, *[b""] * (last - first)]
    return b"\n".join(lines).decode().removesuffix("\n") + "\n"


def _trusted_names() -> dict[str, Any]:
    """Return the predefined names of trusted code, which may also import any module."""
    return {
        "__name__": "reward",
        "np": numpy,
        "numpy": numpy,
        "math": math,
        "torch": torch,
        "mujoco": mujoco,
        "quantities": quantities,
        "RewardFunction": RewardFunction,
    }


def provided_names() -> dict[str, Any]:
    """Return the telic functions and classes that untrusted code may use, as read-only objects."""
    measured = {
        name: value
        for name, value in vars(quantities).items()
        if isinstance(value, quantities.Quantity)
    }
    library = {"quantities": measured, "rewards": offered_modules()}
    return {"telic": {"RewardFunction": RewardFunction, **library}}


def unknown_info(name: str, known: Iterable[str]) -> tuple[str, str]:
    """Return the message and the hint for an unknown info name."""
    known = sorted(known)
    near = closest(name, known)
    nearest = f"Closest: {', '.join(near)}. " if near else ""
    if name in ("mj_data", "mj_model"):
        nearest = 'The simulator itself is not available, but its fields are, e.g. info["qpos"]. '
    return f'no info named "{name}"', f"{nearest}Available: {', '.join(known)}."
