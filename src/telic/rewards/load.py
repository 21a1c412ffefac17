"""Read a reward from a file, a text or an object."""

from __future__ import annotations

import ast
import math
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mujoco
import numpy
import torch

from telic import quantities
from telic.core.text import closest
from telic.errors import BadFile, ConfigError, MissingFile, RewardError, TelicError
from telic.rewards._mistakes import Circumstances, explain, explain_syntax
from telic.rewards._source import Definition, Source
from telic.rewards.composed import offered_modules
from telic.rewards.contract import RewardFunction
from telic.rewards.library import LIBRARY, library_names
from telic.rewards.reward import Reward
from telic.sandbox.allowed import modules_with
from telic.sandbox.guard import guarded, module_names
from telic.sandbox.source import check_source, namespace, source_lines
from telic.storage.reading import read_text

_LONGEST = 200_000


def load_reward(
    source: Any,
    *,
    trusted: bool = False,
    weights: Mapping[str, float] | None = None,
    label: str | None = None,
) -> Reward:
    """Return a reward, ready to be probed and started.

    Args:
        source: a path, the text of a file, the name of a library reward such as "run_forward";
            None or "default": the environment's own reward.
        trusted: run a file as ordinary Python instead of checking it against the allow-list.
        weights: new values for some of the reward's weights.
        label: how messages call a text, e.g. "reward.py"; a file is called by its name.

    Raises:
        RewardError: the source is missing, not Python, or defines no reward.
        RefusedCode: the source uses something that foreign code may not.
        ConfigError: there is no weight of that name.
    """
    if isinstance(source, Reward):
        reward = source
    elif source is None or (isinstance(source, str) and source == "default"):
        reward = Reward(None)
    elif isinstance(source, str | Path):
        text, name = read_source(source)
        reward = _first_instance(_from_text(text, label or name, trusted=trusted))
    else:
        raise RewardError(
            f"A {type(source).__name__} is not a reward.",
            hint="Give a path, or the text of a file.",
        )
    if weights and reward.definition is None:
        raise ConfigError("The environment's own reward has no weights to change.")
    return reward.with_weights(weights) if weights else reward


def _first_instance(definition: Definition) -> Reward:
    try:
        return Reward(definition)
    except TelicError:
        raise
    except Exception as error:
        raise explain(error, definition.source, Circumstances()) from error


def read_source(source: str | Path) -> tuple[str, str]:
    """Return the text of a reward given by path, library name or text, and how to call it.

    Raises RewardError when there is no such file, or it is not text.
    """
    if isinstance(source, str) and "\n" in source:
        return source, "reward"
    path = Path(source).expanduser()
    if isinstance(source, str) and source in library_names():
        path = LIBRARY / f"{source}.py"
    try:
        return read_text(path), path.name
    except MissingFile:
        beside = path.parent.glob("*.py") if os.path.isdir(path.parent) else ()
        near = closest(path.name, [each.name for each in beside] + library_names())
        raise RewardError(
            f'There is no reward file "{str(source)[-200:]}".',
            hint=f"Closest: {', '.join(near)}."
            if near
            else f"Give a path to a Python file, or one of {', '.join(library_names())}.",
        ) from None
    except BadFile as error:
        raise RewardError(
            f"This is no reward: {error.message}", hint=error.hint or "Give a Python file."
        ) from None


def _from_text(text: str, label: str, *, trusted: bool) -> Definition:
    if "\0" in text:
        raise RewardError(f"{label} contains null bytes.", hint="Give a Python file.")
    # LaTeX in ordinary strings makes Python warn of unknown escapes; it means what it says.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            text = without_own_imports(text)
            if not trusted:
                check_source(text, label)
            source = Source(text, label, f"<{label}>")
            if trusted:
                return Definition(source, _trusted_names())
            provided = _provided()
            modules = module_names(source.tree, frozenset(modules_with(provided)))
            return Definition(
                source, namespace(provided=provided), lambda tree: guarded(tree, modules)
            )
        except SyntaxError as error:
            raise explain_syntax(error, label) from None
        except (RecursionError, MemoryError) as error:
            raise RewardError(f"{label} is nested too deeply to be read.") from error
        except TelicError:
            raise
        except Exception as error:
            raise explain(error, Source(text, label, f"<{label}>"), Circumstances()) from error


def without_own_imports(text: str) -> str:
    """Return the text without imports of RewardFunction, which is there already.

    Where other systems keep that class differs; a file written for one of them runs unchanged.
    """
    if len(text) > _LONGEST:
        return text  # the allow-list refuses what is too long before anything reads it
    lines = [line.encode() for line in source_lines(text)]  # as Python counts columns
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.ImportFrom) or node.end_lineno is None:
            continue
        if [(each.name, each.asname) for each in node.names] == [("RewardFunction", None)]:
            first, last = node.lineno - 1, node.end_lineno - 1
            before, after = lines[first][: node.col_offset], lines[last][node.end_col_offset :]
            lines[first : last + 1] = [before + b"pass" + after, *[b""] * (last - first)]
    return b"\n".join(lines).decode().removesuffix("\n") + "\n"


def _trusted_names() -> dict[str, Any]:
    """Return all of Python, with the usual names in place."""
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


def _provided() -> dict[str, Any]:
    """Return what foreign code may use of telic: things that compute and cannot be changed."""
    measured = {
        name: value
        for name, value in vars(quantities).items()
        if isinstance(value, quantities.Quantity)
    }
    library = {"quantities": measured, "rewards": offered_modules()}
    return {"telic": {"RewardFunction": RewardFunction, **library}}
