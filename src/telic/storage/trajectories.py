"""Recorded episodes: named columns of equal length, with metadata.

A file is a plain `.npz`, which NumPy can read without pickle. It contains an array per column, with
floats as float32, and "facts" as JSON text. Row t is the transition obs[t], action[t] ->
next_obs[t]. Body and joint columns (qpos, xpos, …) and the environment's infos describe the state
after the transition.

Common columns of an episode with T steps are:

    step timestamp reward terminated truncated    (T,)
    obs next_obs                                  (T, obs_dim)
    action                                        (T, act_dim), or (T,) when discrete
    reward_terms                                  (T, terms), named by facts.reward_term_names
    qpos qvel                                     (T, nq), (T, nv)
    xpos xquat cvel cfrc_ext                      (T, bodies, 3 | 4 wxyz | 6 angular-linear | 6)
    subtree_com (T, bodies, 3), center of mass of each subtree
    reference_qpos (T, nq), of the reference motion
"""

from __future__ import annotations

import io
import json
import math
import re
import tokenize
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field, ValidationError

from telic.core.config import Record
from telic.errors import BadFile, Refused, TelicError
from telic.storage.files import plain, replacing
from telic.storage.reading import bounded_entries

_FACTS = "facts"
_LAST_NEXT_OBS = "next_obs_last"
# # Higher deflate levels take several times as long and save only a few percent on noisy floats.
_COMPRESSION = 1
_DAMAGE = (
    *(ValueError, KeyError, TypeError, EOFError, OSError, NotImplementedError, RuntimeError),
    *(zipfile.BadZipFile, zlib.error, ValidationError, SyntaxError, tokenize.TokenError),
)
"""limit on the total size of all columns. A humanoid episode of 1,000 steps has a few million."""
_MAX_FACTS = 1 << 24
_REGISTERED = re.compile(r"(?:[\w.-]+/)?[\w.-]+-v\d+")
"""ids that refer to registered environments, not to modules or files"""

_HEADS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}

REFERENCE = "reference_qpos"
COMMANDS = ("command_forward", "command_sideways", "command_turn")
"""commanded velocity per step"""
_GROUND_SEED = "terrain_seed"
GROUND = ("ground_height", "ground_step")
"""ground below the robot per step"""
RECORDED = (
    *("qpos", "qvel", "xpos", "xquat", "cvel", "cfrc_ext", "subtree_com"),
    *("x_velocity", "y_velocity", *COMMANDS),
    *GROUND,
)
"""infos that every recorder stores for quantities and rewards"""

Environment = tuple[str, dict[str, Any]]
"""environment id and constructor arguments, as in the request of a job"""


class TrajectoryFacts(Record):
    """Metadata of an episode."""

    schema_version: int = 1
    env_id: str = Field(description="environment id, module:Class, or path of an MJCF file")
    env_kwargs: dict[str, Any] = Field(default={}, description="constructor arguments")
    model_path: str | None = Field(
        default=None, description="MJCF file that defines qpos, if it is not defined by env_id"
    )
    dt_s: float | None = Field(
        gt=0, le=1e6, description="time between rows in seconds, or None if unknown"
    )
    seed: int | None = None
    label: str | None = Field(
        default=None, description="label of the episode in an evaluation: p10, median or p90"
    )
    global_step: int | None = Field(
        default=None, description="number of environment steps trained before the recording"
    )
    total_return: float | None = None
    obs_names: tuple[str, ...] = ()
    action_names: tuple[str, ...] = ()
    body_names: tuple[str, ...] = ()
    joint_names: tuple[str, ...] = ()
    reward_term_names: tuple[str, ...] = ()
    extra: dict[str, Any] = Field(default={}, description="additional metadata of an episode")

    @property
    def environment(self) -> Environment:
        """Return the environment and its arguments, as stored in the file or set by a caller."""
        return self.env_id, self.env_kwargs


@dataclass(frozen=True, slots=True)
class Trajectory:
    """Recorded episode with columns (`trajectory["qpos"]`) and metadata (`trajectory.facts`)."""

    columns: Mapping[str, np.ndarray]
    facts: TrajectoryFacts

    def __post_init__(self) -> None:
        lengths = {name: len(column) for name, column in self.columns.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"the columns of a trajectory differ in length: {lengths}")

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def __getitem__(self, name: str) -> np.ndarray:
        return self.columns[name]

    def __contains__(self, name: object) -> bool:
        return name in self.columns


def write_trajectory(path: Path, trajectory: Trajectory, *, is_kept: bool = True) -> None:
    """Write an episode atomically, adding "step" and "timestamp" columns if missing.

    Equal episodes result in equal files. Files that are only read once are not compressed.
    """
    columns = {name: _storable(column) for name, column in trajectory.columns.items()}
    columns.setdefault("step", np.arange(len(trajectory), dtype=np.int32))
    if trajectory.facts.dt_s is not None:
        times = (columns["step"] * trajectory.facts.dt_s).astype(np.float32)
        columns.setdefault("timestamp", times)
    facts = json.dumps(plain(trajectory.facts), allow_nan=False).encode()
    arrays = _without_repetition(columns) | {_FACTS: np.frombuffer(facts, dtype=np.uint8)}
    method = zipfile.ZIP_DEFLATED if is_kept else zipfile.ZIP_STORED
    with replacing(path) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        for name, array in arrays.items():
            buffer = io.BytesIO()
            np.lib.format.write_array(buffer, array, allow_pickle=False)
            # A ZipInfo without a date: equal content gives identical bytes.
            entry = zipfile.ZipInfo(f"{name}.npy")
            archive.writestr(entry, buffer.getbuffer(), method, _COMPRESSION)


def read_trajectory(path: Path, environment: Environment | None = None) -> Trajectory:
    """Read a recorded episode. Raises TelicError if the file is missing or damaged."""
    if not path.exists():
        raise TelicError(f"Trajectory not found: {path}.")
    try:
        columns = _read_columns(path)
        facts = TrajectoryFacts.model_validate_json(columns.pop(_FACTS).tobytes())
        if _LAST_NEXT_OBS in columns:
            last = columns.pop(_LAST_NEXT_OBS)
            columns["next_obs"] = np.concatenate((columns["obs"][1:], last))
        for column in columns.values():
            column.flags.writeable = False
        trajectory = Trajectory(columns, facts)
    except _DAMAGE as error:
        raise TelicError(
            f"{path} is not a trajectory: {_first_line(error)}.",
            hint="Evaluate the checkpoint again to record a new one.",
        ) from None
    if environment is None:
        return trajectory
    env, env_args = environment
    kept = _with_own_ground(env_args, facts.env_kwargs.get(_GROUND_SEED))
    asked = {"env_id": env, "env_kwargs": kept, "model_path": None}
    return Trajectory(columns, facts.model_copy(update=asked))


def _with_own_ground(env_args: dict[str, Any], seed: object) -> dict[str, Any]:
    """Return environment arguments with the ground variant on which an episode was recorded."""
    is_seed = isinstance(seed, int) and not isinstance(seed, bool) and 0 <= seed < 2**31
    return {**env_args, _GROUND_SEED: seed} if "terrain" in env_args and is_seed else env_args


def read_registered_trajectory(path: Path, environment: Environment | None) -> Trajectory:
    """Read an episode of an environment. By default, only registered ids are allowed."""
    trajectory = read_trajectory(path, environment)
    if environment is None:
        require_registered(trajectory.facts, path)
    return trajectory


def require_registered(facts: TrajectoryFacts, path: Path) -> None:
    """Refuse an environment that comes from a file, unless it is a registered id.

    Raises:
        Refused: the file refers to code to import or a model to open.
    """
    named = (facts.model_path, facts.env_kwargs.get("xml_file"))
    if _REGISTERED.fullmatch(facts.env_id) and all(
        name is None or (isinstance(name, str) and re.fullmatch(r"\w+\.xml", name))
        for name in named
    ):
        return
    wants = next((str(name) for name in named if name is not None), facts.env_id)
    raise Refused(
        f'{path.name} requires "{wants[:200]!a}", code or a model that is not part of an installed '
        "package. Trajectory files must not refer to such code.",
        hint="Use the run folder, pass the environment (env=…, env_args=…), or trust the file "
        "(trust=True).",
    )


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Read the arrays of an .npz file from another process. Raises BadFile if it is damaged."""
    try:
        return _read_columns(path)
    except _DAMAGE as error:
        raise BadFile(f"{path.name} contains no arrays: {_first_line(error)}.") from None


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _read_columns(path: Path) -> dict[str, np.ndarray]:
    """Read the arrays of an archive, refusing oversized ones before decompression."""
    if not path.is_file():
        raise ValueError("it is not a regular file")
    with zipfile.ZipFile(path) as archive:
        entries = bounded_entries(archive)
        return {entry.filename.removesuffix(".npy"): _array(archive, entry) for entry in entries}


def _array(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> np.ndarray:
    if entry.filename == f"{_FACTS}.npy" and entry.file_size > _MAX_FACTS:
        raise ValueError(f"the metadata is too large ({entry.file_size:,} bytes)")
    with archive.open(entry) as file:
        read_head = _HEADS[np.lib.format.read_magic(file)]  # a KeyError also means damage
        shape, fortran, dtype = read_head(file)
        content = file.read(entry.file_size)
    if dtype.kind not in "fiub":
        raise ValueError(f"{entry.filename} contains {dtype}, not numbers")
    if not shape or math.prod(shape) * dtype.itemsize != len(content):
        raise ValueError(f"the content of {entry.filename} does not match its header")
    return np.frombuffer(content, dtype).reshape(shape, order="F" if fortran else "C").copy()


def _storable(column: Any) -> np.ndarray:
    array = np.asarray(column)
    if array.dtype.kind == "f":
        return array.astype(np.float32, copy=False)
    if array.dtype.kind not in "iub":
        raise TypeError(f"columns must be numbers or booleans, not {array.dtype}")
    return array


def _without_repetition(columns: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Keep only the last row of next_obs if all other rows equal the next row of obs."""
    stored = dict(columns)
    if "obs" in stored and "next_obs" in stored and len(stored["obs"]):
        after = stored["next_obs"]
        if after.dtype == stored["obs"].dtype and np.array_equal(stored["obs"][1:], after[:-1]):
            del stored["next_obs"]
            stored[_LAST_NEXT_OBS] = after[-1:]
    return stored
