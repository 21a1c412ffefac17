"""Convert a training request to a complete job of rewards, variants and seeds."""

from __future__ import annotations

import functools
import inspect
import itertools
import json
import math
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from telic.core.config import Record
from telic.core.text import parse_python
from telic.core.verb import verb
from telic.envs.access import MODEL_FILES, located
from telic.envs.simulators.names import absolute_python, simulated
from telic.errors import (
    BadFile,
    ConfigError,
    MissingFile,
    RefusedCode,
    RewardError,
    TelicError,
    UnknownName,
)
from telic.sandbox.source import check_source
from telic.storage.keys import permit
from telic.storage.layout import file_name
from telic.storage.reading import read_text
from telic.training.job import (
    MEMBER_FIELDS,
    JobRequest,
    Member,
    PpoSettings,
    RewardLike,
    RewardSource,
    TrainJob,
    declared_phase,
)

if TYPE_CHECKING:
    from telic.envs.mujoco import MujocoEnv
    from telic.envs.spec import Robot

OWN = "default"
"""name of the environment's built-in reward"""
_TAKEN_OVER = ("threads", "evaluations", "eval_episodes", "save_every_s")
"""options that are copied from the request to the job"""


@verb(JobRequest)
def plan(request: JobRequest) -> TrainJob:
    """Create the training job for a request."""
    # Paths become absolute, because the worker has a different working directory.
    env = located(request.env)
    env_args = dict(request.env_args or {})
    if request.python is not None:
        if not simulated(env):
            raise ConfigError(
                f"--python only applies to mjlab:TASK and isaaclab:TASK, not to {request.env}.",
                hint="Install the environment next to telic and omit --python.",
            )
        env_args["python"] = absolute_python(request.python)
    device, seeds = device_of(request), request.seeds
    if len(set(seeds)) != len(seeds) or not seeds:
        raise ConfigError(f"seeds={list(seeds)} must be one or more distinct numbers.")
    sources = _distinct(
        [read_reward(reward, request.weights, request.trusted) for reward in request.rewards]
    )
    permit(*(source.code for source in sources if source.trusted))  # trusted by the caller
    phases = {turns for source in sources if (turns := declared_phase(source.source)) is not None}
    if len(phases) > 1:
        raise ConfigError(
            f"The rewards differ in phase_hz: {', '.join(map(str, sorted(phases)))}.",
            hint="All policies of a run have the same observation. Train these in separate runs.",
        )
    for turns in phases:
        env_args.setdefault("phase_hz", turns)
    if request.ours:
        sources = [source.model_copy(update={"ours": True}) for source in sources]
    named = for_device(request.preset, device)
    members = len(sources) * len(request.variants) * len(seeds)
    learner = choose_learner(env, device, members) if request.learner == "auto" else request.learner
    chosen = preset_for(named, env, learner)
    base = chosen.settings
    if named == "gpu" and learner == "ppo":
        base = share_environments(base, members, env)
    changes = request.settings
    is_mapping = isinstance(changes, Mapping)
    shared = base.replace(**changes) if is_mapping else base.override(changes)
    if not any(str(change).startswith("log_std") for change in changes):
        most = calibrate_action_std(env, env_args)
        shared = shared if most is None else shared.replace(log_std=min(shared.log_std, most))
    if shared.learner != learner:
        raise ConfigError("The learner is not a setting.", hint="Use --learner.")
    if device != "cpu" and shared.overlap:
        raise ConfigError(
            "overlap=true requires a CPU, because a GPU alternates collection and learning.",
            hint="Omit overlap.",
        )
    return TrainJob.parse(
        {
            "env": env,
            "env_args": env_args,
            "steps": request.steps or chosen.steps,
            "rewards": [source.model_dump() for source in sources],
            "members": [member.model_dump() for member in _members(request, sources, shared)],
            **{name: getattr(request, name) for name in _TAKEN_OVER},
            "device": device,
            "devices": request.devices,
        }
    )


def device_of(request: JobRequest) -> str:
    """Return the device of a request, or the common type of its `devices`."""
    for device in {request.device, *request.devices} - {"cpu"}:
        from telic.sim.simulation import require_gpu

        require_gpu(device)
    kinds = {device.partition(":")[0] for device in request.devices}
    if len(kinds) > 1:
        raise ConfigError(
            f"devices={','.join(request.devices)} mixes CPUs and GPUs.",
            hint="Use only CPUs or only GPUs, so that members are comparable.",
        )
    return kinds.pop() if kinds else request.device


def _members(
    request: JobRequest, sources: Sequence[RewardSource], shared: PpoSettings
) -> Iterator[Member]:
    """Yield a member for each combination of reward, variant and seed."""
    starts = {key: str(path.absolute()) for key, path in (request.starts or {}).items()}
    for (index, source), variant, seed in itertools.product(
        enumerate(sources), request.variants, request.seeds
    ):
        config = source.name
        for field, value in sorted(variant.items()):
            if field not in MEMBER_FIELDS:
                raise ConfigError(
                    f"{field} cannot differ between members of one population.",
                    hint=f"Allowed fields: {', '.join(MEMBER_FIELDS)}.",
                )
            config += f"-{''.join(word[0] for word in field.split('_'))}{value:g}"
        yield Member(
            name=f"{config}_seed_{seed}",
            config=config,
            seed=seed,
            reward=index,
            settings=shared.replace(**variant),
            start=starts.get((index, seed)),
        )


def read_reward(
    given: RewardLike, weights: Mapping[str, float] | None, trusted: bool
) -> RewardSource:
    """Convert a file, source text or class to a named reward source."""
    chosen = dict(weights or {})
    if given is None or given == OWN:
        if chosen:
            raise ConfigError("The environment's built-in reward has no weights to change.")
        return RewardSource(name=OWN)
    if isinstance(given, type):
        try:
            source = textwrap.dedent(inspect.getsource(given))
        except (OSError, TypeError):
            raise RewardError(
                f"The source of {given.__name__} is not available.", hint="Define it in a file."
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
    try:
        source = read_text(path)
    except MissingFile as error:
        raise RewardError(
            error.message.replace("no file", "no reward file"),
            hint="Pass the path of a Python file.",
        ) from None
    except BadFile as error:
        raise RewardError(f"Not a reward: {error.message}", hint=error.hint) from None
    return _checked(file_name(path.stem), source, chosen, trusted)


def _checked(name: str, source: str, weights: dict[str, float], trusted: bool) -> RewardSource:
    """Check the syntax and the allow-list before a worker starts."""
    try:
        parse_python(source)
    except SyntaxError as error:
        raise RewardError(
            f"{name}.py, line {error.lineno}: invalid Python: {error.msg}.",
            hint="Fix the syntax error.",
            line=error.lineno,
        ) from None
    if not trusted:
        try:
            read = source
            if "import RewardFunction" in source.replace("from telic import", ""):
                # The loader strips imports of RewardFunction from other packages.
                from telic.rewards.load import without_own_imports

                read = without_own_imports(source)
            check_source(read, f"{name}.py")
        except RefusedCode as error:
            hint = f"{error.hint or ''} If you wrote this file yourself, use --trust.".strip()
            raise RefusedCode(error.message, hint=hint, line=error.line) from None
    return RewardSource(name=name, source=source, weights=weights, trusted=trusted)


def _distinct(sources: list[RewardSource]) -> list[RewardSource]:
    """Append numbers to duplicate reward names."""
    seen: Counter[str] = Counter()
    out: list[RewardSource] = []
    for source in sources:
        seen[source.name] += 1
        name = source.name if seen[source.name] == 1 else f"{source.name}{seen[source.name]}"
        out.append(source.model_copy(update={"name": name}))
    return out


# ---- presets


class Preset(Record):
    """Settings and training length for one environment."""

    steps: int
    settings: PpoSettings


_DEFAULT: dict[str, tuple[int, dict[str, Any]]] = {
    "HalfCheetah-v5": (1_000_000, {"gae_lambda": 0.9, "target_kl": 0.03}),
    "Ant-v5": (2_000_000, {"horizon": 64, "minibatch_size": 512}),
    "Hopper-v5": (1_000_000, {}),
    "Walker2d-v5": (1_500_000, {"learning_rate": 3e-4}),
    "Humanoid-v5": (3_000_000, {"horizon": 64, "minibatch_size": 512, "learning_rate": 3e-4}),
    "HumanoidStandup-v5": (1_000_000, {"horizon": 64, "minibatch_size": 512}),
    "Swimmer-v5": (1_000_000, {"gamma": 0.9999, "gae_lambda": 0.98, "horizon": 128}),
    "Reacher-v5": (500_000, {}),
    "InvertedPendulum-v5": (200_000, {}),
    # Once it balances, observation variances shrink and normalization magnifies rare states.
    "InvertedDoublePendulum-v5": (150_000, {"normalize_obs": False}),
}

# Single policy on a GPU: many environments, short rollouts, few epochs.
_GPU_COMMON: dict[str, Any] = {
    "num_envs": 8_192,
    "horizon": 16,
    "minibatch_size": 16_384,
    "epochs": 4,
    "learning_rate": 1e-3,
    "schedule": "adaptive",
    "target_kl": 0.01,
    "hidden": (128, 128),
    "activation": "elu",
    "log_std": -0.5,
    "max_grad_norm": 1.0,
    "overlap": False,
}
# Population on a GPU: fewer environments per member, so each sample is used more.
_GPU_SHARED: dict[str, Any] = {
    "epochs": 5,
    "schedule": "adaptive",
    "target_kl": 0.02,
    "gae_lambda": 0.9,
    "hidden": (64, 64),
    "activation": "tanh",
    "log_std": -1.0,
}
# With low noise Hopper falls immediately; more exploration lets it learn to hop.
_GPU_SHARED_OWN: dict[str, dict[str, Any]] = {"Hopper-v5": {"log_std": 0.0}}
GPU_ENVS = 32_768
"""maximum number of environments of a population"""
_GPU_STEPS = 20
_MIN_ENVS, _MAX_ENVS = 256, 4_096
_SHARED_MINIBATCHES = 8
_GPU: dict[str, tuple[int, dict[str, Any]]] = {
    **dict.fromkeys(_DEFAULT, (50_000_000, _GPU_COMMON)),
    "HalfCheetah-v5": (50_000_000, {**_GPU_COMMON, "schedule": "per_minibatch"}),
}

# REPPO and FlashSAC: hyperparameters of the papers on a GPU, smaller networks on CPUs.
_GPU_REPPO: dict[str, Any] = {
    "num_envs": 4_096,
    "horizon": 16,
    "minibatch_size": 8_192,
    "epochs": 4,
    "learning_rate": 3e-4,
    "target_kl": 0.1,
    "hidden": (512, 512, 512),
    "overlap": False,
}
_GPU_FLASHSAC: dict[str, Any] = {
    "num_envs": 512,
    "horizon": 16,
    "minibatch_size": 2_048,
    "updates": 32,
    "learning_starts": 20_000,
    "learning_rate": 3e-4,
    "hidden": (128,),
    "critic_hidden": (256,),
    "noise_hold": 16,
    "overlap": False,
}
_REPPO: dict[str, Any] = {
    "horizon": 64,
    "minibatch_size": 512,
    "epochs": 4,
    "learning_rate": 3e-4,
    "target_kl": 0.1,
    "hidden": (128, 128),
    "critic_hidden": (256, 256),
}
_FLASHSAC: dict[str, Any] = {
    "num_envs": 8,
    "horizon": 16,
    "minibatch_size": 256,
    "updates": 64,
    "learning_starts": 2_000,
    "learning_rate": 3e-4,
    "hidden": (64,),
    "critic_hidden": (128,),
    "noise_hold": 16,
}
_LEARNERS: dict[tuple[str, str], dict[str, Any]] = {
    ("default", "reppo"): _REPPO,
    ("default", "flashsac"): _FLASHSAC,
    ("gpu", "reppo"): _GPU_REPPO,
    ("gpu", "flashsac"): _GPU_FLASHSAC,
}

PRESETS = {"default": _DEFAULT, "gpu": _GPU}
_COMMON_TO: dict[str, tuple[int, dict[str, Any]]] = {
    "default": (1_000_000, {}),
    "gpu": (50_000_000, _GPU_COMMON),
}


def choose_learner(env: str, device: str, members: int) -> str:
    """Return the learner that performed best in benchmarks for an environment and device.

    The learner is PPO unless docs/explanation/learners.md shows that another one is faster.
    """
    return "reppo" if device != "cpu" and members == 1 and env == "Humanoid-v5" else "ppo"


def preset_for(name: str, env: str, learner: str = "ppo") -> Preset:
    """Return the preset of an environment, or the default of the named preset."""
    if name not in PRESETS:
        raise UnknownName("preset", name, list(PRESETS), see="telic envs --presets")
    steps, changes = PRESETS[name].get(env, _COMMON_TO[name])
    if learner != "ppo":
        changes = {"learner": learner, **_LEARNERS[name, learner]}
    return Preset(steps=steps, settings=PpoSettings.parse(changes))


def for_device(name: str, device: str) -> str:
    """Resolve the preset name "default", which means "gpu" on a GPU."""
    return "gpu" if name == "default" and device != "cpu" else name


def steps_factor(device: str) -> int:
    """Return the ratio of GPU to CPU training steps. Large batches require more samples."""
    return 1 if device == "cpu" else _GPU_STEPS


def share_environments(settings: PpoSettings, members: int, env: str) -> PpoSettings:
    """Divide the environments of a GPU among the members of a population."""
    if members == 1:
        return settings
    num_envs = _MIN_ENVS
    while num_envs < _MAX_ENVS and num_envs * 2 * members <= GPU_ENVS:
        num_envs *= 2
    minibatch = num_envs * settings.horizon // _SHARED_MINIBATCHES
    changes = {**_GPU_SHARED, **_GPU_SHARED_OWN.get(env, {})}
    return settings.replace(num_envs=num_envs, minibatch_size=minibatch, **changes)


# ---- calibration of the initial action std
#
# If the initial action noise makes a robot fall, most of its samples come from lying on the ground,
# and it may never learn to walk. An 11 kg quadruped with soft actuators did not learn to walk with
# a standard deviation of 0.37 of the action range, but did after 200,000 steps with 0.2. The
# calibration measures the largest noise under which 32 standing robots stay upright.

_LEVELS = (-1.0, -1.3, -1.6, -2.0, -2.5)
"""candidate log standard deviations in descending order"""
_ROBOTS = 32
_FALLS = 6.0
"""duration of the test in units of sqrt(height / g)"""
_MAX_STEPS, _SAMPLE_EVERY = 200, 10
_UPRIGHT = math.cos(math.radians(45.0))
_IRRELEVANT = ("variation", "max_episode_steps")
"""arguments that calibration ignores because they do not affect standing"""


def calibrate_action_std(env: str, env_args: Mapping[str, Any]) -> float | None:
    """Return the largest action log std under which a robot stays upright, or None if unknown.

    Calibration requires the model file of a legged robot with a floating base. Returns None if the
    robot falls without noise or at every noise level.
    """
    if not env.endswith(MODEL_FILES):
        return None
    asked = {name: value for name, value in env_args.items() if name not in _IRRELEVANT}
    try:
        stamp = Path(env).stat().st_mtime_ns
        return _measured(env, json.dumps(asked, sort_keys=True), stamp)
    except (TelicError, OSError):
        return None  # training reports the error


@functools.cache
def _measured(env: str, arguments: str, stamp: int) -> float | None:
    del stamp  # modification time, part of the cache key
    from telic.envs.factory import make_mjcf

    given: dict[str, Any] = {**json.loads(arguments), "terminate_when_unhealthy": False}
    robots = make_mjcf(env, num_envs=_ROBOTS, **given)
    try:
        robot = robots.spec.robot
        if robot is None or not robot.feet or robot.root.quaternion is None:
            return None
        if not _stand(robots, robot, 0.0):
            return None
        return next((each for each in _LEVELS if _stand(robots, robot, math.exp(each))), None)
    finally:
        robots.close()


def _stand(robots: MujocoEnv, robot: Robot, deviation: float) -> bool:
    """Return True if all robots stay upright under action noise with the given std."""
    import torch

    low, high = robots.action_low, robots.action_high
    height_s = math.sqrt((robot.rest_height or 0.0) / 9.81)
    steps = min(_MAX_STEPS, math.ceil(_FALLS * height_s / (robots.dt or 1.0)))
    first = (robot.root.quaternion or 0) + 1
    draws = torch.Generator().manual_seed(0)
    robots.reset(0)
    for left in reversed(range(steps)):
        noise = torch.randn(_ROBOTS, robots.act_dim, generator=draws) * deviation
        robots.step(torch.lerp(low, high, 0.5 + 0.5 * noise.clamp(-1.0, 1.0)))
        if left % _SAMPLE_EVERY == 0:
            sideways = robots.sim.field("qpos")[:, first : first + 2].square().sum(1)
            if bool((1.0 - 2.0 * sideways < _UPRIGHT).any()):
                return False
    return True
