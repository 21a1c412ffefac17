"""Compile model files."""

from __future__ import annotations

from pathlib import Path

import mujoco

from telic.errors import BadEnvironment
from telic.sim.library import library


def load_model(xml_file: str) -> mujoco.MjModel:
    """Compile a model: one of Gymnasium's assets by name, or any MJCF file by path."""
    import gymnasium

    library()  # keeps the compiler's remarks on old models out of the terminal and of the folder
    path = Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets" / xml_file
    if not path.is_file():
        path = Path(xml_file).expanduser()
    if not path.is_file():
        raise BadEnvironment(
            f'There is no model file "{xml_file}".',
            hint="Give a path to an MJCF file, or the name of one of Gymnasium's models (ant.xml).",
        )
    try:
        read = mujoco.MjModel.from_xml_path
        if path.suffix == ".mjb":
            read = mujoco.MjModel.from_binary_path
        return read(str(path))
    except ValueError as error:
        raise BadEnvironment(f'MuJoCo cannot read "{xml_file}": {error}') from error
