"""From what a person asks for to a complete job: rewards x variants x seeds."""

from __future__ import annotations

import ast
import inspect
import itertools
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from telic.core.verb import verb
from telic.errors import ConfigError, RefusedCode, RewardError
from telic.rewards.library import LIBRARY, library_names
from telic.sandbox.source import check_source
from telic.sim.simulation import require_gpu
from telic.storage.layout import file_name
from telic.training.job import MEMBER_FIELDS, Member, PpoSettings, RewardSource, TrainJob
from telic.training.presets import for_device, share
from telic.training.presets import preset as find_preset
from telic.training.request import JobRequest, Reward

OWN = "default"
"""name of the environment's own reward"""
_TAKEN_OVER = (
    "device",
    "threads",
    "evaluations",
    "eval_episodes",
    "save_every_s",
    "tensorboard",
)
"""options that a job keeps as they are"""


@verb(JobRequest)
def plan(request: JobRequest) -> TrainJob:
    """Return the job for a request."""
    env, device, seeds = request.env, request.device, request.seeds
    if Path(env).is_file():
        env = str(Path(env).absolute())  # the worker runs in another folder
    if device != "cpu":
        require_gpu(device)
    if len(set(seeds)) != len(seeds) or not seeds:
        raise ConfigError(f"seeds={list(seeds)} must be different numbers, at least one.")
    sources = _distinct(
        [read_reward(reward, request.weights, request.trusted) for reward in request.rewards]
    )
    named = for_device(request.preset, device)
    chosen = find_preset(named, env)
    base = chosen.settings
    if named == "gpu":
        base = share(base, len(sources) * len(request.variants) * len(seeds), env)
    shared = _changed(base, request.settings)
    if device != "cpu" and shared.overlap:
        raise ConfigError(
            "overlap=true is for processors: on a GPU, collecting and learning take turns.",
            hint="Leave overlap out.",
        )
    return TrainJob.parse(
        {
            "env": env,
            "env_args": dict(request.env_args or {}),
            "steps": request.steps or chosen.steps,
            "rewards": [source.model_dump() for source in sources],
            "members": [member.model_dump() for member in _members(request, sources, shared)],
            **{name: getattr(request, name) for name in _TAKEN_OVER},
        }
    )


def _changed(settings: PpoSettings, changes: Mapping[str, Any] | Sequence[str]) -> PpoSettings:
    """Return settings with changes, given as values or as `key=value` texts."""
    if isinstance(changes, Mapping):
        return settings.replace(**changes)
    return settings.override(changes)


def _members(
    request: JobRequest, sources: Sequence[RewardSource], shared: PpoSettings
) -> Iterator[Member]:
    """Yield a member for every reward, variant and seed."""
    starts = {key: str(path.absolute()) for key, path in (request.starts or {}).items()}
    for (index, source), variant, seed in itertools.product(
        enumerate(sources), request.variants, request.seeds
    ):
        _check_variant(variant)
        config = source.name + "".join(
            f"-{_short(name)}{value:g}" for name, value in sorted(variant.items())
        )
        yield Member(
            name=f"{config}_seed_{seed}",
            config=config,
            seed=seed,
            reward=index,
            settings=shared.replace(**variant),
            start=starts.get((index, seed)),
        )


def read_reward(given: Reward, weights: Mapping[str, float] | None, trusted: bool) -> RewardSource:
    """Turn a file, a source text or a class into a named source."""
    chosen = dict(weights or {})
    if given is None or given == OWN:
        if chosen:
            raise ConfigError("The environment's own reward has no weights to change.")
        return RewardSource(name=OWN)
    if isinstance(given, type):
        try:
            source = textwrap.dedent(inspect.getsource(given))
        except (OSError, TypeError):
            raise RewardError(
                f"The source of {given.__name__} cannot be found.", hint="Put it into a file."
            ) from None
        header = (
            "import numpy as np\nimport torch\nimport telic\n"
            "from telic import RewardFunction, quantities\n"
        )
        return RewardSource(
            name=file_name(given.__name__), source=header + source, weights=chosen, trusted=True
        )
    if isinstance(given, str) and "\n" in given:
        return _checked("reward", given, chosen, trusted)
    path = Path(given).expanduser()
    if not path.exists() and str(given) in library_names():
        path = LIBRARY / f"{given}.py"
    try:
        source = path.read_text()
    except FileNotFoundError:
        raise RewardError(
            f"There is no reward file {path}.",
            hint=f"Give the path of a Python file, or one of {', '.join(library_names())}.",
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise RewardError(f"{path} cannot be read as a reward: {error}.") from None
    return _checked(file_name(path.stem), source, chosen, trusted)


def _checked(name: str, source: str, weights: dict[str, float], trusted: bool) -> RewardSource:
    """Refuse what the worker would refuse, seconds earlier."""
    try:
        ast.parse(source)
    except SyntaxError as error:
        raise RewardError(
            f"{name}.py, line {error.lineno}: this is not valid Python: {error.msg}.",
            hint="Correct the line.",
            line=error.lineno,
        ) from None
    if not trusted:
        try:
            check_source(_without_foreign_base(source), f"{name}.py")
        except RefusedCode as error:
            hint = f"{error.hint or ''} If you wrote this file yourself, add --trust.".strip()
            raise RefusedCode(error.message, hint=hint, line=error.line) from None
    return RewardSource(name=name, source=source, weights=weights, trusted=trusted)


def _without_foreign_base(source: str) -> str:
    """Leave out imports of RewardFunction from another system, which the loader replaces."""
    if "import RewardFunction" not in source.replace("from telic import", ""):
        return source
    from telic.rewards.load import without_own_imports

    return without_own_imports(source)


def _distinct(sources: list[RewardSource]) -> list[RewardSource]:
    """Give rewards of one name different names."""
    seen: dict[str, int] = {}
    out: list[RewardSource] = []
    for source in sources:
        count = seen[source.name] = seen.get(source.name, 0) + 1
        out.append(
            source if count == 1 else source.model_copy(update={"name": f"{source.name}{count}"})
        )
    return out


def _check_variant(variant: Mapping[str, Any]) -> None:
    for name in variant:
        if name not in MEMBER_FIELDS:
            raise ConfigError(
                f"{name} cannot differ between members of one population.",
                hint=f"These can: {', '.join(MEMBER_FIELDS)}.",
            )


def _short(name: str) -> str:
    return "".join(word[0] for word in name.split("_"))
