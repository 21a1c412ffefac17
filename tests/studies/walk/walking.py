"""Walk a study at random, and ask at every step: does `next` name something that can be done?"""

import json
import random
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from telic.errors import TelicError
from telic.studies.launch.supervisor import STOP_FILE
from telic.studies.loop import needs_person, take_step
from telic.studies.next import note_next
from tests.studies.launch.toy_study import prove
from tests.studies.walk import world as worlds
from tests.studies.walk.moves import MOVES
from tests.studies.walk.person import AGENT, answer
from tests.studies.walk.world import Crash, World

WHIM = 0.3
"""share of the steps at which something happens that nobody asked for"""
CRASHES = 0.12


class Walk:
    """Random walk of one study, with its events in `story` for debugging."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.story: list[str] = []
        self.states: set[str] = set()

    def step(self) -> bool:
        """Let one thing happen; False when the study is over."""
        luck = self.world.luck
        if luck.random() < WHIM:
            self._whim()
        step = self._next()
        if step is None:
            return True
        self.states.add(self._state(step))
        if step.action == "stop" and step.args.get("rule") == "closed":
            return False
        before = self._traces()
        self.story.append(f"next: {step.action} {step.args} {step.command} ({step.why})")
        if self._crashes(lambda: self._follow(step)):
            return True
        assert self._traces() != before or step.action == "wait", "it leads nowhere"
        return True

    def _whim(self) -> None:
        name = self.world.luck.choice(list(MOVES))
        self.story.append(f"whim: {name}")

        def move():
            try:
                MOVES[name](self.world, self.world.study)
            except TelicError as error:
                self.story.append(f"  refused: {error.message}")

        self._crashes(move)

    def _next(self):
        found = []
        if self._crashes(lambda: found.append(note_next(self.world.study))):
            return None
        return found[0]

    def _follow(self, step) -> None:
        if step.action == "wait":
            MOVES["end run"](self.world, self.world.study)
        elif step.action == "prove":
            prove(self.world.study)
        elif needs_person(step):
            answer(self.world, step)
        else:
            take_step(self.world.study, step, AGENT)

    def _crashes(self, deed) -> bool:
        """Do something; now and then the process dies at one of its writes."""
        luck = self.world.luck
        self.world.until_crash = luck.randrange(25) if luck.random() < CRASHES else None
        try:
            deed()
        except Crash:
            self.story.append("  crashed")
            return True
        finally:
            self.world.until_crash = None
        return False

    def _traces(self):
        study = self.world.study
        files = (study.folder.ledger, study.folder.contract, study.folder.adapter)
        texts = tuple(path.read_bytes() for path in (*files, study.root / "evaluate.py"))
        copies = tuple(
            path.read_bytes()
            for path in sorted(study.folder.candidates.glob("*/revisions/*/candidate.json"))
        )
        asked = tuple(
            path.read_bytes() for path in sorted(study.folder.runs.glob(f"*/{STOP_FILE}"))
        )
        return texts, copies, asked, self.world.head, self.world.dirty

    def _state(self, step) -> str:
        state = self.world.study.state
        candidates = sorted(f"{x.status}/{x.phase}" for x in state.candidates.values())
        runs = sorted({f"{x.status}" for x in state.runs.values()})
        stops = sorted(x.rule for x in state.fired_stops)
        pending = len(state.pending_approvals)
        found = (candidates, runs, stops, pending, state.study_status, step.action)
        return json.dumps(found, default=str)


class Seen(NamedTuple):
    """The states that lives led to, and the stories that got stuck."""

    states: set[str]
    stuck: list[str]


def explore(lives: int, steps: int, seed: int, home: Path) -> Seen:
    """Live many lives of a study from its beginning; ends when one gets stuck."""
    kept = home.with_name("kept")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TELIC_CONFIG_DIR", str(home / "config"))
        worlds.make_template(home)
        shutil.copytree(home, kept)
    seen = Seen(set(), [])
    for life in range(lives):
        shutil.rmtree(home)
        shutil.copytree(kept, home)
        taken = Walk(World(home, random.Random(f"{seed}/{life}")))
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("TELIC_CONFIG_DIR", str(home / "config"))
            worlds.enter(patch, taken.world)
            try:
                while len(taken.story) < steps and taken.step():
                    pass
            except Exception as error:
                story = "\n".join(taken.story)
                seen.stuck.append(f"{seed}/{life} got stuck:\n{story}\n{error!r}")
        seen.states.update(taken.states)
    return seen
