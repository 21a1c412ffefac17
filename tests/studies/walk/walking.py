"""Walk a study at random, and ask at every step: does `next` name something that can be done?

A life goes on for a few steps from a moment of an earlier one; a moment that led to a state which
nobody had seen is kept, and others go on from there. So lives become long, and each costs little.

    python -m tests.studies.walk.walking LIVES SEEDS FOLDER

LIVES are of each seed; SEEDS is one (3), or several that walk at once in a process each (1-6). Each
prints one line of JSON, and the last line is of all of them together: a state that two of them saw
counts once. A FOLDER in memory (/dev/shm) is quicker, and spares the disk.
"""

import json
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from hashlib import sha256
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from telic.errors import TelicError
from telic.studies.drive import needs_somebody, take_step
from telic.studies.launch.supervisor import STOP_FILE
from telic.studies.next import note_next
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


@dataclass
class Seen:
    """What lives led to; those of several seeds are added up by `add`."""

    lives: int = 0
    sequences: set[str] = field(default_factory=set)
    states: set[str] = field(default_factory=set)
    actions: Counter[str] = field(default_factory=Counter)
    stuck: list[str] = field(default_factory=list)
    steps: int = 0
    events: int = 0
    """that were written to ledgers"""
    deepest: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0

    def note(self, life: Walk, start: Moment, end: Moment) -> None:
        """Take in a life that did not get stuck."""
        self.states |= life.states
        self.actions += life.seen
        self.steps += len(life.story) - len(start.story)
        self.events += end.events - start.events
        self.deepest = max(self.deepest, len(life.story))
        self.sequences.add(_digest(life.story))

    def add(self, other: "Seen") -> None:
        """Add what another seed saw at the same time: clocks run beside each other."""
        self.states |= other.states
        self.sequences |= other.sequences
        self.actions += other.actions
        self.stuck += other.stuck
        for name in ("lives", "steps", "events", "cpu_seconds"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.deepest = max(self.deepest, other.deepest)
        self.seconds = max(self.seconds, other.seconds)

    def summary(self) -> dict[str, Any]:
        """Return the numbers, for a line of JSON."""
        return {
            "lives": self.lives,
            "different_sequences": len(self.sequences),
            "steps": self.steps,
            "events": self.events,
            "deepest": self.deepest,
            "states": len(self.states),
            "stuck": len(self.stuck),
            "seconds": round(self.seconds, 1),
            "cpu_seconds": round(self.cpu_seconds, 1),
            "actions": dict(self.actions.most_common()),
        }


def explore(lives: int, seed: int, home: Path, steps: int = STEPS) -> Seen:
    """Live many lives, each branching off from a moment of another; returns what was seen."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TELIC_CONFIG_DIR", str(home / "config"))
        worlds.make_template(home)
    luck, began, busy = random.Random(seed), time.monotonic(), time.process_time()
    moments, seen = Moments(Moment.of(World(home, luck), []), luck), Seen()
    for _ in range(lives):
        start = moments.choose()
        seen.lives += 1
        try:
            life, end = live_on(start, home, random.Random(luck.random()), steps)
        except AssertionError as error:
            seen.stuck.append(str(error))
            sys.stderr.write(f"{error}\n\n")
            if len(seen.stuck) > int(os.environ.get("MOST_STUCK", "0")):
                break
            continue
        if life.states - seen.states and not life.is_over:
            moments.keep(end)
        seen.note(life, start, end)
        seen.seconds, seen.cpu_seconds = time.monotonic() - began, time.process_time() - busy
        if seen.lives % 500 == 0:
            so_far = f"{seen.lives} lives, {len(seen.states)} states, {seen.seconds:.0f} s"
            sys.stderr.write(f"seed {seed}: {so_far}\n")
    return seen


def _digest(story: Sequence[str]) -> str:
    """Return what tells sequences apart, in every process alike."""
    return sha256("\n".join(map(_kind, story)).encode()).hexdigest()


def _kind(line: str) -> str:
    """Return what happened, without the names of runs and candidates, which differ every time."""
    return " ".join(line.split()[:3]) if line.startswith("whim") else " ".join(line.split()[:2])


def main(lives: int, seeds: Sequence[int], folder: Path) -> None:
    """Live that many lives for each seed, each in a process of its own; then say what all saw."""
    together = Seen()
    with ProcessPoolExecutor(len(seeds), get_context("spawn")) as pool:
        waiting = {pool.submit(explore, lives, x, folder / f"seed_{x}"): x for x in seeds}
        for done in as_completed(waiting):
            seen = done.result()
            together.add(seen)
            print(json.dumps({"seed": waiting[done], **seen.summary()}), flush=True)
    print(json.dumps({"seeds": list(seeds), **together.summary()}))


if __name__ == "__main__":
    _first, _, _last = sys.argv[2].partition("-")
    _seeds = range(int(_first), int(_last or _first) + 1)
    main(int(sys.argv[1]), _seeds, Path(sys.argv[3]))
