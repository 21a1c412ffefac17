"""One way to launch, held by what the code imports."""

import pytest

from tests.plugin.checks import second_paths


def test_there_is_one_way_to_launch():
    assert second_paths() == []


SECOND = {
    "studies/fast.py": "import subprocess",
    "studies/evidence/run.py": "def f():\n    from subprocess import run",
    "studies/sly.py": "import os\nos.execv('a', [])",
    "studies/slier.py": "from os import posix_spawn",
    "plugin/go.py": "import multiprocessing",
    "mcp/go.py": "from telic.studies.launch.launch import launch",
    "cli/study_fast.py": "from telic.studies.launch.launch import launch",
    "cli/study_whole.py": "from telic.studies.launch import launch",
    "studies/next.py": "import telic.studies.launch.launch",
}


@pytest.mark.parametrize("name", SECOND)
def test_a_second_way_is_found(name, tmp_path):
    path = tmp_path / name
    path.parent.mkdir(parents=True)
    path.write_text(SECOND[name])
    found = second_paths(tmp_path)
    assert len(found) == 1 and found[0].startswith(name)


def test_looking_at_the_gates_is_free(tmp_path):
    path = tmp_path / "mcp" / "checking.py"
    path.parent.mkdir()
    path.write_text("from telic.studies.launch.launch import Look, look")
    assert second_paths(tmp_path) == []


@pytest.mark.parametrize(
    "name", ["studies/launch/local.py", "studies/git_read.py", "training/x.py"]
)
def test_the_gate_itself_may_start_processes(name, tmp_path):
    path = tmp_path / name
    path.parent.mkdir(parents=True)
    path.write_text("import subprocess")
    assert second_paths(tmp_path) == []
