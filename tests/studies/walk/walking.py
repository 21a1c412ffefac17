"""Walk a study at random, and ask at every step: does `next` name something that can be done?

A life continues for a few steps from a moment of an earlier one; a moment that led to a new state
is kept, and others continue from there. So lives become long, and each costs little.
"""

import json
import random
from collections import Counter
from collections.abc import Sequence
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
from tests.studies.walk.world import Crash, Moment, World

STEPS = 2
"""of each life, after the moment that it branches off from"""
MOST_MOMENTS = 500
WHIM = 0.3
"""share of the steps at which something happens that nobody asked for"""
CRASHES = 0.12


class Walk:
    """One study's life; `story` is what happened, for whoever has to find out why it got stuck."""

    def __init__(self, world: World, story: Sequence[str] = ()) -> None:
        self.world = world
        self.story = list(story)
        self.is_over = False
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
            self.is_over = True
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
        elif said.action == "prove":
            prove(self.world.study)
        elif needs_person(said):
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
            path.read_bytes()
            for path in sorted(study.folder.candidates.glob("*/revisions/*/candidate.json"))
        )
        asked = tuple(
            path.read_bytes() for path in sorted(study.folder.runs.glob(f"*/{STOP_FILE}"))
        )
        return texts, copies, asked, self.world.head, self.world.dirty

    def _state(self, said) -> str:
        state = self.world.study.state
        candidates = sorted(f"{x.status}/{x.phase}" for x in state.candidates.values())
        runs = sorted({f"{x.status}" for x in state.runs.values()})
        stops = sorted(x.rule for x in state.fired_stops)
        pending = len(state.pending_approvals)
        found = (candidates, runs, stops, pending, state.study_status, said.action)
        return json.dumps(found, default=str)


class Moments:
    """Moments of lives that led somewhere new; from each of them other lives branch off."""

    def __init__(self, first: Moment, luck: random.Random) -> None:
        self._held = [first]
        self._chosen: Counter[Moment] = Counter()
        self._luck = luck
        self._texts: dict[bytes, bytes] = {}

    def choose(self) -> Moment:
        """Return a moment from which few lives went on; now and then the very beginning."""
        some = self._luck.sample(self._held, min(3, len(self._held)))
        chosen = min([*some, self._held[0]], key=lambda each: self._chosen[each])
        self._chosen[chosen] += 1
        return chosen

    def keep(self, moment: Moment) -> None:
        """Take in a moment; files that many moments share are held once."""
        for name, (text, mode) in moment.files.items():
            moment.files[name] = self._texts.setdefault(text, text), mode
        if len(self._held) < MOST_MOMENTS:
            self._held.append(moment)
        else:
            self._held[self._luck.randrange(1, MOST_MOMENTS)] = moment


def live_on(start: Moment, home: Path, luck: random.Random, steps: int) -> tuple[Walk, Moment]:
    """Go on from a moment; raises AssertionError with the whole story when it gets stuck."""
    world = start.restore(home, luck)
    taken = Walk(world, start.story)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TELIC_CONFIG_DIR", str(home / "config"))
        worlds.enter(patch, world)
        try:
            for _ in range(steps):
                if not taken.step():
                    break
        except Exception as error:
            story = "\n".join(taken.story)
            raise AssertionError(f"a life got stuck:\n{story}\n{error!r}") from error
    return taken, Moment.of(world, taken.story)


class Seen(NamedTuple):
    """The states and sequences of actions that lives led to, and the stories that got stuck."""

    states: set[str]
    sequences: set[str]
    stuck: list[str]


def explore(lives: int, seed: int, home: Path, steps: int = STEPS) -> Seen:
    """Live many lives, each branching off from a moment of another; ends when one gets stuck."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TELIC_CONFIG_DIR", str(home / "config"))
        worlds.make_template(home)
    luck = random.Random(seed)
    moments, seen = Moments(Moment.of(World(home, luck), []), luck), Seen(set(), set(), [])
    for _ in range(lives):
        try:
            life, end = live_on(moments.choose(), home, random.Random(luck.random()), steps)
        except AssertionError as error:
            seen.stuck.append(str(error))
            break
        if life.states - seen.states and not life.is_over:
            moments.keep(end)
        seen.states.update(life.states)
        # without the names of runs and candidates, which differ every time
        seen.sequences.add("\n".join(" ".join(line.split()[:2]) for line in life.story))
    return seen
