"""The work of `telic robots NAME`: build its model, draw it, describe it."""

from __future__ import annotations

from pathlib import Path

from telic.envs.robot_facts import robot_facts
from telic.errors import UsageError
from telic.rendering import draw_portrait
from telic.robots import OWN, robot_path
from telic.robots.build import build, named_record
from telic.robots.catalogue import cache_folder, licence_texts, named_robot, robot_names
from telic.robots.record import RobotRecord, as_toml, guessed
from telic.storage.files import write_text
from telic.storage.reading import read_text
from telic.verbs.robots import RobotPage, RobotText


def show(name: str, output: str | None) -> RobotPage:
    """Draw a robot in its initial pose, and collect what is known of it."""
    path = _simulated(name)
    picture = Path(output).expanduser() if output else path.with_suffix(".png")
    if picture.suffix != ".png":
        raise UsageError(f"{picture} does not end in .png.")
    draw_portrait(path, picture)
    robot = named_robot(name) if name in robot_names() else None
    known = robot_facts(path).model_dump()
    facts = {key: value for key, value in known.items() if value not in (None, (), {}, [])}
    return RobotPage(
        robot=name,
        picture=str(picture),
        simulated=str(path),
        facts={**facts, "kind": robot.kind} if robot else facts,
        licence=robot.licence if robot else None,
        licence_files=[str(file) for file in licence_texts(robot)] if robot else [],
    )


def describe(name: str) -> RobotText:
    """Return all that is known of a robot as TOML; guessed where its model does not say."""
    if name in robot_names():
        record = named_record(name)
    elif name.endswith(".toml"):
        record = RobotRecord.read(_model_file(name))
    else:
        model = _model_file(str(OWN.get(name, name)))
        record = RobotRecord.parse({"model": str(model.absolute())})
    record = guessed(Path(record.model), record.model_dump(exclude={"model"}))
    return RobotText(as_toml(record, robot_facts(_simulated(name)).model_dump()))


def _simulated(name: str) -> Path:
    """Return the model that is simulated for a name, a description, or a model as it is found."""
    if name in OWN:  # pictures and facts are kept beside a model, and not among the programs
        copy = cache_folder() / "robots" / "own" / OWN[name].name
        copy.parent.mkdir(parents=True, exist_ok=True)
        write_text(copy, read_text(OWN[name]))
        return copy
    if (path := robot_path(name)) is not None:
        return path
    model = _model_file(name)
    record = RobotRecord.parse({"model": str(model.absolute())})
    return build(record, cache_folder() / "robots" / "driven", model.stem)


def _model_file(name: str) -> Path:
    path = Path(name).expanduser()
    if not path.is_file():
        raise UsageError(
            f"{name} is neither a file nor the name of a robot.", hint="See: telic robots"
        )
    return path
