"""Every launcher renders what it starts; local, tmux, submitit and Ray are started for real."""

import os
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pydantic import ValidationError

from telic.core import plugins
from telic.errors import MissingExtra, UnknownName
from telic.jobs.slurm import slurm_script
from telic.jobs.spec import JOB_FILE, JobSpec
from telic.studies.documents.adapter import LauncherSpec
from telic.studies.errors import EnvironmentBlocked, GateRefused, InvalidDocument
from telic.studies.launch import machine
from telic.studies.launch.launchers import ON_THIS_MACHINE, launcher_of, sbatch_problems
from telic.studies.launch.order import LaunchOrder, mint

KINDS = ["local", "tmux", "torchrun", "accelerate", "slurm", "ray", "custom"]
OPTIONS = {
    "custom": {
        "start": ["submit", "{nonce}", "{command}"],
        "status": ["state", "{nonce}"],
        "stop": ["cancel", "{nonce}"],
    },
}
WORK = "import os, time; print(os.environ['A_VARIABLE']); time.sleep(float(os.environ['SLEEP']))"


def order(tmp_path, kind="local", argv=(sys.executable, "-c", WORK), **changes):
    changed = {"A_VARIABLE": "it's here", "SLEEP": "0"}
    made = LaunchOrder(
        nonce="0123456789abcdef",
        argv=tuple(argv),
        argv_hash="h",
        cwd=tmp_path,
        folder=tmp_path,
        variables={**os.environ, **changed},
        changed=changed,
        timeout_s=3600.0,
        gpus=(),
        options=OPTIONS.get(kind, {}),
        labels={"study": "toy.first", "candidate": "c-0001-x"},
        grace_s=1.0,
    )
    return made._replace(**changes)


def permit(order):
    return mint(order.nonce, order.argv_hash)


def ended(folder, seconds=15.0):
    deadline = time.monotonic() + seconds
    while (found := machine.read_exit(folder)) is None:
        assert time.monotonic() < deadline, "it did not end"
        time.sleep(0.01)
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_order_is_rendered_the_same_and_holds_its_nonce(tmp_path, kind):
    made = order(tmp_path, kind)
    first = launcher_of(kind, made.options).render(made)
    again = launcher_of(kind, made.options).render(made)
    assert first == again and first.hash == again.hash and first.problems == ()
    assert made.nonce in f"{first.argv} {first.document}"
    other = launcher_of(kind, made.options).render(made._replace(argv=("python", "other.py")))
    assert other.hash != first.hash


@pytest.mark.parametrize("kind", KINDS)
def test_no_launcher_starts_without_a_fresh_permit(tmp_path, kind):
    made = order(tmp_path, kind)
    used = permit(made)
    used.spend(made.nonce, made.argv_hash)
    with pytest.raises(GateRefused, match="counts once"):
        launcher_of(kind, made.options).start(used, made)
    with pytest.raises(GateRefused, match="another command"):
        launcher_of(kind, made.options).start(mint("other", "h"), made)
    assert not list(tmp_path.iterdir())


def test_local_runs_leave_the_caller_at_once(tmp_path):
    made = order(tmp_path)
    launcher = launcher_of("local", {})
    assert launcher.report(made.nonce, tmp_path).state == "unknown"
    launcher.start(permit(made), made)
    assert ended(tmp_path)["code"] == 0
    assert (tmp_path / "stdout.log").read_text() == "it's here\n"
    assert launcher.report(made.nonce, tmp_path).state in ("running", "ended")


def test_local_runs_can_be_stopped(tmp_path):
    made = order(tmp_path)
    made.variables["SLEEP"] = "30"
    launcher = launcher_of("local", {})
    launcher.start(permit(made), made)
    while machine.read_heartbeat(tmp_path) is None:
        time.sleep(0.01)
    assert launcher.report(made.nonce, tmp_path).state == "running"
    launcher.stop(made.nonce, tmp_path)
    assert ended(tmp_path)["ended_by"] == "signal"


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
def test_tmux_runs_in_a_session_named_after_the_nonce(tmp_path):
    made = order(tmp_path, "tmux")
    made.variables["SLEEP"] = "30"
    launcher = launcher_of("tmux", {})
    assert launcher.report(made.nonce, tmp_path).state == "unknown"
    started = launcher.start(permit(made), made)
    try:
        name = f"telic-{made.nonce}"
        assert started.attach == f"tmux -L {name} attach"
        has = subprocess.run(["tmux", "-L", name, "has-session", "-t", name], check=False)
        assert has.returncode == 0
        assert launcher.report(made.nonce, tmp_path).state == "running"
        with pytest.raises(EnvironmentBlocked, match="duplicate session"):
            launcher.start(permit(made), made)
        while machine.read_heartbeat(tmp_path) is None:
            time.sleep(0.01)
        assert launcher.report(made.nonce, tmp_path).state == "running"
    finally:
        launcher.stop(made.nonce, tmp_path)
    assert ended(tmp_path)["ended_by"] == "signal"
    # the environment is ours, not that of a tmux server that runs already
    assert (tmp_path / "stdout.log").read_text() in ("it's here\n", "")


def test_torchrun_and_accelerate_stand_between_supervisor_and_program(tmp_path):
    spread = order(tmp_path, argv=("python", "train.py", "--x"), gpus=(0, 1))
    words = launcher_of("torchrun", {}).render(spread).argv
    tail = words[words.index("--") + 1 :]
    assert tail == ("torchrun", "--standalone", "--nproc-per-node=2", "train.py", "--x")
    words = launcher_of("accelerate", {}).render(spread._replace(argv=("train", "--x"))).argv
    tail = words[words.index("--") + 1 :]
    assert tail == ("accelerate", "launch", "--num_processes=2", "--no_python", "train", "--x")


# ---------------------------------------------------------------------------- slurm


def test_the_script_for_slurm_asks_for_what_the_run_needs(tmp_path):
    options = {"sbatch": {"partition": "gpu", "mem": "16G", "exclusive": True}}
    made = order(tmp_path, "slurm", gpus=(0, 1), options=options)
    rendered = launcher_of("slurm", options).render(made)
    spec = JobSpec.model_validate_json(rendered.document)
    lines = slurm_script(spec, tmp_path / JOB_FILE).splitlines()
    assert lines[0] == "#!/bin/bash" and rendered.problems == ()
    for directive in ("partition=gpu", "mem=16G", "exclusive", "gres=gpu:2", "no-requeue"):
        assert f"#SBATCH --{directive}" in lines
    # 3600 s of the run, 1 s of grace, and 90 s before the end Slurm warns
    assert f"#SBATCH --job-name=telic-{made.nonce}" in lines and "#SBATCH --time=63" in lines
    assert lines[-1].startswith("srun ") and lines[-1].endswith(f"{tmp_path / 'submitit'}")


def test_submitit_runs_a_job_for_real_and_its_end_is_recorded(tmp_path):
    made = order(tmp_path, "slurm", options={"cluster": "local"})
    launcher = launcher_of("slurm", made.options)
    assert launcher.report(made.nonce, tmp_path).state == "unknown"
    assert launcher.start(permit(made), made).job_id.isdigit()
    assert ended(tmp_path)["code"] == 0
    assert (tmp_path / "stdout.log").read_text() == "it's here\n"
    with pytest.raises(EnvironmentBlocked, match="exists"):
        launcher.start(permit(made), made)


def test_a_job_without_the_package_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "submitit", None)
    with pytest.raises(MissingExtra, match="telic\\[slurm\\]"):
        launcher_of("slurm", {}).render(order(tmp_path, "slurm"))


@pytest.mark.parametrize(
    ("sbatch", "problem"),
    [
        ({"array": "0-9"}, "--array is not a directive"),
        ({"dependency": "afterok:1"}, "--dependency is not a directive"),
        ({"time": "soon"}, "--time=soon is not a valid value"),
        ({"nodes": "0"}, "--nodes=0 is not a valid value"),
        ({"mem": "16GB; rm"}, "--mem='16GB; rm' is not a valid value"),
        ({"exclusive": "yes"}, "--exclusive takes no value"),
        ({"requeue": True}, "contradict"),
    ],
)
def test_directives_are_held_to_the_table(tmp_path, sbatch, problem):
    made = order(tmp_path, "slurm", options={"sbatch": sbatch})
    assert any(problem in each for each in launcher_of("slurm", {}).render(made).problems)


def test_a_script_without_name_or_with_one_twice_is_refused():
    assert "--job-name is missing" in sbatch_problems("#!/bin/bash\n#SBATCH --output=x\n")
    twice = "#SBATCH --output=x\n#SBATCH --output=y\n#SBATCH --job-name=telic-1\n"
    assert sbatch_problems(twice) == ["--output is given twice"]


def test_resume_safe_jobs_may_be_requeued(tmp_path):
    made = order(tmp_path, "slurm", options={"resume_safe": True})
    spec = JobSpec.model_validate_json(launcher_of("slurm", {}).render(made).document)
    assert "#SBATCH --requeue" in slurm_script(spec, tmp_path / JOB_FILE).splitlines()


def fake_program(folder: Path, name: str, body: str) -> None:
    path = folder / name
    path.write_text(f"#!{sys.executable}\nimport os, sys\n{body}\n")
    path.chmod(0o755)


@pytest.fixture
def fake_slurm(tmp_path, monkeypatch):
    """A scheduler made of files: sbatch writes the job's name, squeue reads it."""
    programs = tmp_path / "programs"
    programs.mkdir()
    jobs = tmp_path / "jobs.txt"
    fake_program(
        programs,
        "sbatch",
        (
            "text = open(sys.argv[-1]).read()\n"
            "name = text.split('--job-name=')[1].split()[0]\n"
            f"open({str(jobs)!r}, 'a').write(name + chr(10)); print('Submitted batch job 4711')"
        ),
    )
    fake_program(
        programs,
        "squeue",
        (
            "name = [w for w in sys.argv if w.startswith('--name=')][0][7:]\n"
            f"known = open({str(jobs)!r}).read() if os.path.exists({str(jobs)!r}) else ''\n"
            "if name in known: print('4711 PENDING')"
        ),
    )
    fake_program(programs, "sacct", "pass")
    fake_program(programs, "srun", "pass")
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    return jobs


def test_a_job_is_submitted_once_and_found_by_its_name(tmp_path, fake_slurm):
    folder = tmp_path / "run"
    folder.mkdir()
    made = order(folder, "slurm")
    launcher = launcher_of("slurm", {})
    assert launcher.report(made.nonce, folder).state == "unknown"
    assert launcher.start(permit(made), made).job_id == "4711"
    assert launcher.report(made.nonce, folder) == ("waiting", "job 4711 is PENDING")
    with pytest.raises(EnvironmentBlocked, match="exists"):
        launcher.start(permit(made), made)
    assert fake_slurm.read_text().splitlines() == [made.job_name]


def test_a_missing_scheduler_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentBlocked, match="squeue is not installed") as caught:
        launcher_of("slurm", {}).report("n", tmp_path)
    assert caught.value.exit_code == 8 and "another launcher" in caught.value.hint


# ---------------------------------------------------------------------------- custom and ray


def test_a_custom_launcher_is_three_declared_commands(tmp_path):
    state = tmp_path / "state"
    options = {
        "start": [
            "bash",
            "-c",
            f'echo "$1" > {state}; shift; "$@" >/dev/null; echo job-1',
            "x",
            "{nonce}",
            "{command}",
        ],
        "status": ["bash", "-c", f"grep -q {{nonce}} {state} && echo ended || echo unknown"],
        "stop": ["bash", "-c", f"echo {{nonce}} stopped >> {state}"],
    }
    made = order(tmp_path, "custom", options=options)
    launcher = launcher_of("custom", options)
    assert launcher.start(permit(made), made).job_id == "job-1"
    assert ended(tmp_path)["code"] == 0
    assert launcher.report(made.nonce, tmp_path).state == "ended"
    launcher.stop(made.nonce, tmp_path)
    assert "stopped" in state.read_text()
    with pytest.raises(InvalidDocument, match='no "status" command'):
        launcher_of("custom", {}).report(made.nonce, tmp_path)


def test_ray_without_the_package_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.setitem(sys.modules, "ray.job_submission", None)
    with pytest.raises(MissingExtra, match="telic\\[ray\\]"):
        launcher_of("ray", {}).report("n", tmp_path)


def test_a_ray_entrypoint_arrives_word_by_word(tmp_path):
    made = order(tmp_path, "ray", argv=("python", "a b", "$HOME", "it's"))
    rendered = launcher_of("ray", {}).render(made)
    assert shlex.split(rendered.argv[-1])[1:4] == ["-m", "telic.jobs.worker", "run"]
    spec = JobSpec.model_validate_json(rendered.document)
    assert spec.argv[-4:] == ("python", "a b", "$HOME", "it's") and spec.env == made.changed


@pytest.mark.long
def test_ray_runs_a_job_once(tmp_path):
    ray = pytest.importorskip("ray", reason="ray is not installed")
    before = dict(os.environ)  # Ray leaves variables of its own behind
    # Jobs are submitted through the dashboard's server, so it cannot be left out.
    context = ray.init(
        include_dashboard=True, num_cpus=1, log_to_driver=False, object_store_memory=80 * 2**20
    )
    try:
        address = f"http://{context.dashboard_url}"
        launcher = launcher_of("ray", {"address": address})
        made = order(tmp_path, "ray")
        assert launcher.report(made.nonce, tmp_path).state == "unknown"
        launcher.start(permit(made), made)
        assert ended(tmp_path, 90)["code"] == 0
        assert (tmp_path / "stdout.log").read_text() == "it's here\n"
        with pytest.raises(EnvironmentBlocked, match="did not take job"):
            launcher.start(permit(made), made)
    finally:
        ray.shutdown()
        os.environ.clear()
        os.environ.update(before)


def test_every_kind_has_a_launcher():
    for kind in KINDS:
        assert launcher_of(kind, OPTIONS.get(kind, {}))
    assert set(KINDS) > ON_THIS_MACHINE


def test_a_package_may_bring_a_launcher_and_an_unknown_kind_is_explained(tmp_path, monkeypatch):
    made = order(tmp_path)
    with pytest.raises(UnknownName, match="polite"):
        launcher_of("polite", {})
    with pytest.raises(ValidationError, match="there is no launcher polite; there are local, tmux"):
        LauncherSpec(kind="polite")
    home = tmp_path / "home"
    home.mkdir()
    folder = home / "courtesy-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: courtesy\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text("[telic.launchers]\npolite = courtesy:Polite\n")
    source = Path(__file__).parents[3] / "examples/third_party_package/src/telic_bounce"
    (home / "courtesy.py").write_text((source / "launcher.py").read_text())
    monkeypatch.syspath_prepend(str(home))
    plugins._entry_points.cache_clear()
    try:
        assert LauncherSpec(kind="polite").kind == "polite"
        words = launcher_of("polite", {"niceness": 5}).render(made).argv
        assert words[words.index("--") + 1 :][:3] == ("nice", "-n", "5")
    finally:
        plugins._entry_points.cache_clear()
        sys.modules.pop("courtesy", None)
