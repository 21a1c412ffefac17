"""From what a person asks for to a complete job: rewards x variants x seeds."""

from __future__ import annotations

import ast
import inspect
import itertools
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import telic
from telic.errors import ConfigError, RefusedCode, RewardError
from telic.sandbox.source import check_source
from telic.sim.choose import require_gpu
from telic.storage.layout import file_name
from telic.training.job import Member, RewardSource, TrainJob
from telic.training.presets import for_device, share
from telic.training.presets import preset as find_preset
from telic.training.settings import MEMBER_FIELDS

LIBRARY = Path(telic.__file__).parent / "rewards" / "library"
OWN = "default"
"""name of the environment's own reward"""


def plan(
    env: str,
    *,
    rewards: Sequence[str | Path | type | None] = (None,),
    steps: int | None = None,
    seeds: Sequence[int] = (1,),
    preset: str = "default",
    overrides: Sequence[str] = (),
    settings: Mapping[str, Any] | None = None,
    weights: Mapping[str, float] | None = None,
    variants: Sequence[Mapping[str, Any]] = ({},),
    env_args: Mapping[str, Any] | None = None,
    trusted: bool = False,
    starts: Mapping[tuple[int, int], Path] | None = None,
    **options: Any,
) -> TrainJob:
    """Return the job for a request.

    Args:
        env: environment id, module:Class, or MJCF path.
        rewards: reward files, source texts or classes; None is the environment's own.
        steps: environment steps per member; None: the preset's.
        seeds: one member per reward, variant and seed.
        preset: named settings to start from.
        overrides: `key=value` changes of settings.
        settings: changes of settings as values.
        weights: reward weights that replace the files' own.
        variants: settings that differ between members, e.g. [{"gamma": 0.98}, {"gamma": 0.99}].
        env_args: constructor arguments of the environment.
        trusted: the rewards were written by the caller: skip the code allow-list.
        starts: by reward's index and seed, the policy that a member goes on from.
        options: other fields of TrainJob.
    """
    if Path(env).is_file():
        env = str(Path(env).absolute())  # the worker runs in another folder
    device = options.get("device", "cpu")
    if device != "cpu":
        require_gpu(device)
    if len(set(seeds)) != len(seeds) or not seeds:
        raise ConfigError(f"seeds={list(seeds)} must be different numbers, at least one.")
    sources = _distinct([read_reward(each, weights, trusted) for each in rewards])
    named = for_device(preset, device)
    chosen = find_preset(named, env)
    base = chosen.settings
    if named == "gpu":
        base = share(base, len(sources) * len(variants) * len(seeds), env)
    shared = base.override(overrides).replace(**(settings or {}))
    if device != "cpu" and shared.overlap:
        raise ConfigError(
            "overlap=true is for processors: on a GPU, collecting and learning take turns.",
            hint="Leave overlap out.",
        )
    members: list[Member] = []
    begun = {key: str(path.absolute()) for key, path in (starts or {}).items()}
    for (index, source), variant, seed in itertools.product(enumerate(sources), variants, seeds):
        _check_variant(variant)
        config = source.name + "".join(
            f"-{_short(name)}{value:g}" for name, value in sorted(variant.items())
        )
        members.append(
            Member(
                name=f"{config}_seed_{seed}",
                config=config,
                seed=seed,
                reward=index,
                settings=shared.replace(**variant),
                start=begun.get((index, seed)),
            )
        )
    return TrainJob.parse(
        {
            "env": env,
            "env_args": dict(env_args or {}),
            "steps": steps or chosen.steps,
            "rewards": [each.model_dump() for each in sources],
            "members": [each.model_dump() for each in members],
            **options,
        }
    )


def read_reward(
    given: str | Path | type | None, weights: Mapping[str, float] | None, trusted: bool
) -> RewardSource:
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
    shipped = LIBRARY / f"{given}.py"
    if not path.exists() and shipped.is_file():
        path = shipped
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


def library_names() -> list[str]:
    """Return the rewards that come with telic."""
    return sorted(path.stem for path in LIBRARY.glob("[!_]*.py"))


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
