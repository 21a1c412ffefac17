"""Slurm for tests: programs that act like it."""

import sys
import time

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


def until(condition, seconds=240):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it takes too long"
        time.sleep(0.05)
