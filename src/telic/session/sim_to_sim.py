"""Sim-to-sim transfer: run a deployment bundle without telic and score it with the judge.

The bundle's `run.py` plays in plain MuJoCo, in a separate process where telic cannot be imported,
and records positions, velocities and targets. Every control step is then simulated again from the
recorded state to compute bodies and contacts and to verify that the physics matches. The judge
scores the result and episodes simulated by telic from the same initial states.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import mujoco
import numpy as np
import torch

from telic.authors.request import SessionConfig
from telic.core.seeds import derive
from telic.envs.factory import make
from telic.envs.mujoco import MujocoEnv
from telic.envs.vector import cut_episode
from telic.errors import BadFile, TelicError
from telic.jobs.process import own_python
from telic.judges.recorder import record
from telic.sandbox.confine import clean_environment
from telic.session._judgment import best_policy, episode_paths, judge_episodes
from telic.session.records import verified
from telic.storage.files import read_record
from telic.storage.layout import SessionFolder
from telic.storage.reading import read_text
from telic.storage.trajectories import (
    COMMANDS,
    GROUND,
    RECORDED,
    Environment,
    Trajectory,
    read_arrays,
    read_trajectory,
    write_trajectory,
)
from telic.training.export.deployment import (
    Agreement,
    Deployment,
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
"""program that runs a script while blocking imports of telic and torch"""
_COMPUTED = ("xpos", "xquat", "cvel", "cfrc_ext", "subtree_com")


def sim_to_sim(folder: SessionFolder, bundle: Path) -> Agreement:
    """Verify a deployment bundle of the session's delivered policy."""
    config = read_record(folder.config, SessionConfig)
    policy = best_policy(folder, verified(folder))
    where = (config.env, nominal(policy.candidate.env_args))
    seed = derive("deployment", folder.name)
    about = read_deployment(read_text(bundle / "deploy.json"))
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        order = policy.order(
            config, seed, episode_paths(place / "here", EPISODES), env_args=where[1]
        )
        here = [file.path for file in record(order, place / "here")]
        starts = starts_of(where, EPISODES, seed)
        played = play_bundle(bundle, starts, place)
        there = [Path(path) for path in episode_paths(place / "there", EPISODES)]
        episodes, one_step = episodes_of(played, starts, about, where)
        for path, episode in zip(there, episodes, strict=True):
            path.parent.mkdir(exist_ok=True)
            write_trajectory(path, episode)
        deviation = first_deviation(here, there)
        judged = judge_episodes(folder, config, [*here, *there], place / "judge", where)
        scores = [verdict.score for verdict in judged]
    agrees = compared(scores[:EPISODES], scores[EPISODES:], config.threshold, deviation)
    return agrees.model_copy(update={"one_step": one_step})


def first_deviation(here: Sequence[Path], there: Sequence[Path]) -> float:
    """Return the largest difference in first observations. Raises TelicError above a limit."""
    first = [[read_trajectory(path)["obs"][0] for path in paths] for paths in (here, there)]
    deviation = float(np.abs(np.array(first[0]) - np.array(first[1])).max())
    if not deviation <= _SAME_OBSERVATION:
        raise TelicError(
            "From the same initial states, the first observations of run.py and telic differ by "
            f"{deviation:.2g}."
        )
    return deviation


def compared(
    here: Sequence[float | None],
    there: Sequence[float | None],
    threshold: float,
    deviation: float,
) -> Agreement:
    """Compare the scores in both simulations per initial state. A score of None is unknown."""
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


# ------------------------------------------------------------------------- bundle simulation


class BundlePlay(NamedTuple):
    """Output of run.py: states after every control step of every episode, (N, T, ...)."""

    obs: np.ndarray
    ctrl: np.ndarray
    qpos: np.ndarray
    qvel: np.ndarray
    time: np.ndarray
    command: np.ndarray


def play_bundle(bundle: Path, starts: RobotStarts, place: Path) -> BundlePlay:
    """Run a bundle from initial states in a separate process and validate its output.

    Raises:
        TelicError: the bundle failed, with the last line of its output. BadFile: the output has
        wrong shapes or non-finite values.
    """
    given, out = place / "starts.npz", place / "happened.npz"
    starts.write(given)
    command = own_python(None, "-I", "-c", _WITHOUT_TELIC, bundle / "run.py")
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
        raise TelicError(f"run.py did not finish within {_PLAYING_S:g} s.") from None
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()] or ["no output"]
        raise TelicError(
            f"run.py of the bundle failed: {lines[-1][:300]}",
            hint="It requires mujoco, numpy and onnxruntime. Try it with: python run.py",
        )
    arrays = read_arrays(out)
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
            raise BadFile(f"run.py wrote non-finite values of {name}.")
    return played


class _DeployedEpisodes(NamedTuple):
    """Episodes of a bundle in the format that judges score."""

    episodes: list[Trajectory]
    one_step: float
    """largest position difference when a step is simulated again from the bundle's state"""


def episodes_of(
    played: BundlePlay, starts: RobotStarts, about: Deployment, where: Environment
) -> _DeployedEpisodes:
    """Convert a bundle's output to episodes, truncated where the environment would terminate."""
    env = make(where[0], num_envs=len(played.qpos), **where[1])
    try:
        assert isinstance(env, MujocoEnv)
        computed, one_step = _computed(env.model, played, starts, about.physics_steps)
        # Observations contain the unclipped action; the last action is not observed.
        block = next(block for block in about.observation if block.name == "action")
        shown = played.obs[:, 1:, block.first : block.first + len(block.columns)]
        middle, half = map(np.array, (about.joints.action_middle, about.joints.action_half))
        columns = {
            "obs": played.obs,
            "action": np.concatenate((middle + half * shown, played.ctrl[:, -1:]), axis=1),
            "qpos": played.qpos,
            "qvel": played.qvel,
            **computed,
            **{name: played.command[:, :, place] for place, name in enumerate(COMMANDS)},
            # Both simulations use nominal, flat ground.
            **{name: np.zeros(played.qpos.shape[:2]) for name in GROUND},
        }
        lengths, seen = _measured(env, columns, starts)
        # The last recorded step of each episode, (N, T).
        ends = np.arange(played.qpos.shape[1]) == np.array(lengths)[:, None] - 1
        fell = np.array(lengths)[:, None] < played.qpos.shape[1]
        columns |= {**seen, "terminated": ends & fell, "truncated": ends & ~fell}
        by_step = {name: values.swapaxes(0, 1) for name, values in columns.items()}
        episodes = [
            cut_episode(by_step, row, length, env.spec, where, label=f"deployed{row}")
            for row, length in enumerate(lengths)
        ]
        return _DeployedEpisodes(episodes, one_step)
    finally:
        env.close()


def _computed(
    model: Any, played: BundlePlay, starts: RobotStarts, substeps: int
) -> tuple[dict[str, np.ndarray], float]:
    """Simulate every step again, and return body states (N, T, bodies, ...) and position error."""
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


def _measured(
    env: MujocoEnv, columns: dict[str, np.ndarray], starts: RobotStarts
) -> tuple[list[int], dict[str, np.ndarray]]:
    """Return the length of each episode until termination, and the recorded info values."""
    env.reset()
    rows, steps = columns["qpos"].shape[:2]
    lengths = np.full(rows, steps)
    # On a CPU, fields are views of the simulation state, so the task reads the written values.
    fields = {name: env.sim.field(name) for name in ("qpos", "qvel", *_COMPUTED)}
    fields["qpos"][:] = torch.as_tensor(starts.qpos)
    seen = {
        name: np.zeros((rows, steps))
        for name in RECORDED
        if name in env.spec.info_keys and name not in columns
    }
    for step in range(steps):
        before = env.task.track()
        for name, field in fields.items():
            field[:] = torch.as_tensor(columns[name][:, step])
        action = torch.as_tensor(columns["action"][:, step]).to(fields["qpos"].dtype)
        outcome = env.task.outcome(action, env.task.track() - before)
        for name, values in seen.items():
            values[:, step] = outcome.values[name].numpy()
        if (ended := outcome.terminated) is not None:
            lengths = np.where(ended.numpy(), np.minimum(lengths, step + 1), lengths)
    return [int(length) for length in lengths], seen
