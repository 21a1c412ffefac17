"""Walk a study at random, and ask at every step: does `next` name something that can be done?

python -m tests.studies.walk.walking WALKS SEED FOLDER
"""

import json
import os
import random
import shutil
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from telic.errors import TelicError
from telic.studies.drive import needs_somebody, take_step
from telic.studies.next import note_next
from tests.studies.walk import world as worlds
from tests.studies.walk.moves import MOVES
from tests.studies.walk.person import AGENT, answer
from tests.studies.walk.world import Crash, World

STEPS = 40
WHIM = 0.3
"""share of the steps at which something happens that nobody asked for"""
CRASHES = 0.12


class Walk:
    """One study's life; `story` is what happened, for whoever has to find out why it got stuck."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.story: list[str] = []
        self.seen: Counter[str] = Counter()
        self.states: set[str] = set()

    def step(self) -> bool:
        """Let one thing happen; False when the study is over."""
        luck = self.world.luck
        if luck.random() < WHIM:
            self._whim()
        said = self._next()
        if said is None:
            return True
        self.seen[f"{said.action} {said.args.get('gate', '')}".strip()] += 1
        self.states.add(self._state(said))
        if said.action == "stop" and said.args.get("rule") == "closed":
            return False
        before = self._traces()
        self.story.append(f"next: {said.action} {said.args} {said.command} ({said.why})")
        if self._crashes(lambda: self._follow(said)):
            return True
        assert self._traces() != before or said.action == "wait", "it leads nowhere"
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

    def _follow(self, said) -> None:
        if said.action == "wait":
            MOVES["end run"](self.world, self.world.study)
        elif needs_somebody(said):
            answer(self.world, said)
        else:
            take_step(self.world.study, said, AGENT)

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
            path.read_bytes() for path in sorted(study.folder.candidates.glob("*/candidate.json"))
        )
        return texts, copies, self.world.head, self.world.dirty

    def _state(self, said) -> str:
        state = self.world.study.state
        candidates = sorted(f"{x.status}/{x.phase}" for x in state.candidates.values())
        runs = sorted({f"{x.status}" for x in state.runs.values()})
        stops = sorted(x.rule for x in state.fired_stops)
        pending = len(state.pending_approvals)
        found = (candidates, runs, stops, pending, state.study_status, said.action)
        return json.dumps(found, default=str)


def walk(template: Path, home: Path, seed: int, steps: int = STEPS) -> Walk:
    """Take one walk; raises AssertionError with its story when it gets stuck."""
    luck = random.Random(seed)
    shutil.copytree(template, home, dirs_exist_ok=True)
    world = World(home, luck)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TELIC_CONFIG_DIR", str(home / "config"))
        worlds.enter(patch, world)
        taken = Walk(world)
        try:
            for _ in range(steps):
                if not taken.step():
                    break
        except (TelicError, AssertionError, Exception) as error:
            story = "\n".join(taken.story[-25:])
            raise AssertionError(f"walk {seed} got stuck:\n{story}\n{error!r}") from error
    return taken


def run_walks(count: int, first: int, home: Path, steps: int = STEPS) -> dict:
    """Take many walks; returns what was seen."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TELIC_CONFIG_DIR", str(home / "template/config"))
        worlds.make_template(home / "template")
    template, states, seen, taken, stuck = home / "template", set(), Counter(), 0, []
    began = time.monotonic()
    for seed in range(first, first + count):
        where = home / f"walk-{seed}"
        try:
            found = walk(template, where, seed, steps)
            states |= found.states
            seen += found.seen
            taken += len(found.story)
        except AssertionError as error:
            stuck.append(str(error))
            sys.stderr.write(f"{error}\n\n")
            if len(stuck) > int(os.environ.get("MOST_STUCK", "0")):
                break
        shutil.rmtree(where, ignore_errors=True)
    return {
        "walks": count,
        "steps": taken,
        "states": len(states),
        "stuck": len(stuck),
        "seconds": round(time.monotonic() - began, 1),
        "actions": dict(seen.most_common()),
    }


if __name__ == "__main__":
    print(json.dumps(run_walks(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))))
