"""Sim-to-sim: a session's judge scores what a deployment bundle does where there is no telic.

The bundle's own `run.py` plays in plain MuJoCo, in another process in which telic cannot be
imported. Only what it wrote comes back: positions, velocities, targets. Every control step is made
again from where it wrote that it was, which gives bodies and contacts, and says whether the physics
is the same; and the judge scores that beside episodes that telic simulated from the same starts.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import mujoco
import numpy as np
import torch

from telic.authors.candidate import RewardCandidate
from telic.authors.request import SessionConfig
from telic.core.seeds import derive
from telic.envs import make
from telic.envs.mujoco import MujocoEnv
from telic.errors import BadFile, TelicError
from telic.judges.recorder import PlayOrder, record
from telic.sandbox.confine import clean_environment
from telic.session.judgement import episode_paths, judge_episodes
from telic.session.records import SessionSummary
from telic.storage.files import read_record
from telic.storage.layout import MemberFolder, SessionFolder
from telic.storage.reading import read_text
from telic.storage.trajectories import (
    COMMANDS,
    GROUND,
    Environment,
    Trajectory,
    TrajectoryFacts,
    read_arrays,
    read_trajectory,
    write_trajectory,
)
from telic.training.export.deployment import (
    Agreement,
    Deployment,
    RobotCheck,
    RobotStarts,
    nominal,
    read_deployment,
    starts_of,
)

EPISODES = 32
_SAME_OBSERVATION = 1e-4
_PLAYING_S = 900.0
_WITHOUT_TELIC = """
import runpy, sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("telic", "torch"):
            raise ImportError(name + " is not there on a robot")
sys.meta_path.insert(0, Refuse())
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""runs a script where neither telic nor torch can be imported"""
_COMPUTED = ("xpos", "xquat", "cvel", "cfrc_ext", "subtree_com")


def sim_to_sim(folder: SessionFolder) -> RobotCheck:
    """Return what verifies a deployment bundle of the policy that a session hands out."""
    config = read_record(folder.config, SessionConfig)
    summary = read_record(folder.summary, SessionSummary)
    return partial(_verify, folder, config, summary)


def _verify(
    folder: SessionFolder, config: SessionConfig, summary: SessionSummary, bundle: Path
) -> Agreement:
    assert summary.best_iteration is not None and summary.best_member is not None
    files = folder.iteration(summary.best_iteration)
    candidate = read_record(files.candidate, RewardCandidate)
    member = MemberFolder(files.run.path / summary.best_member)
    step = summary.best_step or member.checkpoints()[-1].step
    where = (config.env, nominal(candidate.env_args))
    seed = derive("deployment", folder.name)
    about = read_deployment(read_text(bundle / "deploy.json"))
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        order = PlayOrder(
            policy=str(member.checkpoint(step).absolute()),
            env=config.env,
            env_args=where[1],
            seed=seed,
            paths=episode_paths(place / "here", EPISODES),
            reward=read_text(member.reward_code) if member.reward_code.exists() else None,
        )
        [recorded] = record([order], place / "here")
        here = [file.path for file in recorded]
        starts = starts_of(where, EPISODES, seed)
        happened = play_bundle(bundle, starts, place)
        there = [Path(path) for path in episode_paths(place / "there", EPISODES)]
        episodes, one_step = episodes_of(happened, starts, about, where)
        for path, episode in zip(there, episodes, strict=True):
            path.parent.mkdir(exist_ok=True)
            write_trajectory(path, episode)
        deviation = _first_seen(here, there)
        judged = judge_episodes(folder, config, [*here, *there], place / "judge", where)
        scores = [verdict.score for verdict in judged]
    agrees = agreement(scores[:EPISODES], scores[EPISODES:], config.threshold, deviation)
    return agrees.model_copy(update={"one_step": one_step})


def agreement(
    here: Sequence[float | None],
    there: Sequence[float | None],
    threshold: float,
    deviation: float,
) -> Agreement:
    """Return how far two scores of the same starts agree; None: nobody could judge it."""
    known = [[score for score in own if score is not None] for own in (here, there)]
    means = [sum(own) / len(own) if own else None for own in known]
    pairs = [
        abs(one - other)
        for one, other in zip(here, there, strict=True)
        if one is not None and other is not None
    ]
    return Agreement(
        episodes=len(here),
        here=means[0],
        there=means[1],
        threshold=threshold,
        apart=max(pairs, default=None),
        unjudged=sum(score is None for score in (*here, *there)),
        deviation=deviation,
    )


def _first_seen(here: Sequence[Path], there: Sequence[Path]) -> float:
    """Return how far the first observations of the same starts differ; raises if they do."""
    seen = [[read_trajectory(path)["obs"][0] for path in paths] for paths in (here, there)]
    deviation = float(np.abs(np.array(seen[0]) - np.array(seen[1])).max())
    if not deviation <= _SAME_OBSERVATION:
        raise TelicError(
            f"From the same starts, run.py observes something else than telic: {deviation:.2g} off."
        )
    return deviation


# ------------------------------------------------------------------------- the other simulation


class BundlePlay(NamedTuple):
    """What run.py wrote: after every control step of every episode, (N, T, ...)."""

    obs: np.ndarray
    ctrl: np.ndarray
    qpos: np.ndarray
    qvel: np.ndarray
    time: np.ndarray
    command: np.ndarray


def play_bundle(bundle: Path, starts: RobotStarts, place: Path) -> BundlePlay:
    """Let a bundle play starts in a process of its own, and return what it wrote, checked.

    Raises:
        TelicError: it failed; says what it printed.
        BadFile: what it wrote is not what was asked for.
    """
    given, out = place / "starts.npz", place / "happened.npz"
    starts.write(given)
    command = [sys.executable, "-I", "-c", _WITHOUT_TELIC, str(bundle / "run.py")]
    try:
        done = subprocess.run(
            [*command, "--starts", str(given), "--out", str(out)],
            cwd=place,
            env=clean_environment(place),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PLAYING_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise TelicError(f"run.py did not end within {_PLAYING_S:g} s.") from None
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()] or ["it says nothing"]
        raise TelicError(
            f"run.py of the bundle failed: {lines[-1][:300]}",
            hint="It needs mujoco, numpy and onnxruntime; try it: python run.py",
        )
    return _checked(read_arrays(out), starts)


def _checked(arrays: dict[str, np.ndarray], starts: RobotStarts) -> BundlePlay:
    """Return what a bundle wrote, if it is what the starts ask for, in finite numbers."""
    if missing := [name for name in BundlePlay._fields if name not in arrays]:
        raise BadFile(f"run.py wrote no {', '.join(missing)}.")
    played = BundlePlay(**{name: arrays[name] for name in BundlePlay._fields})
    rows = starts.command.shape[:2]
    widths = {"qpos": starts.qpos.shape[1], "qvel": starts.qvel.shape[1], "command": 3}
    for name, values in played._asdict().items():
        fits = values.shape[:2] == rows and values.ndim == (2 if name == "time" else 3)
        if not fits or values.shape[-1] != widths.get(name, values.shape[-1]):
            raise BadFile(f"run.py wrote {name} of shape {values.shape}.")
        if not np.isfinite(values).all():
            raise BadFile(f"run.py wrote {name} that is not a number everywhere.")
    return played


class DeployedEpisodes(NamedTuple):
    """What a bundle did as episodes that a judge can score."""

    episodes: list[Trajectory]
    one_step: float
    """largest difference of a position when a step is made again from where the bundle was"""


def episodes_of(
    played: BundlePlay, starts: RobotStarts, about: Deployment, where: Environment
) -> DeployedEpisodes:
    """Return what a bundle did from starts as episodes, each cut where it would have ended here."""
    env = make(where[0], num_envs=len(played.qpos), **where[1])
    try:
        assert isinstance(env, MujocoEnv)
        computed, one_step = _computed(env.model, played, starts, about.physics_steps)
        columns = {
            "obs": played.obs,
            "action": _actions(played, about),
            "qpos": played.qpos,
            "qvel": played.qvel,
            **computed,
            **{name: played.command[:, :, place] for place, name in enumerate(COMMANDS)},
            # Both play on nominal ground, which is flat.
            **{name: np.zeros(played.qpos.shape[:2]) for name in GROUND},
        }
        lengths = _lengths(env, columns)
        episodes = [_episode(env, columns, row, n, where) for row, n in enumerate(lengths)]
        return DeployedEpisodes(episodes, one_step)
    finally:
        env.close()


def _computed(
    model: Any, played: BundlePlay, starts: RobotStarts, substeps: int
) -> tuple[dict[str, np.ndarray], float]:
    """Return bodies and contacts after every step, (N, T, bodies, ...), as the environment does.

    They are of the beginning of a step's last part: where MuJoCo leaves them.
    """
    rows, steps = played.time.shape
    data: Any = mujoco.MjData(model)
    out = {name: np.zeros((rows, steps, *getattr(data, name).shape)) for name in _COMPUTED}
    off = 0.0
    for row in range(rows):
        mujoco.mj_resetData(model, data)
        data.qpos[:], data.qvel[:] = starts.qpos[row], starts.qvel[row]
        mujoco.mj_forward(model, data)
        for step in range(steps):
            data.ctrl[:] = played.ctrl[row, step]
            mujoco.mj_step(model, data, substeps)
            mujoco.mj_rnePostConstraint(model, data)
            for name, values in out.items():
                values[row, step] = getattr(data, name)
            off = max(off, float(np.abs(data.qpos - played.qpos[row, step]).max()))
            data.qpos[:], data.qvel[:] = played.qpos[row, step], played.qvel[row, step]
    return out, off


def _lengths(env: MujocoEnv, columns: dict[str, np.ndarray]) -> list[int]:
    """Return after how many steps each episode would have ended here."""
    env.reset()
    rows, steps = columns["qpos"].shape[:2]
    lengths = np.full(rows, steps)
    # On a CPU the fields are the state itself: the task looks at what is written there.
    fields = {name: env.sim.field(name) for name in ("qpos", "qvel", *_COMPUTED)}
    for step in range(steps):
        before = env.task.track()
        for name, field in fields.items():
            field[:] = torch.as_tensor(columns[name][:, step])
        action = torch.as_tensor(columns["action"][:, step]).to(fields["qpos"].dtype)
        ended = env.task.outcome(action, env.task.track() - before).terminated
        if ended is not None:
            lengths = np.where(ended.numpy(), np.minimum(lengths, step + 1), lengths)
    return [int(length) for length in lengths]


def _actions(played: BundlePlay, about: Deployment) -> np.ndarray:
    """Return the actions as chosen, before they were cut to what the drives take, (N, T, A)."""
    block = next(block for block in about.observation if block.name == "action")
    columns = slice(block.first, block.first + len(block.columns))
    middle, half = (
        np.array(values) for values in (about.joints.action_middle, about.joints.action_half)
    )
    # The next observation shows it; nothing shows the last one.
    shown = middle + half * played.obs[:, 1:, columns]
    return np.concatenate((shown, played.ctrl[:, -1:]), axis=1)


def _episode(
    env: MujocoEnv, columns: dict[str, np.ndarray], row: int, length: int, where: Environment
) -> Trajectory:
    """Return one episode, cut where it ended."""
    spec, ends = env.spec, np.zeros(length, dtype=bool)
    ends[-1] = True
    fell = length < columns["qpos"].shape[1]
    own = {name: values[row, :length] for name, values in columns.items()}
    own |= {"terminated": ends & fell, "truncated": ends & (not fell)}
    facts = TrajectoryFacts(
        env_id=where[0],
        env_kwargs=where[1],
        dt_s=spec.dt_s,
        label=f"deployed{row}",
        obs_names=spec.obs_names,
        action_names=spec.action_names,
        body_names=spec.body_names,
        joint_names=spec.joint_names,
    )
    return Trajectory(own, facts)
