"""The toy study from its beginning to its end, doing at each step what `telic study next` says.

The story is the same whoever tells it: a `Door` is the command line, or a host over MCP.
"""

import json
import shlex
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from telic.studies.documents.base import update_yaml, write_yaml
from tests.studies.toy.doors import Door
from tests.studies.toy.making import COMMAND, CONTRACT, make_repository, write_measures

MOST_STEPS = 400
PATIENCE_S = 60.0


class Idea(NamedTuple):
    """A change of one weight, and what its author believes."""

    title: str
    param: str
    was: float
    to: float
    because: str


# Those that share the baseline as their rival come first: its runs on their seeds serve both.
IDEAS = (
    Idea("smoother", "reward.smooth", 0.01, 0.02, "Less jerk lets it stop more exactly."),
    Idea("more pace", "reward.pace", 0.05, 2.0, "Getting going earlier leaves time to stop."),
    Idea("less effort", "reward.effort", 0.4, 0.1, "Cheaper pushes let it arrive in time."),
)


class ToyStudy:
    """A study of the toy repository; `steps` is what was done because `next` said so."""

    def __init__(self, door: Door, root: Path) -> None:
        self.door = door
        self.root = root
        self.folder = root / ".telic/tasks/reach/studies/weights"
        self.steps: list[dict[str, Any]] = []
        self.ideas = list(IDEAS)
        self.reviewed: list[str] = []
        self._patient_until = 0.0

    def begin(self) -> None:
        """Go from a repository to a contract that a person approved."""
        make_repository(self.root)
        door = self.door
        door.agent("init", "--task", "reach", "--study", "weights", "--says", "stop in the middle")
        door.agent("adapter", "--draft")
        train = {"argv": COMMAND.split(), "cwd": "."}
        update_yaml(self.root / ".telic/tasks/reach/adapter.yaml", {"commands": {"train": train}})
        assert door.agent("adapter")["check"]["ok"]
        write_measures(self.root, self.folder)
        answers = [f"{place}={json.dumps(value)}" for place, value in CONTRACT.items()]
        words = [word for each in answers for word in ("--set", each)]
        door.agent("contract", *words, "--amend", "the first agreement")
        door.person("approve")

    def go_on(self, until: str | None = None) -> None:
        """Do what `next` says until nothing is left to do, or until an action comes up."""
        while len(self.steps) < MOST_STEPS:
            said = self.door.agent("next")
            if said["action"] == until or self._is_over(said):
                return
            self.steps.append(said)
            before = self._ledger()
            self._do(said)
            assert said["action"] == "wait" or self._ledger() != before, f"leads nowhere: {said}"
        raise AssertionError(f"no end after {MOST_STEPS} steps: {self.counts()}")

    def counts(self) -> Counter[str]:
        """Return how often each action was taken."""
        return Counter(each["action"] for each in self.steps)

    def _do(self, said: dict[str, Any]) -> None:
        match said["action"]:
            case "agree":
                name = said["args"]["candidate"]
                assert said["command"] == f"telic study approve experiment --candidate {name}"
                self.door.person("approve", "experiment", "--candidate", name)
            case "review":
                self.reviewed.append(said["args"]["candidate"])
                found = "Racing pays, but let what was agreed on decide: success on fresh seeds."
                words = ("audit", said["args"]["candidate"], "--no-exploit", "--finding", found)
                self.door.person(*words)
            case "decide" if said["blocking"]:
                self.door.person(*_words(said))
            case "propose":
                self._propose(said["args"])
            case "wait":
                self._wait()
            case _:
                self.door.agent(*_words(said))
        if said["action"] != "wait":
            self._patient_until = time.monotonic() + PATIENCE_S

    def _propose(self, args: dict[str, Any]) -> None:
        if args.get("kind") == "baseline":
            self.door.agent("run")
            return
        idea = self.ideas.pop(0)
        expected = {"metric": "success", "direction": "max", "magnitude": 0.1}
        self.draft(
            title=idea.title,
            kind="reward_tuning",
            change={"overrides": {idea.param: {"from": idea.was, "to": idea.to}}},
            hypothesis={
                "statement": idea.because,
                "mechanism": "The terms pull against each other.",
                "expected": expected,
                "falsifier": "success does not rise by 0.05",
            },
            evidence_refs=[next(iter(self.door.agent("status")["evidence"]))],
        )

    def draft(self, **values: Any) -> dict[str, Any]:
        """Propose a candidate from a file; raises Refused when a check fails."""
        path = self.root.parent / "idea.yaml"
        write_yaml(path, values)
        return self.door.agent("propose", str(path))

    def _wait(self) -> None:
        assert time.monotonic() < self._patient_until, "nothing ends"
        time.sleep(0.05)

    def _is_over(self, said: dict[str, Any]) -> bool:
        return said["action"] == "propose" and not self.ideas and "role" in said["args"]

    def _ledger(self) -> bytes:
        return (self.folder / "ledger.jsonl").read_bytes()


def _words(said: dict[str, Any]) -> list[str]:
    """Return the command that `next` names, with a reason where it asks for one."""
    words = shlex.split(said["command"])
    assert words[:2] == ["telic", "study"], said
    return [said["why"] if word == "TEXT" else word for word in words[2:]]
