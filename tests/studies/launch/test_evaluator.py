"""The score is that of the contract's evaluator, in a checkout that no candidate can change."""

import json
import sys

import pytest

from telic.errors import TelicError
from telic.storage.files import read_json, write_json
from telic.studies import _git_read as git_read
from telic.studies.approvals import approval_diff
from telic.studies.contract import amend, contract_diff, draft_contract
from telic.studies.documents.candidate import ChangedFile
from telic.studies.errors import EnvironmentBlocked, InvalidDocument
from telic.studies.evidence.measurement import analyze_run
from telic.studies.launch import supervisor
from telic.studies.launch._isolation import check_out, prepare_tree
from telic.studies.launch.attempt import TOKEN, LaunchRequest
from telic.studies.launch.launch import launch
from telic.studies.rules.results import ingest
from tests.studies.launch import toy_study
from tests.studies.launch.kills import settle
from tests.studies.launch.test_gates import REASON
from tests.studies.launch.toy_study import (
    AGENT,
    HUMAN,
    make_baseline,
    make_candidate,
    make_study,
)

# The training boasts of 0.99; the evaluator plays the newest policy that it left.
TRAIN = """\
import json, os, pathlib, reward, sys
run_dir = pathlib.Path(sys.argv[1])
row = {"step": 1, "success": 0.99, "falls": 0.0}
(run_dir / "metrics.jsonl").write_text(json.dumps(row) + chr(10))
(run_dir / "old.ckpt").write_text("0.1")
(run_dir / "policy.ckpt").write_text(str(0.4 * reward.weight))
(run_dir / "done").write_text("yes")
if plant := os.environ.get("TOY_PLANT"):
    trees = pathlib.Path(".telic/worktrees").glob("*/*." + os.environ["TELIC_RUN"])
    tree = run_dir.parent if plant == "compiled" else next(trees)
    (tree / plant).write_text("{}")
exec(os.environ.get("TOY_RUN", ""))
"""
EVALUATE = """\
import json, pathlib, sys
from helper import score
policy, seed, out, episodes, *more = sys.argv[1:]
worth = score(float(pathlib.Path(policy).read_text())) + int(seed) % 10 / 100 - 0.2 * len(more)
row = {"success": round(worth, 4), "falls": 0.1, "episodes": int(episodes), "seed": int(seed)}
pathlib.Path(out, "metrics.jsonl").write_text(json.dumps(row) + chr(10))
sys.exit(3 if seed == "7009" else 0)
"""
HELPER = "def score(worth):\n    return worth\n"
CHEAT = """\
--- a/helper.py
+++ b/helper.py
@@ -1,2 +1,2 @@
 def score(worth):
-    return worth
+    return 1.0
"""
WORDS = ["python", "evaluate.py", "{checkpoint}", "{seed}", "{run_dir}", "{episodes}"]


def evaluated_study(root):
    """Make a study with an evaluator that imports a helper."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(toy_study, "TRAIN", TRAIN)
        patch.setattr(toy_study, "EVALUATOR", EVALUATE)
        patch.setattr(toy_study, "FILES", {"helper.py": HELPER, "world.json": '{"wind": 0}'})
        adapter = {**toy_study.ADAPTER, "outputs": {"checkpoint_glob": "*.ckpt"}}
        train = {"argv": ["python", "train.py", "{run_dir}", "{seed}"]}
        adapter["commands"] = {**adapter["commands"], "train": train}
        patch.setattr(toy_study, "ADAPTER", adapter)
        protocol = {"schema": "telic.eval_protocol/1", "eval_seeds": [7001, 7003], "episodes": 10}
        protocol["perturbations"] = [{"name": "pushed", "args": ["--push"]}]
        patch.setattr(toy_study, "PROTOCOL", {**protocol, "command": {"argv": WORDS}})
        scope = {**toy_study.CONTRACT["scope"], "files": {"allow": ["helper.py"]}}
        contract = {**toy_study.CONTRACT, "scope": scope, "evaluation": {}}
        contract["generated_code"] = {"allowed": True}
        patch.setattr(toy_study, "CONTRACT", contract)
        study = make_study(root)
    toy_study.approve(study, "generated_code")


@pytest.fixture
def study(kept):
    return kept("evaluated", evaluated_study)


def run(study, name, seed=1):
    """Launch one smoke run, wait for it and return its measurement."""
    found = launch(study, LaunchRequest(name, "smoke", seed, confirm=TOKEN), AGENT).run
    settle(study)
    return ingest(study, found, AGENT).payload


def test_the_evaluator_scores_and_neither_the_training_nor_the_candidate(study):
    honest = run(study, make_baseline(study))
    assert honest["primary"] == pytest.approx(0.41), "newest checkpoint, first unseen seed"
    assert honest["perturbed"] == {"pushed": pytest.approx(0.21)}
    assert honest["guardrails"] == {"falls": pytest.approx(0.1)}
    refs, plan = list(study.state.evidence)[:1], {"est": {"wall_clock_h": 0.1}}
    draft = {"kind": "config", "hypothesis": REASON, "evidence_refs": refs, "plan": plan}
    cheat = run(study, make_candidate(study, patch=CHEAT, **draft))
    assert cheat["primary"] == honest["primary"], "measured in a checkout of the base commit"
    assert cheat["code_hash"] == honest["code_hash"]
    inside = study.folder.artifacts(cheat["run"]) / "evaluations/nominal/7001/metrics.jsonl"
    assert json.loads(inside.read_text())["episodes"] == 10
    inside.write_text('{"success": 0.9, "falls": 0.0}\n')
    with pytest.raises(TelicError, match="E_ARTIFACTS"):
        analyze_run(study, cheat["run"], AGENT)


def test_a_candidate_cannot_choose_the_commit_that_measures_it(study):
    honest = run(study, make_baseline(study))
    first = study.contract.baseline.commit
    (study.root / "world.json").write_text('{"wind": -1}')
    (study.root / "helper.py").write_text("def score(worth):\n    return 1.0\n")
    toy_study.git(study.root, "commit", "-q", "-a", "-m", "ordinary work of an agent")
    refs, plan = list(study.state.evidence)[:1], {"est": {"wall_clock_h": 0.1}}
    draft = {"kind": "config", "hypothesis": REASON, "evidence_refs": refs, "plan": plan}
    name = make_candidate(study, patch=CHEAT, **draft)
    assert study.candidate(name).base_commit == first
    assert run(study, name)["primary"] == honest["primary"]
    evil = git_read.head_commit(study.root)
    accepted = study.folder.candidate_file(study.incumbent.candidate)
    write_json(accepted, {**read_json(accepted), "base_commit": evil})
    refused = (AssertionError, InvalidDocument)
    for base in (evil, "HEAD", first[:12], None):
        with pytest.raises(refused, match=f"must be {first}|base_commit: String should match"):
            make_candidate(study, patch=CHEAT, **draft, base_commit=base)


@pytest.mark.parametrize(
    ("rule", "content", "is_kept"),
    [
        ("world.json filter=evil", b'{"wind": -5}', False),
        ("world.json working-tree-encoding=UTF-16", None, False),
        ("helper.py eol=crlf", HELPER.replace("\n", "\r\n").encode(), True),
    ],
)
def test_a_checkout_has_the_files_of_its_commit(study, tmp_path, rule, content, is_kept):
    info, tree = study.root / ".git/info", tmp_path / "tree"
    info.mkdir(exist_ok=True)
    (info / "attributes").write_text(f"{rule}\n")
    toy_study.git(study.root, "config", "filter.evil.smudge", "echo '{\"wind\": -5}'")
    toy_study.git(study.root, "config", "filter.evil.clean", "echo '{\"wind\": 0}'")
    if is_kept:
        check_out(study.folder, study.contract.baseline.commit, tree)
        assert (tree / "helper.py").read_bytes() == content
        return
    with pytest.raises(EnvironmentBlocked, match=r"world\.json would differ"):
        check_out(study.folder, study.contract.baseline.commit, tree)
    draft = {"kind": "config", "hypothesis": REASON, "plan": {"est": {"wall_clock_h": 0.1}}}
    draft["evidence_refs"] = list(study.state.evidence)[:1]
    name = make_candidate(study, patch=CHEAT, **draft)
    with pytest.raises(EnvironmentBlocked, match=r"world\.json would differ"):
        prepare_tree(study.folder, study.candidate(name))


def test_a_file_of_a_candidate_is_not_written_through_a_link(study, tmp_path):
    (study.root / "link").symlink_to(tmp_path, target_is_directory=True)
    toy_study.git(study.root, "add", ".")
    toy_study.git(study.root, "commit", "-q", "-m", "a link")
    held = study.candidate(make_baseline(study))
    file = ChangedFile(path="link/planted.py", sha256="0" * 64)
    change = held.change.model_copy(update={"files": (file,)})
    isolation = held.isolation.model_copy(update={"mode": "worktree"})
    update = {"base_commit": git_read.head_commit(study.root), "change": change}
    with pytest.raises(EnvironmentBlocked, match="leads out of the repository"):
        prepare_tree(study.folder, held.model_copy(update={**update, "isolation": isolation}))
    assert not (tmp_path / "planted.py").exists()


@pytest.mark.parametrize("stored", [":maps/world.json", ":maps", ""])
def test_stored_objects_are_verified(study, tmp_path, stored):
    """git checks out a changed file in .git/objects as if it were the named one."""
    root, names = study.root, []
    (root / "maps").mkdir()
    for wind in (0, -1):
        (root / "maps/world.json").write_text(f'{{"wind": {wind}}}')
        toy_study.git(root, "add", ".")
        toy_study.git(root, "commit", "-q", "-m", "wind")
        names.append(git_read.ask(root, "rev-parse", f"HEAD{stored}").out.strip())
    commit = git_read.ask(root, "rev-parse", "HEAD~1").out.strip()
    check_out(study.folder, commit, tmp_path / "tree")
    place, other = (root / ".git/objects" / x[:2] / x[2:] for x in names)
    place.chmod(0o644)
    place.write_bytes(other.read_bytes())
    with pytest.raises(TelicError, match=r"would differ|objects of commit|hash mismatch"):
        check_out(study.folder, commit, tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_the_commit_of_the_contract_is_approved_with_the_baseline(study):
    before = study.approval("baseline_command")
    (study.root / "helper.py").write_text(HELPER + "# shorter\n")
    (study.root / ".gitattributes").write_text("* -diff\n")
    toy_study.git(study.root, "commit", "-q", "-a", "-m", "second")
    evil = git_read.head_commit(study.root)
    draft_contract(study, {"baseline.commit": evil})
    shown = contract_diff(study)
    assert f"+  commit: {evil}" in shown and "+# shorter" in shown
    draft_contract(study, {"baseline.commit": "1" * 40})
    with pytest.raises(TelicError, match="cannot compare"):
        contract_diff(study)
    draft_contract(study, {"baseline.commit": evil})
    amend(study, HUMAN, "another commit")
    after = study.approval("baseline_command")
    assert (before.status, after.status) == ("approved", "void")
    assert evil in approval_diff(study, "baseline_command")


def test_a_fake_interpreter_for_some_seeds_is_found(study, tmp_path, monkeypatch):
    name = make_baseline(study)
    first = run(study, name, 1)
    fake = tmp_path / "bin" / "python"
    fake.parent.mkdir()
    fake.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(fake.parent), prepend=":")
    second = run(study, name, 2)
    assert second["primary"] is not None
    parts = [each["code_hash"].split("-") for each in (first, second)]
    assert parts[0][1] != parts[1][1], "another interpreter"


EVIL = """
import json
write = json.dumps
json.dumps = lambda row, **more: write({**row, "success": 0.97} if "success" in row else row)
"""


def test_code_that_an_environment_adds_to_the_evaluator_is_found(study, tmp_path, monkeypatch):
    name = make_baseline(study)
    honest = run(study, name, 1)
    (tmp_path / "sitecustomize.py").write_text(EVIL)
    monkeypatch.setenv("PYTHONPATH", f"{study.root}:{tmp_path}")
    found = run(study, name, 2)
    assert found["primary"] == pytest.approx(0.97), "it took effect"
    parts = [each["code_hash"].split("-") for each in (honest, found)]
    assert [one == other for one, other in zip(*parts, strict=True)] == [True, True, False, True]
    order = read_json(study.folder.run(found["run"]) / supervisor.ORDER_FILE)
    assert str(study.root) not in order["steps"][1]["env"]["PYTHONPATH"].split(":"), "its checkout"


@pytest.mark.parametrize(
    "changed",
    [
        "env/lib/python3.11/sitecustomize.py",
        "env/lib/python3.11/site-packages/numpy.py",
        "env/pyvenv.cfg",
        "user/lib/python3.11/site-packages/usercustomize.py",
        "first/sitecustomize.py",
        "first.zip",
        *({"PYTHONPATH": "second:first"}, {"LD_PRELOAD": "x.so"}, {"PYTHONHOME": "second"}),
    ],
)
def test_what_an_evaluator_imports_is_hashed(tmp_path, changed):
    program, tree = tmp_path / "env/bin/evaluate", tmp_path / "tree"
    for folder in (program.parent, tree, *(tmp_path / name for name in ("first", "second"))):
        folder.mkdir(parents=True)
    program.write_text("#!/nowhere/python -u")
    names = [str(tmp_path / name) for name in ("first", "first.zip", "second")]
    env = {"PYTHONUSERBASE": str(tmp_path / "user"), "PYTHONPATH": ":".join(("tree", *names))}

    def hashed(**more):
        return supervisor._imports(program, {**env, **more}, str(tmp_path), tree)

    before = hashed()
    (tree / "sitecustomize.py").write_text("")
    assert hashed() == before, "the tree's files are verified one by one"
    if isinstance(changed, dict):
        assert hashed(**changed) != before
        return
    (tmp_path / changed).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / changed).write_text("include-system-site-packages = true")
    assert hashed() != before


LINGER = (
    """
import subprocess
late = """
    + repr("""
import os, pathlib, sys, time
if os.fork():
    sys.exit()
os.setsid()
for _ in range(20_000):
    for file in pathlib.Path(sys.argv[1]).rglob("evaluations/**/metrics.jsonl"):
        file.write_text('{"success": 0.99, "falls": 0.0}')
    time.sleep(0.001)
""")
    + """
subprocess.run([sys.executable, "-c", late, str(run_dir)], start_new_session=True)
"""
)


def test_no_process_of_a_training_survives_to_change_the_evaluation(study, monkeypatch):
    monkeypatch.setenv("TOY_RUN", LINGER)
    assert run(study, make_baseline(study))["primary"] == pytest.approx(0.41)


def test_an_evaluator_that_is_changed_after_the_launch_does_not_run(tmp_path):
    tree, folder = tmp_path / "tree", tmp_path / "run"
    tree.mkdir()
    (folder / "artifacts").mkdir(parents=True)
    (tree / "evaluate.py").write_text("print(1)")
    files = supervisor.files_in(tree)
    evaluator = {"tree": str(tree), "files": files, "checkout": files, "programs": [sys.executable]}
    (tree / "numpy.py").write_text("")  # would be imported instead of the installed one
    step = {"name": "train", "folder": ".", "argv": [sys.executable, "-c", ""], "cwd": str(tree)}
    order = {"nonce": "n", "cwd": str(tree), "grace_s": 0.1, "timeout_s": None}
    order |= {"steps": [{**step, "env": {}, "measures": True}], "evaluator": evaluator}
    (folder / supervisor.ORDER_FILE).write_text(json.dumps(order))
    found = supervisor._Supervisor(folder)._step(order["steps"][0])
    assert "the evaluator's numpy.py was modified after the launch" in found["error"]
    (tree / "numpy.py").unlink()
    found = supervisor._Supervisor(folder)
    assert found._step(order["steps"][0])["error"] is None
    (tree / "output.csv").write_text("written by the first evaluation")
    assert found._step(order["steps"][0])["error"] is None
    (tree / "output.csv").unlink()
    (tree / "sitecustomize.pyc").write_text("")
    found = supervisor._Supervisor(folder)._step(order["steps"][0])
    assert "the evaluator's sitecustomize.pyc was modified" in found["error"]


@pytest.mark.parametrize("plant", ["world.json", "more.json", "sitecustomize.pyc", "compiled"])
def test_a_training_cannot_change_the_checkout_of_the_evaluator(study, monkeypatch, plant):
    monkeypatch.setenv("TOY_PLANT", plant)
    (study.root / ".git/info/exclude").write_text("*.pyc\n")
    found = launch(study, LaunchRequest(make_baseline(study), "smoke", 1, TOKEN), AGENT).run
    settle(study)
    assert study.state.runs[found].status == "failed"
    why = "existed before" if plant == "compiled" else "was modified after the launch"
    assert f"{plant} {why}" in study.state.runs[found].why
    assert not [*study.root.glob(f".telic/worktrees/*/*.{found}")], "deleted with the run"
