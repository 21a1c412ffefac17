"""The toy study from its beginning to its end, on the command line."""

import json
import shlex
from pathlib import Path
from typing import Any, NamedTuple

from telic.studies.documents.base import update_yaml, write_yaml
from tests.studies.toy.interfaces import CommandLine
from tests.studies.toy.making import COMMAND, CONTRACT, make_repository, write_measures

MOST_QUESTIONS = 30


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
    """A study of the toy repository; `asked` is every question that it asked."""

    def __init__(self, door: CommandLine, root: Path) -> None:
        self.door, self.root = door, root
        self.folder = root / ".telic/tasks/reach/studies/weights"
        self.asked: list[dict[str, Any]] = []
        self.ideas = list(IDEAS)

    def begin(self) -> None:
        """Go from a repository to a contract that a person approved."""
        make_repository(self.root)
        door = self.door
        door.agent(
            "init", "--task", "reach", "--study", "weights", "--behavior", "stop in the middle"
        )
        train = {"argv": COMMAND.split(), "cwd": "."}
        update_yaml(self.root / ".telic/tasks/reach/adapter.yaml", {"commands": {"train": train}})
        assert door.agent("adapter")["check"]["ok"]
        write_measures(self.root, self.folder)
        answers = [f"{place}={json.dumps(value)}" for place, value in CONTRACT.items()]
        words = [word for each in answers for word in ("--set", each)]
        door.agent("contract", *words, "--amend", "the first agreement")
        door.person("approve")

    def live(self) -> None:
        """Run the study and answer its questions until it wants more ideas than there are."""
        while len(self.asked) < MOST_QUESTIONS:
            printed = self.door.agent("run", "--confirm", "RUN_CANDIDATE")["next"]
            if printed["action"] == "propose" and not self.ideas:
                return
            self.asked.append(printed)
            if printed["action"] == "propose":
                self._propose(self.ideas.pop(0))
            elif printed["action"] == "review":
                found = "Racing pays, but let what was agreed on decide: success on fresh seeds."
                name = printed["args"]["candidate"]
                self.door.person("audit", name, "--no-exploit", "--finding", found)
            else:
                words = shlex.split(printed["command"])
                assert words[:2] == ["telic", "study"], printed
                reason = "the audit says so"
                self.door.person(*(reason if word == "TEXT" else word for word in words[2:]))
        raise AssertionError(f"no end after {MOST_QUESTIONS} questions: {self.asked[-1]}")

    def _propose(self, idea: Idea) -> None:
        path = self.root.parent / "idea.yaml"
        draft = {
            "title": idea.title,
            "kind": "reward_tuning",
            "change": {"overrides": {idea.param: {"from": idea.was, "to": idea.to}}},
            "hypothesis": {
                "statement": idea.because,
                "mechanism": "The terms pull against each other.",
                "expected": {"metric": "success", "direction": "max", "magnitude": 0.1},
                "falsifier": "success does not rise by 0.05",
            },
            "evidence_refs": [next(iter(self.door.agent("status")["evidence"]))],
        }
        write_yaml(path, draft)
        self.door.agent("propose", str(path))
