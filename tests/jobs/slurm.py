"""Slurm for tests: programs that act like it, or a real cluster of two nodes on loopback."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time

import pytest

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch")

FAKE = r"""
import os, pathlib, subprocess, sys
home, name = pathlib.Path(__file__).parent / "queue", pathlib.Path(sys.argv[0]).name
home.mkdir(exist_ok=True)
lost = home.with_name("lost")
options = dict(word[2:].partition("=")[::2] for word in sys.argv[1:] if word.startswith("--"))

def state(job):
    if (job / "cancelled").exists():
        return "CANCELLED"
    if lost.exists():
        return "NODE_FAIL"
    status = pathlib.Path("/proc") / (job / "pid").read_text() / "stat"
    is_live = status.exists() and status.read_text().rsplit(")", 1)[1].split()[0] != "Z"
    return "RUNNING" if is_live else "COMPLETED"

if name == "sbatch":
    number = str(1 + len(list(home.iterdir())))
    job = home / number
    job.mkdir()
    (job / "words").write_text("\n".join(sys.argv[1:]))
    log, env = open(options["output"], "ab"), {**os.environ, "SLURM_JOB_ID": number}
    words = {"start_new_session": True, "stdout": log, "stderr": log, "env": env}
    command = "true" if lost.exists() else options["wrap"]
    child = subprocess.Popen(["sh", "-c", command], **words)
    (job / "pid").write_text(str(child.pid))
    print(number)
elif name == "squeue":
    for job in home.iterdir():
        called = next(x for x in (job / "words").read_text().split("\n") if "--job-name" in x)
        print(f"{called.partition('=')[2]}|{job.name}|{state(job)}|None")
elif name == "scancel":
    (home / sys.argv[1] / "cancelled").touch()
    os.kill(int((home / sys.argv[1] / "pid").read_text()), 15)
"""


def pretend(home):
    """Put programs into a folder that act like Slurm, with processes of this machine."""
    home.mkdir(exist_ok=True)
    for name in ("sbatch", "squeue", "scancel"):
        (home / name).write_text(f"#!{sys.executable} -SE{FAKE}")
        (home / name).chmod(0o755)
    return home


CONFIG = """
ClusterName=telic
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={home}/munge.socket
StateSaveLocation={home}/state
SlurmdSpoolDir={home}/%n
SlurmctldPidFile={home}/controller.pid
SlurmdPidFile={home}/%n.pid
SlurmctldLogFile={home}/controller.log
SlurmdLogFile={home}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
MailProg=/bin/true
SelectType=select/cons_tres
SlurmdParameters=config_overrides
NodeName=n1 NodeAddr=127.0.0.1 NodeHostname={host} Port={ports[1]} CPUs=1
NodeName=n2 NodeAddr=127.0.0.1 NodeHostname={host} Port={ports[2]} CPUs=1
PartitionName=all Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP
"""


def free_ports(count):
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """A controller and two nodes without accounting. Sets SLURM_CONF."""
    path = os.pathsep.join([os.environ["PATH"], "/usr/sbin"])
    if os.getuid() != 0 or not all(shutil.which(each, path=path) for each in PROGRAMS):
        pytest.skip("slurm-wlm and munge are not installed, or this is not root")
    home, host = tmp_path_factory.mktemp("slurm"), socket.gethostname()
    (home / "state").mkdir()
    (home / "munge.key").write_bytes(os.urandom(1024))
    (home / "munge.key").chmod(0o400)
    config = home / "slurm.conf"
    config.write_text(CONFIG.format(home=home, host=host, ports=free_ports(3)))
    files = {"socket": "munge.socket", "key-file": "munge.key", "pid-file": "munge.pid"}
    files |= {"seed-file": "munge.seed", "log-file": "munge.log"}
    munged = ["munged", "--foreground", "--force", "--num-threads=2"]
    munged += [f"--{name}={home / file}" for name, file in files.items()]
    env = {**os.environ, "PATH": path, "SLURM_CONF": str(config)}
    quiet = {"env": env, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    started = []
    try:
        for words in (
            munged,
            ["slurmctld", "-D", "-c"],
            *[["slurmd", "-D", "-N", f"n{i}"] for i in (1, 2)],
        ):
            started.append(subprocess.Popen(words, **quiet))
            until(lambda: (home / "munge.socket").exists())
        idle = ["sinfo", "--noheader", "--states=idle", "--format=%D"]
        until(lambda: subprocess.run(idle, env=env, capture_output=True, text=True).stdout == "2\n")
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("SLURM_CONF", str(config))
            yield home
    finally:
        for each in reversed(started):
            each.send_signal(signal.SIGTERM)
            each.wait()


def until(condition, seconds=240):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it takes too long"
        time.sleep(0.05)
