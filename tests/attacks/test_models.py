"""A model is data: whatever it asks of the compiler, a command ends in a sentence."""

import os
import zipfile

import pytest

from telic.envs.factory import make
from telic.envs.tokens import read_decoder
from telic.errors import BadEnvironment, BadFile, TelicError
from telic.motions.formats import read_motions
from telic.sandbox.limits import GIBIBYTE, Limits
from telic.sim import files
from telic.storage import keys
from telic.storage.trajectories import read_trajectory
from telic.training.policy import load_policy

BODY = (
    '<body pos="0 0 1"><freejoint/><geom size=".1"/>'
    '<body><joint name="j"/><geom size=".05" pos="0 0 .2"/></body></body>'
)
MESH = '<asset><mesh name="m" file="{0}"/></asset>'
HOSTILE = {
    "bomb": (
        "",
        '<replicate count="300" offset=".1 0 0">' * 4 + "<geom size='1'/>" + "</replicate>" * 4,
    ),
    "texture": (
        '<asset><texture name="t" type="2d" builtin="flat" width="90000" height="90000"/></asset>',
        "",
    ),
    "pipe": (MESH.format("pipe.stl"), '<geom type="mesh" mesh="m"/>'),
    "device": (MESH.format("/dev/zero"), '<geom type="mesh" mesh="m"/>'),
    "height field": (
        '<asset><hfield name="h" nrow="60000" ncol="60000" size="1 1 1 1"/></asset>',
        "",
    ),
    "fatal contact": ("", '<body pos="1e300 0 0"><geom size="1e300"/></body>'),
    "included pipe": ('<include file="pipe.xml"/>', ""),
}


def model(folder, asset="", more=""):
    path = folder / "robot.xml"
    path.write_text(
        f"<mujoco>{asset}<worldbody>{BODY}{more}</worldbody>"
        '<actuator><motor joint="j"/></actuator></mujoco>'
    )
    return path


def read_one_motion(path):
    next(read_motions(path))


@pytest.fixture
def checking(tmp_path, monkeypatch):
    """A user of whose models nothing is known, with little patience."""
    monkeypatch.setenv("TELIC_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(keys, "_granted", set())
    monkeypatch.setattr(files, "_LIMITS", Limits(memory_bytes=2 * GIBIBYTE, wall_s=8.0))


@pytest.fixture
def no_worker(monkeypatch):
    def refuse(*given, **options):
        raise AssertionError("a process was started")

    monkeypatch.setattr(files, "run_worker", refuse)


@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.parametrize("toml", [False, True], ids=["xml", "toml"])
def test_a_model_without_measure_ends_in_a_sentence(tmp_path, checking, kind, toml):
    for name in ("pipe.stl", "pipe.xml"):
        os.mkfifo(tmp_path / name)
    path = model(tmp_path, *HOSTILE[kind])
    if toml:
        path = tmp_path / "mine.toml"
        path.write_text('model = "robot.xml"\n')
    with pytest.raises((BadEnvironment, BadFile)) as caught:
        make(path, num_envs=1)
    assert caught.value.message.count("\n") <= 1


@pytest.mark.parametrize("read", [load_policy, read_decoder, read_trajectory, read_one_motion])
def test_an_archive_that_unpacks_to_too_much_is_refused(tmp_path, read):
    path = tmp_path / "policy_1.pt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("weight.npy", b"")
        archive.infolist()[0].file_size = 3 << 30  # what the directory says
    with pytest.raises(TelicError) as caught:
        read(path)
    assert "too large" in str(caught.value.__cause__ or caught.value)


def test_what_compiled_once_is_known_until_a_file_of_it_changes(tmp_path, checking, monkeypatch):
    path, started = model(tmp_path), []
    real = files.run_worker
    monkeypatch.setattr(files, "run_worker", lambda *a, **k: (started.append(1), real(*a, **k))[1])
    for _ in range(2):
        make(path, num_envs=1).close()
    assert len(started) == 1
    path.write_text(path.read_text().replace("0 0 .2", "0 0 .3"))
    make(path, num_envs=1).close()
    assert len(started) == 2


@pytest.mark.parametrize("name", ["HalfCheetah-v5", "planar-biped"])
def test_a_known_robot_needs_no_trial(checking, no_worker, name):
    make(name, num_envs=1).close()
