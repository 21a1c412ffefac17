"""Words that a foreign folder brings never read like a result of this machine."""

import shutil

import pytest

from telic.errors import Refused
from telic.session.hub import shown_verdict
from telic.storage.files import read_json, write_json
from telic.storage.layout import RunFolder
from telic.training.videos import find_run
from telic.verbs.compare import judge
from telic.verbs.track import eval as eval_tracker
from tests.session.conftest import home  # noqa: F401
from tests.session.test_end import make_pass
from tests.training.small import small_job, train_here
from tests.web.conftest import client_of

GENEROUS = """
from telic import score

def judge(episode):
    return [score("runs", 1.0, zero=0.0, goal=1.0)]
"""


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    """A copy of a run with a claim and a judge that passes everything, as after `telic pull`."""
    folder = tmp_path_factory.mktemp("runs")
    made = train_here(small_job(steps=512), folder, name="run_original")
    run = RunFolder(shutil.copytree(made.path, folder / "pulled-user--name"))
    (run.path / "judge_fn.py").write_text(GENEROUS)
    claim = {"source": "hf://user/name", "revision": "", "signed_by": None, "outcome": "passed"}
    write_json(run.path / "claim.json", claim)
    return run


def test_a_verdict_of_the_publishers_judge_remains_a_claim(theirs, home, tmp_path):  # noqa: F811
    recorded = judge(theirs.name, runs_dir=theirs.path.parent)
    assert recorded.recorded and "machine" not in (shown_verdict(theirs) or ""), "their episodes"
    where = {"episodes": 1, "runs_dir": theirs.path.parent}
    found = judge(theirs.name, **where)
    assert found.score == 1.0 and "not validated" in found.judge_is
    words = shown_verdict(theirs) or ""
    assert words.startswith("passed, claimed by the publisher") and "not validated" in words
    (tmp_path / "own.py").write_text(GENEROUS)
    judge(theirs.name, judge=tmp_path / "own.py", **where)
    words = shown_verdict(theirs) or ""
    assert "; judged on this machine by the judge passed with --judge: score 1" in words

    judged, signed = theirs.path / "judged.json", read_json(theirs.path / "judged.json")
    write_json(judged, {**signed, "words": "passed on this machine"})
    assert "this machine" not in (shown_verdict(theirs) or "")
    write_json(judged, signed)
    assert shown_verdict(theirs) == words
    policy = theirs.members()[0].checkpoints()[-1].path
    policy.write_bytes(policy.read_bytes() + b"\0")
    assert "this machine" not in (shown_verdict(theirs) or "")
    (theirs.path / "claim.json").unlink()
    assert shown_verdict(theirs) is None


def test_a_card_of_the_gallery_shows_no_bound_that_is_only_claimed(tmp_path, monkeypatch):
    low = {}
    for user in ("mine", "theirs"):
        monkeypatch.setenv("TELIC_CONFIG_DIR", str(tmp_path / user))
        folder = make_pass(tmp_path / user / "runs")
        folder.report_dir.mkdir(exist_ok=True)
        (folder.report_dir / "median.mp4").write_bytes(b"a robot that runs")
        monkeypatch.setenv("TELIC_CONFIG_DIR", str(tmp_path / "mine"))
        (card,) = client_of(tmp_path / user).get("/api/gallery").json()
        low[card["line"]["state"]] = card["low"]
    assert low["passed"] > 0.0 and low["claimed"] is None


def test_a_training_request_is_not_answered_by_the_run_of_another_user(theirs):
    own = RunFolder(theirs.path.with_name("run_original"))
    for run in (own, theirs):
        write_json(run.status, {**read_json(run.status), "videos": "best"})
    key, runs_dir = read_json(own.manifest)["key"], own.path.parent
    assert find_run(key, runs_dir, None, lacks_videos=True) == own
    assert find_run(key, runs_dir, theirs.name, lacks_videos=True) is None
    (own.path / "videos").symlink_to(theirs.path)
    assert find_run(key, runs_dir, None, lacks_videos=True) is None


def test_links_in_the_latest_tracker_are_not_followed(tmp_path):
    run = tmp_path / "runs" / "track_theirs"
    run.mkdir(parents=True)
    for name in ("config.json", "tracking.json"):
        (run / name).write_text("{}")
    (run / "evaluations").symlink_to(tmp_path)
    with pytest.raises(Refused, match="contains the link"):
        eval_tracker(runs_dir=run.parent)
