"""A whole study on a processor: from a repository to a checked improvement, by the rules."""

import json
import sys

import pytest

from telic.studies._git_read import _SAFE_SETTINGS
from tests.studies.toy.driver import ToyStudy
from tests.studies.toy.interfaces import CommandLine, Refused

BETTER, HACK, SAME = "c-0004-less-effort", "c-0003-more-pace", "c-0002-smoother"
QUERY = ["git", *_SAFE_SETTINGS]
STARTS = frozenset({"subprocess.Popen", "os.exec", "os.posix_spawn", "os.fork", "os.system"})


class Watched(CommandLine):
    """The command line, with a note of every command that started a process."""

    def __init__(self, root):
        super().__init__(root)
        self.doing, self.started = None, []
        sys.addaudithook(self._note)

    def agent(self, *words):
        self.doing = words[0]
        try:
            return super().agent(*words)
        finally:
            self.doing = None

    def _note(self, event, details):
        if self.doing is None or event not in STARTS:
            return
        words = details[1] if event == "subprocess.Popen" else ()
        if [str(word) for word in words][: len(QUERY)] != QUERY:
            self.started.append(self.doing)


@pytest.mark.slow
def test_a_study_from_a_repository_to_a_checked_improvement(tmp_path, monkeypatch):
    monkeypatch.setenv("TELIC_CONFIG_DIR", str(tmp_path / "config"))
    monkeypatch.delenv("TELIC_ACTOR", raising=False)
    study = ToyStudy(Watched(tmp_path / "repository"), tmp_path / "repository")
    study.begin()
    study.live()
    state = study.door.agent("status")
    assert {name: each["status"] for name, each in state["candidates"].items()} == {
        "c-0001-baseline": "accepted",
        SAME: "inconclusive",
        HACK: "rejected",
        BETTER: "accepted",
    }
    assert state["incumbent"]["candidate"] == BETTER and state["incumbent"]["iqm"] > 0.9
    *decisions, last = state["decisions"].values()
    verdicts = {each["candidate"]: each["audit_verdict"] for each in decisions}
    assert verdicts == {
        "c-0001-baseline": "baseline_established",
        SAME: "inconclusive",
        HACK: "no_improvement",
        BETTER: "valid_improvement",
    }
    assert state["next_action"]["action"] == "propose"
    the_gain_was_doubted(study, last)
    the_hack_was_noticed(study, state)
    every_seed_was_fresh(state)
    only_run_starts_processes(study, state)
    the_report_contains_it(study)
    a_flipped_byte_is_found(study)


def the_gain_was_doubted(study, last):
    # Five held-out seeds are all that the pool has left, and the gain's interval reaches half of
    # what was claimed: they cannot tell, and a person decides.
    assert (last["candidate"], last["verdict"]) == (BETTER, "keep")
    asked = study.asked[-1]
    assert "it is unknown whether half of the gain remains" in asked["why"]
    assert asked["blocking"][0].endswith(f"telic study decide {BETTER} revert --because TEXT")


def the_hack_was_noticed(study, state):
    assert [x["args"]["candidate"] for x in study.asked if x["action"] == "review"] == [HACK]
    levels = {SAME: set(), HACK: set(), BETTER: set()}
    for name, each in state["evidence"].items():
        if each["kind"] == "reflection":
            sheet = json.loads((study.folder / f"evidence/{name}.json").read_text())
            levels.setdefault(each["candidate"], set()).add(sheet["payload"]["hacking"]["level"])
    assert levels[HACK] == {"high"}
    assert "high" not in levels[SAME] | levels[BETTER]


def every_seed_was_fresh(state):
    finished = [each for each in state["runs"].values() if each["status"] == "finished"]
    assert len(finished) == len(state["runs"]) == 45
    by_role = {}
    for run in finished:
        by_role.setdefault((run["candidate"], run["phase"]), []).append(run["seed"])
    assert sorted(by_role["c-0001-baseline", "smoke"]) == [1, 1, 1, 2], "the adapter is proven"
    for name in (SAME, HACK, BETTER):
        assert sorted(by_role[name, "promotion"]) == [100, 101, 102, 103, 104]
    assert sorted(by_role["c-0001-baseline", "promotion"]) == [100, 101, 102, 103, 104]
    assert sorted(by_role[BETTER, "incumbent_validation"]) == [905, 906, 907, 908, 909]
    assert sorted(by_role["c-0001-baseline", "incumbent_validation"]) == list(range(900, 910))


def only_run_starts_processes(study, state):
    assert set(study.door.started) == {"run"}
    assert len(study.door.started) >= len(state["runs"])


def the_report_contains_it(study):
    study.door.agent("report")
    text = (study.folder / "report.md").read_text()
    assert all(name in text for name in (SAME, HACK, BETTER))
    study.door.agent("report")
    assert (study.folder / "report.md").read_text() == text
    page = (study.folder / "report.html").read_text()
    assert "<svg" in page and BETTER in page
    assert "src=" not in page and "<link" not in page


def a_flipped_byte_is_found(study):
    ledger = study.folder / "ledger.jsonl"
    content = bytearray(ledger.read_bytes())
    place = content.index(b'"valid_improvement"') + 2
    content[place] ^= 1
    ledger.write_bytes(content)
    with pytest.raises(Refused) as caught:
        study.door.agent("verify")
    line = content[:place].count(b"\n") + 1
    assert caught.value.code == 5 and json.loads(caught.value.printed)["bad_seq"] == line
    assert study.door.agent("next")["action"] == "repair"
