"""Robots by name: fetched once, compared with a hash, driven by position, and standing."""

import hashlib
import shutil
import zipfile
from pathlib import Path

import mujoco
import numpy as np
import pytest
import torch

from telic.envs import make
from telic.envs.access import env_access, located
from telic.errors import (
    BadEnvironment,
    BadFile,
    ConfigError,
    ResourceError,
    UnknownName,
    UsageError,
)
from telic.rendering.media import write_png
from telic.robots import _archive as archive
from telic.robots import catalogue
from telic.robots.build import built_robot, driven
from telic.robots.catalogue import NamedRobot, RobotNumbers, RobotPackage, fetch, is_fetched
from telic.robots.record import RobotRecord, _moving_joints, guessed
from telic.robots.scene import write_scene
from telic.sim.files import model_files
from telic.verbs.envs import robots
from tests.rendering.videos import pixels

ROBOTS = Path(catalogue.__file__).parents[1] / "bench" / "suites" / "robots"
TOY = """
<mujoco model="toy">
  <compiler meshdir="assets"/>
  <asset><mesh name="block" file="block.obj"/></asset>
  <worldbody>
    <body name="trunk" pos="0 0 1">
      <freejoint name="base"/>
      <geom type="box" size="0.2 0.1 0.05" mass="4"/>
      <geom type="mesh" mesh="block" contype="0" conaffinity="0" mass="0.1"/>
      {legs}
    </body>
  </worldbody>
</mujoco>
"""
LEG = """
<body name="{n}_thigh" pos="{x} {y} -0.05">
  <joint name="{n}_hip" axis="0 1 0" range="-60 60"/>
  <geom type="capsule" fromto="0 0 0 0 0 -0.15" size="0.02" mass="0.2"/>
  <body name="{n}_shin" pos="0 0 -0.15">
    <joint name="{n}_knee" axis="0 1 0" range="-120 120"/>
    <geom type="capsule" fromto="0 0 0 0 0 -0.15" size="0.02" mass="0.1"/>
  </body>
</body>
"""
BLOCK = "v 0 0 0\nv .1 0 0\nv 0 .1 0\nv 0 0 .1\nf 1 3 2\nf 1 2 4\nf 2 3 4\nf 1 4 3\n"
SAYS = {"pose": {".*_hip": 0.4, ".*_knee": -0.8}}


def toy_files():
    corners = {"fl": (0.15, 0.1), "fr": (0.15, -0.1), "hl": (-0.15, 0.1), "hr": (-0.15, -0.1)}
    legs = "".join(LEG.format(n=name, x=x, y=y) for name, (x, y) in corners.items())
    return {"toys/zoo/dog.xml": TOY.format(legs=legs), "toys/zoo/assets/block.obj": BLOCK}


@pytest.fixture
def indexed(tmp_path, monkeypatch):
    """A package with a robot, on an index of its own that pip looks at, and the robot's name."""
    wheel = tmp_path / "index" / "toys-1.0-py3-none-any.whl"
    wheel.parent.mkdir()
    info = "toys-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in {
            **toy_files(),
            "toys/other.txt": "not of the robot",
            f"{info}/METADATA": "Metadata-Version: 2.1\nName: toys\nVersion: 1.0\n",
            f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            f"{info}/RECORD": "",
        }.items():
            archive.writestr(name, text)
    monkeypatch.setenv("TELIC_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheel.parent))
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    package = RobotPackage("toys", "1.0", digest, wheel.name)
    path, numbers = "toys/zoo/dog.xml", RobotNumbers(5.3, 8, 8, 0.3)
    robot = NamedRobot("toy-dog", "A toy", "quadruped", package, path, "MIT", numbers, SAYS)
    monkeypatch.setattr(catalogue, "_table", lambda: {"toy-dog": robot})
    return robot


@pytest.fixture
def toy(indexed, tmp_path, monkeypatch):
    """The same without pip, which takes most of a second to start: its file is only copied."""

    def copied(package, place):
        return Path(shutil.copy(tmp_path / "index" / package.file, place))

    monkeypatch.setattr(archive, "download", copied)
    return indexed


def test_a_robot_is_fetched_once_and_only_its_own_files_are(indexed, monkeypatch):
    toy = indexed
    assert not is_fetched(toy) and robots().data[0].model is None
    model = fetch(toy)
    assert model.is_file() and (model.parent / "assets" / "block.obj").is_file()
    assert not list(catalogue.cache_folder().rglob("other.txt"))
    monkeypatch.setattr(archive, "download", None)  # nobody asks again
    assert fetch(toy) == model
    assert robots().data[0].model == str(model)


@pytest.mark.parametrize("harm", ["changed", "added", "taken away"])
def test_modified_files_are_fetched_again(toy, monkeypatch, harm):
    model = fetch(toy)
    block, extra = model.parent / "assets" / "block.obj", model.parent / "assets" / "more.obj"
    good = block.read_bytes()
    recorded = toy._replace(content=catalogue._content_of(toy, catalogue._home(toy)))
    {
        "changed": lambda: block.write_bytes(good + b"#"),
        "added": lambda: extra.write_bytes(b""),
        "taken away": block.unlink,
    }[harm]()
    monkeypatch.setattr(catalogue, "_known", set())  # another process
    assert fetch(recorded) == model and block.read_bytes() == good and not extra.exists()
    with pytest.raises(BadFile, match="do not match the recorded hash"):
        fetch(recorded._replace(name="another", content="0" * 16))
    assert block.read_bytes() == good


def test_a_file_that_is_not_the_one_on_record_is_not_used(indexed):
    toy = indexed
    changed = toy._replace(package=toy.package._replace(sha256="0" * 64))
    with pytest.raises(BadFile, match="its SHA-256 is"):
        fetch(changed)
    assert not is_fetched(changed)
    missing = toy._replace(package=toy.package._replace(version="2.0", sha256="1" * 64))
    with pytest.raises(ResourceError, match=r"toys==2\.0 could not be downloaded"):
        fetch(missing)
    assert not list(catalogue.cache_folder().rglob(".fetching-*"))


def test_a_name_is_an_environment_whose_files_a_confined_process_may_read(toy):
    path = located("toy-dog")
    assert path == str(built_robot("toy-dog")) and Path(path).name == "toy-dog.xml"
    readable = {each.name for each in env_access(path, {}).readable}
    assert {"toy-dog.xml", "block.obj"} <= readable
    env = make("toy-dog", num_envs=2)
    env.reset()
    env.step(torch.zeros(2, 8))
    assert env.spec.act_dim == 8 and len(env.spec.feet) == 4
    env.close()
    with pytest.raises(UnknownName):
        catalogue.named_robot("toy-cat")


def stands(text, seconds=2.0):
    """Hold the pose that a robot starts in; return how far its base sank, and which way is up."""
    model = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    began = float(data.qpos[2])
    data.ctrl[:] = data.qpos[model.jnt_qposadr[model.actuator_trnid[:, 0]]]
    for _ in range(int(seconds / model.opt.timestep)):
        mujoco.mj_step(model, data)
    turned = np.zeros(9)
    mujoco.mju_quat2Mat(turned, data.qpos[3:7])
    return float(data.qpos[2]) / began, turned[8]


@pytest.mark.parametrize("name", ["dog", "beetle"])
def test_undescribed_robot_gets_actuators_that_hold_its_pose(name):
    record = guessed(ROBOTS / f"{name}.xml")
    joints = _moving_joints(record.spec().compile())
    assert sum(len(drive.joints.split("|")) for drive in record.drives) == len(joints)
    height, up = stands(driven(record), seconds=1.0)
    assert 0.75 < height < 1.1 and up > 0.9


def test_a_described_robot_is_the_same_robot(toy, tmp_path):
    record = guessed(fetch(toy), SAYS)
    file = tmp_path / "mine.toml"
    file.write_text(robots("toy-dog", describe=True).toml)
    read = RobotRecord.read(file)
    assert read.posed(read.source())["fl_knee"] == -0.8
    gains = [drive.gains for drive in record.drives]
    assert [drive.gains for drive in read.drives] == [pytest.approx(g, rel=1e-3) for g in gains]
    assert Path(located(str(file))).name == "mine.xml"
    assert robots(str(file), describe=True).toml == file.read_text()
    height, up = stands(driven(read))
    assert 0.8 < height < 1.1 and up > 0.95


@pytest.mark.parametrize("lie", ['gravity="0 0 -0.1"', "<!-- -->", "\udcff"])
def test_edited_built_model_is_rebuilt(toy, lie):
    path = Path(located("toy-dog"))
    honest = path.read_bytes()
    option = f"<option {lie} " if lie.startswith("gravity") else f"{lie}<option "
    path.write_bytes(
        honest.decode().replace("<option ", option, 1).encode(errors="surrogateescape")
    )
    assert path.read_bytes() != honest
    assert located("toy-dog") == str(path) and path.read_bytes() == honest
    assert make("toy-dog", num_envs=1).model.opt.gravity[2] == -9.81


@pytest.mark.parametrize(
    ("text", "error", "printed"),
    [
        (
            "model = 'dog.xml'\n[pose]\nankle = 1\n",
            BadFile,
            '"ankle" matches no joint of dog.xml [(]pose[)]',
        ),
        (
            "model = 'dog.xml'\n[[drives]]\njoints='x'\neffort=1\n",
            BadFile,
            "does not match a joint",
        ),
        (
            "model = 'dog.xml'\n" + "[[drives]]\njoints='.*'\neffort=1\n" * 2,
            BadFile,
            "Two drives",
        ),
        ("model = 'dog.xml'\n[[drives]]\njoints='('\neffort=1\n", ConfigError, "not a pattern"),
        ("model = 'dog.xml'\n[[drives]]\njoints='(a|a?)+'\neffort=1\n", ConfigError, "repeats a"),
        ("model = 'dog.xml'\n[[drives]]\njoints='a'\neffort=nan\n", ConfigError, "effort"),
        ("model = 'dog.xml'\nspeed = 3\n", ConfigError, "speed"),
        ("model = 'cat.xml'\n", BadFile, "cat.xml"),
        ("model = 'assets'\n", BadFile, "assets"),
        ("model = 'assets/block.obj'\n", BadEnvironment, "cannot read"),
        ("model = 'assets/block.usda'\n", BadEnvironment, "USD is not supported"),
        ("model = [", BadFile, "not TOML"),
    ],
)
def test_a_bad_description_ends_in_a_sentence(tmp_path, text, error, printed):
    for name, content in toy_files().items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    (tmp_path / "toys" / "zoo" / "assets" / "block.usda").write_text("#usda 1.0\n")
    file = tmp_path / "toys" / "zoo" / "bad.toml"
    file.write_text(text)
    with pytest.raises(error, match=printed):
        built_robot(str(file))


def test_every_robot_of_the_table_says_where_it_comes_from():
    for name in catalogue.robot_names():
        robot = catalogue.named_robot(name)
        assert len(robot.package.sha256) == 64 and robot.license and robot.title
        RobotRecord.parse({"model": robot.model, **robot.says})


SHARED = """<mujoco><compiler meshdir="." texturedir="."/><asset>{}</asset><worldbody><body>
<geom size="0.1"/></body></worldbody></mujoco>"""


def test_a_scene_that_is_shared_holds_no_file_that_only_its_model_names(tmp_path):
    secret = tmp_path / "home" / ".config" / "signing.key"
    secret.parent.mkdir(parents=True)
    secret.write_text("secret")
    picture = tmp_path / "home" / "passport.png"
    write_png(picture, np.zeros((4, 4, 3), np.uint8))
    place, model = tmp_path / "home" / "robot", tmp_path / "home" / "robot" / "robot.xml"
    (tmp_path / "out" / "assets").mkdir(parents=True)
    place.mkdir()
    generated = '<texture type="2d" builtin="flat" width="8" height="8" name="t" file="{}"/>'
    model.write_text(SHARED.format(generated.format("../.config/signing.key")))
    assert model_files(model) == [model]
    write_scene(model, mujoco.MjModel.from_xml_path(str(model)), tmp_path / "out")
    assert [each.name for each in (tmp_path / "out").rglob("*") if each.is_file()] == ["scene.xml"]
    write_png(place / "own.png", np.zeros((8, 8, 3), np.uint8))
    faces = f'<texture {{}} name="t" file="own.png" fileup="{secret}" fileleft="{picture}"/>'
    for kind in ('type="cube"', 'type="2d"', ""):
        model.write_text(SHARED.format(faces.format(kind)).replace('"."', '"/"', 2))
        model.write_text(model.read_text().replace("own.png", str(place / "own.png")))
        write_scene(model, mujoco.MjModel.from_xml_path(str(model)), tmp_path / "out")
        assert [each.name for each in (tmp_path / "out/assets").iterdir()] == ["own.png"], kind
    (tmp_path / "out/assets/own.png").unlink()
    (place / "link.png").symlink_to(picture)
    for name in ("../passport.png", "link.png"):
        model.write_text(SHARED.format(f'<texture type="2d" name="t" file="{name}"/>'))
        with pytest.raises(BadFile, match="is outside"):
            write_scene(model, mujoco.MjModel.from_xml_path(str(model)), tmp_path / "out")
    # The folder of the assets is named by the model, too.
    elsewhere = SHARED.format('<texture type="2d" name="t" file="passport.png"/>')
    for folder in ("..", str(picture.parent)):
        model.write_text(elsewhere.replace('texturedir="."', f'texturedir="{folder}"'))
        with pytest.raises(BadFile, match="is outside"):
            write_scene(model, mujoco.MjModel.from_xml_path(str(model)), tmp_path / "out")
    assert not list((tmp_path / "out" / "assets").iterdir())
    # A package has its meshes next to the folder of its models.
    (place / "mjcf").mkdir()
    (place / "link.png").unlink()
    model = model.rename(place / "mjcf" / "robot.xml")
    model.write_text(elsewhere.replace('"."', '".."').replace("passport", "own"))
    write_scene(model, mujoco.MjModel.from_xml_path(str(model)), tmp_path / "out")


def test_a_built_robot_shares_the_files_next_to_its_own_model(tmp_path, monkeypatch):
    monkeypatch.setenv("TELIC_CACHE_DIR", str(tmp_path / "cache"))
    for name, content in toy_files().items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    record, out = tmp_path / "toys" / "dog.toml", tmp_path / "out"
    (out / "assets").mkdir(parents=True)
    record.write_text('model = "zoo/dog.xml"\n')
    model = built_robot(str(record))
    assert model.is_relative_to(tmp_path / "cache")
    write_scene(model, mujoco.MjModel.from_xml_path(str(model)), out)
    assert (out / "assets" / "block.obj").read_text() == BLOCK
    block = tmp_path / "toys" / "zoo" / "assets" / "block.obj"
    dog = block.parents[1] / "dog.xml"
    dog.write_text(dog.read_text().replace('"assets"', '"../other"'))
    block.parent.rename(tmp_path / "toys" / "other")
    model = built_robot(str(record))
    with pytest.raises(BadFile, match="is outside"):
        write_scene(model, mujoco.MjModel.from_xml_path(str(model)), out)


@pytest.mark.slow
def test_robot_is_drawn_and_described(toy, tmp_path):
    page = robots("toy-dog", output=str(tmp_path / "dog.png"))
    assert pixels(Path(page["picture"])).std() > 5  # not one color
    assert page["facts"]["kind"] == "quadruped" and page["license"] == "MIT"
    with pytest.raises(UsageError, match="must end in"):
        robots("toy-dog", output=str(tmp_path / "dog.gif"))
