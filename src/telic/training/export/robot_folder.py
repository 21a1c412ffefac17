"""The deployment bundle: a folder that runs a policy on its robot, with nothing of telic.

    deploy/policy.onnx deploy.json run.py scene.xml assets/ starts.npz LICENCE.txt README.md

The scene is the very model that was simulated in training; its meshes are copied, so that the
folder is whole. `telic.training.export.deployment` says what deploy.json holds.
"""

from __future__ import annotations

import re
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
import torch

from telic.core.config import Record
from telic.envs import make
from telic.envs.driven import RobotTask
from telic.envs.mujoco import MujocoEnv
from telic.errors import UsageError
from telic.report import document as doc
from telic.robots import robot_path
from telic.robots.scene import ASSETS, origin_of, write_licence, write_scene
from telic.robots.structure import DRIVEN
from telic.storage.files import write_text
from telic.storage.reading import read_text
from telic.storage.trajectories import Environment
from telic.training.export.deployment import (
    COMMANDS,
    Agreement,
    Deployment,
    ObservedBlock,
    as_json,
    describe,
)
from telic.training.export.files import export_checked
from telic.training.memory import memory_law
from telic.training.policy import Policy

FOLDER, ARCHIVE = "deploy", "deploy.zip"
_RUNNER = Path(__file__).with_name("run_robot.py")
_STARTS = 4
_UNLIMITED = 1000
RobotCheck = Callable[[Path], Agreement]
"""plays a deployment bundle elsewhere, and says how far that agrees with what was judged"""


class RobotBundle(NamedTuple):
    """What was made for a robot."""

    about: Deployment | None
    reason: str | None
    """why there is nothing to deploy"""
    agreement: Agreement | None
    origin: list[str]
    """where the robot's model comes from, and its licence"""

    @property
    def told(self) -> dict[str, Any]:
        """What is shown on the screen."""
        if self.about is None:
            return {"deployment": f"none: {self.reason}"}
        agrees = {} if self.agreement is None else {"sim-to-sim": self.agreement.words}
        return {"deployment": f"{FOLDER}/ and {ARCHIVE}", **agrees}

    @property
    def facts(self) -> dict[str, Any]:
        """What is kept in the bundle's list."""
        if self.agreement is None:
            return {"deployment": self.reason}
        return {"deployment": None, "agreement": self.agreement.model_dump(mode="json")}

    @property
    def section(self) -> doc.Section:
        """What the card says."""
        if self.about is None:
            why = doc.Text(f"Nothing to deploy. {self.reason}")
            return doc.Section("On the robot", (why, doc.Text(" ".join(self.origin))))
        blocks: list[doc.Block] = [
            doc.Text(
                (
                    doc.Link(f"{FOLDER}/", f"{FOLDER}/README.md"),
                    f" runs on {self.about.robot} without telic, {self.about.control_hz:g} times "
                    "a second: ",
                    doc.Mono(f"python {FOLDER}/run.py"),
                    " plays it in plain MuJoCo.",
                )
            ),
            doc.Text(" ".join(self.origin)),
        ]
        if self.agreement is None:
            blocks.append(doc.Text("Not verified: telic export --verify plays and judges it."))
        else:
            blocks += self.agreement.blocks
        return doc.Section("On the robot", tuple(blocks))


class RobotStarts(NamedTuple):
    """Where episodes start, and what is commanded in them."""

    qpos: np.ndarray  # (N, nq)
    qvel: np.ndarray  # (N, nv)
    command: np.ndarray  # (N, T, 3)

    def write(self, path: Path) -> None:
        """Write them as run.py reads them."""
        np.savez(path, **self._asdict())


def driven_model(env: str) -> Path | None:
    """Return the model of an environment that telic drives by position; None: it is another."""
    path = robot_path(env) or Path(env)
    if path.suffix != ".xml" or not path.is_file():
        return None
    return path if re.search(rf'<text\s+name="{DRIVEN}"', read_text(path)) else None


def nominal(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of an environment without what differs between episodes.

    A heading is followed by looking at where the robot faces; what is commanded at a moment is
    a plain number where there are none.
    """
    kept = {name: value for name, value in arguments.items() if not name.startswith("terrain")}
    own: dict[str, Any] = {**kept, "variation": "none", "terrain": "flat"}
    if own.get("commands") is not None:
        own["commands"] = {**own["commands"], "heading": 0.0}
    return own


def deploy(
    policy: Policy,
    reward: str | None,
    environment: Environment,
    keep: Callable[[Path, str], None],
    check: RobotCheck | None = None,
) -> RobotBundle | None:
    """Make the deployment bundle of a policy; None: it is of no robot that telic drives.

    Args:
        policy: what to deploy.
        reward: text of the reward it was trained with, if there is one.
        environment: where it was trained.
        keep: takes in a file under a name.
        check: verifies it before it is kept.
    """
    model_file = driven_model(environment[0])
    if model_file is None:
        if check is not None:
            raise UsageError(
                f"{Path(environment[0]).name} is no robot that telic drives by position, so there "
                "is nothing to deploy and to verify.",
                hint="Robots by name (telic robots) and described in a TOML file are.",
            )
        return None
    origin, environment = origin_of(model_file), (str(model_file.absolute()), environment[1])
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / FOLDER
        try:
            about = write_deployment(policy, reward, environment, folder)
        except UsageError as error:
            if check is not None:
                raise
            return RobotBundle(None, str(error), None, origin)
        agreement = None if check is None else check(folder)
        files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
        names = {path: path.relative_to(folder).as_posix() for path in files}
        for path, name in names.items():
            keep(path, f"{FOLDER}/{name}")
        archive = Path(place) / ARCHIVE
        _zip({f"{about.robot}/{name}": path for path, name in names.items()}, archive)
        keep(archive, ARCHIVE)
    return RobotBundle(about, None, agreement, origin)


def write_deployment(
    policy: Policy, reward: str | None, environment: Environment, folder: Path
) -> Deployment:
    """Write the bundle of a policy of a driven robot into a new folder.

    Raises:
        UsageError: the policy needs what no robot has; says what.
    """
    env_id, arguments = environment
    model_file = driven_model(env_id)
    assert model_file is not None
    (folder / ASSETS).mkdir(parents=True)
    _require_base(environment)
    law = memory_law(policy, reward)
    env = make(env_id, num_envs=1, **nominal(arguments))
    try:
        assert isinstance(env, MujocoEnv) and isinstance(env.task, RobotTask)
        about = describe(env, env.task, model_file.stem, law)
        about = about.model_copy(update={"variation": arguments.get("variation", "none")})
        write_scene(model_file, env.model, folder)
    finally:
        env.close()
    starts_of(environment, _STARTS, seed=0).write(folder / "starts.npz")
    export_checked(policy, folder / "policy.onnx")
    write_text(folder / "deploy.json", as_json(about))
    write_text(folder / "run.py", read_text(_RUNNER))
    write_licence(model_file, folder)
    write_text(folder / "README.md", _words(about))
    return about


def _require_base(environment: Environment) -> None:
    env = make(environment[0], num_envs=1, **environment[1])
    is_free = isinstance(env, MujocoEnv) and isinstance(env.task, RobotTask)
    env.close()
    if isinstance(env, MujocoEnv) and env.driver is not None:
        raise UsageError(
            "The policy gives tokens, and run.py has not the decoder that moves the robot by them.",
            hint="policy.onnx and the card say what the policy sees and does.",
        )
    if not is_free:
        raise UsageError(
            f"{Path(environment[0]).stem} has no base that moves freely, and run.py knows only "
            "robots that have one.",
            hint="policy.onnx and the card say what the policy sees and does.",
        )


def starts_of(environment: Environment, count: int, seed: int) -> RobotStarts:
    """Return where episodes of these seeds start, and what they command."""
    env_id, arguments = environment
    own: dict[str, Any] = {**nominal(arguments), "terminate_when_unhealthy": False}
    env = make(env_id, num_envs=count, seed=seed, **own)
    try:
        assert isinstance(env, MujocoEnv)
        env.reset()
        qpos, qvel = (env.sim.field(name).cpu().numpy().copy() for name in ("qpos", "qvel"))
        steps = env.max_episode_steps or _UNLIMITED
        command = np.zeros((count, steps, len(COMMANDS)))
        for step in range(steps if own.get("commands") is not None else 0):
            info = env.step(env.action_rest.expand(count, -1)).info
            told = [info[f"command_{name}"] for name in COMMANDS]
            command[:, step] = torch.stack(told, 1).numpy()
        return RobotStarts(qpos, qvel, command)
    finally:
        env.close()


# ------------------------------------------------------------------------------------- in words


def field_table() -> list[tuple[str, str]]:
    """Return every field of deploy.json with what it means and its unit."""
    return _fields(Deployment, "")


def _fields(record: type[Record], prefix: str) -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    for name, field in record.model_fields.items():
        inner = _record_in(field.annotation)
        rows.append((f"{prefix}{name}", field.description or ""))
        if inner is not None:
            rows += _fields(inner, f"{prefix}{name}{'[]' if inner is ObservedBlock else ''}.")
    return rows


def _record_in(annotation: Any) -> type[Record] | None:
    kinds = (annotation, *get_args(annotation))
    records = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Record)]
    return records[0] if records else None


def _words(about: Deployment) -> str:
    rows = "\n".join(f"| `{name}` | {words} |" for name, words in field_table())
    seen = "\n".join(
        f"| {block.first} | {len(block.columns)} | {block.name} | {block.unit} | {block.how} |"
        for block in about.observation
    )
    return f"""# {about.robot}: a policy to put on the robot

`python run.py` plays it in plain MuJoCo (needs mujoco, numpy, onnxruntime); `--view` opens a
window, `--command 0.5 0 0` commands it, and `happened.npz` says what happened.

On the robot: read `deploy.json`, set stiffness, damping and effort of each drive, and call
`Controller.act` of `run.py` {about.control_hz:g} times a second with what the sensors say. It
returns the target of each drive in the order of `joints.names`.

It was tried in simulation only. Begin with the robot off the ground and little effort.

## What the policy sees

| column | numbers | block | unit | how |
|---|---|---|---|---|
{seen}

{about.history} moment(s), the present one first.

## deploy.json

| field | what |
|---|---|
{rows}
"""


def _zip(files: dict[str, Path], archive: Path) -> None:
    """Write an archive of files by name; the same files always give the same bytes."""
    with zipfile.ZipFile(archive, "w") as into:
        for name, path in sorted(files.items()):
            into.writestr(zipfile.ZipInfo(name), path.read_bytes(), zipfile.ZIP_DEFLATED, 6)
