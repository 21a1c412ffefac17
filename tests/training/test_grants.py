"""A reward that controls its worker completely still changes nothing that the host believes.

The switch is `trusted`: the allow-list is skipped, so the reward may run any Python, confined.
"""

import json

import pytest

from telic.errors import WorkerDied
from telic.storage.files import read_json, read_json_lines
from telic.storage.keys import BEGUN
from telic.storage.layout import RunFolder
from telic.training.job import TrainJob
from telic.training.run import execute
from tests.training.small import CONTROL, small_job

HEAD = """
import gc, json, os, pathlib, sys
from telic import RewardFunction

RUN = pathlib.Path(os.getcwd()).parent
MEMBERS = [RUN / "reward_seed_1", RUN / "reward_seed_2"]

def channel():
    return next(o for o in gc.get_objects() if type(o).__name__ == "HostChannel")

def attack():
{body}

class Hostile(RewardFunction):
    done = False

    def compute(self, obs, action, next_obs, info):
        if not Hostile.done and os.path.exists(RUN / "events.jsonl"):  # training has begun
            Hostile.done = True
            attack()
        terms = {{"speed": info["x_velocity"]}}
        return terms["speed"], terms
"""

FILES = """
    done, refused = [], []
    def attempt(name, act):
        try:
            act()
        except OSError as error:
            refused.append(name)
        else:
            done.append(name)
    names = ["config.json", "manifest.json", "status.json", "summary.json", "events.jsonl", "lock"]
    own = ["config.json", "reward_fn.py", "reward_spec.json", "summary.json"]
    files = [RUN / name for name in names] + [each / name for each in MEMBERS for name in own]
    files += [RUN.parent / "planted", RUN / "planted.py", MEMBERS[0] / "videos" / "eval_1_p10.mp4"]
    files += map(pathlib.Path, {outside!r})
    scratch = RUN / "state" / "scratch"
    for path in files:
        scratch.write_text("{{}}")
        attempt(f"write {{path}}", lambda: path.write_text("{{}}"))
        attempt(f"append {{path}}", lambda: path.open("a").close())
        attempt(f"remove {{path}}", lambda: path.unlink())
        attempt(f"replace {{path}}", lambda: os.replace(scratch, path))
        attempt(f"truncate {{path}}", lambda: os.truncate(path, 0))
        attempt(f"link {{path}}", lambda: os.link(path, RUN / "state" / "link"))
        attempt(f"symlink {{path}}", lambda: os.symlink(path, RUN / "state" / "symlink"))
        attempt(f"mode {{path}}", lambda: os.chmod(path, 0o777))
    for folder in MEMBERS:
        attempt(f"move {{folder}}", lambda: os.rename(folder, RUN / "state" / "moved"))
        moved = folder / "checkpoints"
        attempt(f"move {{moved}}", lambda: os.rename(moved, folder / "elsewhere"))
    attempt("fifo", lambda: os.mkfifo(RUN / "state" / "fifo"))
    attempt("fork", os.fork)
    attempt("signal", lambda: os.kill(os.getppid(), 9))
    (RUN / "state" / "attempts.json").write_text(json.dumps([done, refused]))
"""


def hostile(body: str, **changes) -> TrainJob:
    return small_job(reward=HEAD.format(body=body), trusted=True, **changes)


def contents(folder) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_reward_with_all_of_python_changes_no_file_that_the_host_believes(tmp_path):
    outside = tmp_path / "runs" / "session_1"  # a judge's evidence and verdict, another run
    for name in ("iter_1/judged/a_seed_0/episode_00.npz", "iter_1/judgment.json", "judge_fn.py"):
        (outside / name).parent.mkdir(parents=True, exist_ok=True)
        (outside / name).write_text("evidence")
    before = contents(outside)
    job = hostile(FILES.format(outside=[*before, f"{outside}/new"]), seeds=(1, 2), env_args={})

    run = RunFolder(execute(job, tmp_path / "runs", name="run").path)

    done, refused = read_json(run.state.parent / "attempts.json")
    assert done == [] and len(refused) > 150
    assert [member.name for member in job.members] == ["reward_seed_1", "reward_seed_2"]
    assert TrainJob.model_validate(read_json(run.config)) == job
    assert read_json(run.manifest)["key"] == job.key
    assert read_json(run.summary)["members"] == [member.name for member in job.members]
    for member in run.members():
        assert member.reward_code.read_text() == job.rewards[0].source
        assert read_json(member.config)["env"] == "HalfCheetah-v5"
        assert read_json(member.summary)["status"] == "completed"
        assert not member.videos_dir.exists()
    assert contents(outside) == before
    assert {path.name for path in run.path.iterdir()} == {
        *("config.json", "manifest.json", "status.json", "summary.json", "events.jsonl"),
        *("worker.log", "state", "lock", BEGUN, *(member.name for member in job.members)),
    }


RESULT = {
    "run": "run",
    "env": "HalfCheetah-v5",
    "status": "completed",
    "total_timesteps": 1,
    "training_time_s": 1.0,
    "steps_per_second": None,
    "best_member": None,
    "best_return": 1e9,
    "members": [],
}
MEMBER = {
    "member": "reward_seed_1",
    "seed": 1,
    "reward": "reward",
    "status": "completed",
    "total_timesteps": 1,
    "training_time_s": 1.0,
    "total_episodes": 0,
    "final_episodic_return": None,
    "best_step": None,
    "best": None,
    "last": None,
    "findings": [],
    "probe": None,
}
MESSAGES = {
    "another run": {"record": "report", "summary": {**RESULT, "run": "../other"}},
    "another environment": {"record": "report", "summary": {**RESULT, "env": "evil.py:Env"}},
    "another member": {"record": "report", "summary": {**RESULT, "members": ["../x_seed_1"]}},
    "a best one that is none": {"record": "report", "summary": {**RESULT, "best_member": "../x"}},
    "more than it has": {"record": "report", "summary": {**RESULT, "path": "/etc/passwd"}},
    "too many members": {"record": "report", "rewards": [{}] * 7},
    "results of others": {"record": "report", "members": [{**MEMBER, "member": "../x"}]},
    "another record": {"record": "config", "summary": {}},
    "no record": {"record": ["report"]},
    "a wrong type": {"record": "report", "summary": {**RESULT, "total_timesteps": "many"}},
    "no event": {"event": "session.end"},
    "an event of others": {"event": "verdict", "score": 1.0},
    "too much": {"event": "log", "message": "x", "more": [0] * 2_100_000},
}


@pytest.mark.parametrize("message", MESSAGES.values(), ids=MESSAGES)
def test_unrequested_writes_are_refused(message, tmp_path):
    from telic.storage.files import write_json
    from telic.training.folder import create_run
    from telic.training.results import RunWriter

    job = small_job(reward=CONTROL)
    run = RunFolder(tmp_path / "run")
    create_run(job, run)
    write_json(run.summary, {"kept": True})
    before = contents(tmp_path)
    with RunWriter(job, run, lambda event: None) as keeper:
        with pytest.raises(WorkerDied, match="sent an invalid message"):
            keeper.receive(json.loads(json.dumps(message)))
        with pytest.raises(WorkerDied, match="without a result"):
            keeper.summary()
    assert contents(tmp_path) == before


LIES = """
    plain = dict(event="log", message="\\x1b]0;owned\\x07 \\x1b[2J all is well")
    channel().send(plain)
    channel().send(dict(record="report", summary=dict(run="other", env="evil.py:Env",
        status="completed", total_timesteps=1, training_time_s=1.0, steps_per_second=None,
        best_member="../../x", best_return=1.0, members=["../../x"])))
"""


def test_a_worker_that_lies_about_the_run_ends_it_and_its_text_is_harmless(tmp_path):
    received = []
    with pytest.raises(WorkerDied, match="sent an invalid message"):
        execute(hostile(LIES, steps=8192), tmp_path, name="run", on_event=received.append)
    run = RunFolder(tmp_path / "run")
    assert not run.summary.exists()
    printed = [row["message"] for row in read_json_lines(run.events) if row["event"] == "log"]
    assert printed == ["?]0;owned? ?[2J all is well"]
    assert printed[0] in [getattr(event, "message", None) for event in received]
