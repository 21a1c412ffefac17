"""Only `launch` and `git_read` can start a process: by import, and by what Python reports."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import telic
from telic.studies.launch.attempt import TOKEN, LaunchRequest
from telic.studies.launch.launch import launch
from tests.studies.launch.toy_study import AGENT, starts

PACKAGE = Path(telic.__file__).parent
CHECKED = ("studies/", "plugin/", "mcp/", "verbs/study", "verbs/machine.py", "cli/")
MAY_START = ("studies/launch/", "studies/_git_read.py")
MAY_LAUNCH = {
    "verbs/study_runs.py",
    "studies/loop.py",
    "studies/adapter_check.py",
}
STARTERS = {"subprocess", "multiprocessing", "pty", "concurrent.futures", "asyncio"}
CALLS = ("system", "popen", "fork", "posix_spawn", "startfile", "exec", "spawn")
GATE = "telic.studies.launch.launch"


def starters(path: Path) -> set[str]:
    """Return how a module could start a process, or pass the launch gate."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {each.name for each in node.names} & {*STARTERS, GATE}
        elif isinstance(node, ast.ImportFrom):
            names = {f"{node.module}.{each.name}" for each in node.names}
            found |= {node.module} & STARTERS
            found |= {GATE} if names & {GATE, f"{GATE}.launch"} else set()
            found |= {x for x in names if x.startswith(tuple(f"os.{call}" for call in CALLS))}
        elif isinstance(node, ast.Attribute) and node.attr.startswith(CALLS):
            is_os = isinstance(node.value, ast.Name) and node.value.id == "os"
            found |= {f"os.{node.attr}"} if is_os else set()
    return found


def test_only_the_launch_path_starts_processes_and_few_modules_pass_its_gate():
    found = {
        name: starters(path)
        for path in PACKAGE.rglob("*.py")
        if (name := path.relative_to(PACKAGE).as_posix()).startswith(CHECKED)
        and not name.startswith(MAY_START)
    }
    users = {name: names for name, names in found.items() if names}
    assert users == {name: {GATE} for name in MAY_LAUNCH}


def test_the_detector_sees_what_it_looks_for(tmp_path):
    path = tmp_path / "x.py"
    path.write_text(
        "import os\nfrom subprocess import run\nos.execv('a', [])\nfrom os import posix_spawn\n"
        "def f():\n    from telic.studies.launch.launch import launch\n"
    )
    assert starters(path) == {"subprocess", "os.execv", "os.posix_spawn", GATE}


WATCHED = """
import json, sys
seen = []
def hook(event, details):
    if event.split(".")[0] in ("subprocess", "pty") or event in (
        "os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn",
    ):
        words = [str(w) for w in details[1]] if event == "subprocess.Popen" else []
        writes = {"add", "apply", "checkout", "commit", "update-index", "worktree"} & set(words)
        if words[:1] != ["git"] or (writes and "--check" not in words and "--numstat" not in words):
            seen.append(event)
    if event in ("socket.connect", "socket.getaddrinfo", "socket.bind"):
        seen.append(event)
    if event == "import" and details[0].split(".")[0] in ("torch", "gymnasium", "mujoco", "jax"):
        seen.append("import " + details[0])
sys.addaudithook(hook)
import typer.main
from typer.testing import CliRunner
from telic.cli.main import app
def leaves(command, path=()):
    for name, each in getattr(command, "commands", {}).items():
        yield from leaves(each, (*path, name))
    if not hasattr(command, "commands"):
        yield " ".join(path)
found = {}
for words in json.loads(sys.argv[1]):
    result = CliRunner().invoke(app, words)
    found[" ".join(words[1:])] = {"seen": list(seen), "exit": result.exit_code,
                                  "out": result.output[-2000:]}
    seen.clear()
verbs = sorted(leaves(typer.main.get_command(app).commands["study"]))
print("SEEN " + json.dumps({"found": found, "verbs": verbs}))
"""

LINES = """
init --task toy --study first
adapter
contract
approve budget
propose DRAFT
status
status candidates
status queue
status CANDIDATE
status RUN
next
audit RUN
audit CANDIDATE --finding fine --no-exploit
audit CANDIDATE
decide CANDIDATE reject --because x
report
run
run --resume
run --pause
"""


def watched(root: Path, lines: list[str]) -> dict:
    """Run verbs one after the other in a process whose every act is seen."""
    commands = [["study", *line.split(), "--root", str(root)] for line in lines]
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, json.dumps(commands)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "SEEN " in done.stdout, done.stderr
    answer = json.loads(done.stdout.rpartition("SEEN ")[2])
    suffix = f" --root {root}"
    answer["found"] = {line.removesuffix(suffix): each for line, each in answer["found"].items()}
    return answer


def test_no_verb_but_run_starts_a_process_opens_a_socket_or_imports_a_framework(
    study, candidate, until_over, tmp_path
):
    done = launch(study, LaunchRequest(candidate, "smoke", 1, confirm=TOKEN), AGENT)
    until_over(study)
    draft = tmp_path / "idea.yaml"
    draft.write_text("title: idea\nkind: config\n")
    names = {"CANDIDATE": candidate, "RUN": done.run, "DRAFT": str(draft)}
    lines = [
        " ".join(names.get(word, word) for word in line.split())
        for line in LINES.strip().splitlines()
    ]
    answer = watched(study.folder.root, lines)
    assert set(answer["verbs"]) == {line.split()[0] for line in lines}, "a verb is new: add a line"
    for line, each in answer["found"].items():
        assert each["seen"] == [], f"{line}: {each}"
    # The proof is worth something only if most verbs did their work and did not stop at a word.
    worked = [line for line, each in answer["found"].items() if each["exit"] == 0]
    assert len(worked) >= 12, {line: each["out"] for line, each in answer["found"].items()}
    assert len(starts(study)) == 1


def test_a_dry_run_starts_nothing_but_git_and_the_watcher_sees_a_launch(study, candidate):
    dry, real = f"run {candidate}", f"run {candidate} --confirm RUN_CANDIDATE"
    found = watched(study.folder.root, [dry, real])["found"]
    assert (found[dry]["exit"], found[dry]["seen"]) == (0, []), found[dry]["out"]
    assert found[real]["exit"] == 0 and "subprocess.Popen" in found[real]["seen"], found[real]
