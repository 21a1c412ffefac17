"""Whole sessions that take a second or two: no workers, no pictures, small batches, a script."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module

import pytest

from telic import llm
from telic.authors import _context, author
from telic.authors import _model as model
from telic.llm import CallLimits, Models, Request
from telic.rendering.job import Rendering
from telic.sandbox import host
from telic.session import _judgment as judgment
from telic.session import _report_sections as pictures
from telic.session import _training as training
from telic.session import loop
from telic.session.loop import Session, run_session
from telic.storage.files import read_json
from telic.storage.layout import SessionFolder
from telic.testing.models import Scripted
from telic.training import _worker as worker
from telic.training.plan import PRESETS
from telic.training.run import LocalChannel
from tests.authors.scripts import REVISION, SCRIPT
from tests.event_list import EventList
from tests.training.small import SETTINGS

FAST = CallLimits(deadline_s=600, attempt_s=300, attempts=2, first_wait_s=0.01, longest_wait_s=0.02)
SMALL = {
    "seeds": (1, 2),
    "episodes": 4,
    "steps": 256,
    "vision": False,
    "model": "scripted",
    "robustness": False,
    "start_seed": 0,  # the same episodes, whatever a session is called
}
PASSING = {**SCRIPT, "elicitor": {**SCRIPT["elicitor"], "demonstration": [], "seconds": 1.0}}
"""answers with which policies prove the threshold at once; their judge takes anything that lasts"""
_LASTS = {**SCRIPT["elicitor"]["criteria"][0], "goal": 50.0}
FAILING = {
    **PASSING,
    "elicitor": {**PASSING["elicitor"], "criteria": [_LASTS]},
    "reviser": {**REVISION, "weights": [{"speed": 2.0}]},
}
"""answers with which it revises and never passes"""
VARYING = {**FAILING, "reviser": REVISION}
"""the same, with two variants to choose from"""
QUANTITIES, MEASURED = _context._quantities, {}
BATCH = SETTINGS["num_envs"] * SETTINGS["horizon"]
"""steps of a member between two updates"""
_TIMES = ("training_s", "judging_s", "seconds", "session", "policy_hash")
"""what differs between two sessions; a policy's file also says when and where it was made"""


@contextmanager
def at_home() -> Iterator[pytest.MonkeyPatch]:
    """Do the workers' work in this process, learn from small batches, and draw nothing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(host, "run_worker", _work_here)
        for module in (judgment, training):
            patch.setattr(module, "CHOOSING", 4)
        patch.setitem(PRESETS["default"], "HalfCheetah-v5", (1_000_000, SETTINGS))
        patch.setattr(pictures, "render", _draw_nothing)
        # Scripts judge by the length of an episode: no second reader, no hidden examples.
        patch.setattr(loop, "PROBED", False)
        patch.setattr(author, "second_reading", lambda intent, spec: None)
        patch.setattr(model, "not_judged", lambda *_: ())
        # What is the same in every session is computed once for all tests.
        patch.setattr(_context, "_quantities", _quantities_once)
        patch.setattr(Request, "answer_schema", property(lambda asked: _schema_of(asked.answer)))
        patch.setattr(worker, "FunctionSnapshot", Unsealed)
        yield patch


class Unsealed:
    """Seals nothing: this process has a thousand modules that no worker has."""

    def check(self):
        """Find nothing changed."""


@cache
def _schema_of(answer):
    return answer.model_json_schema()


def _quantities_once(spec, episodes):
    """Measure the quantities of an environment once for all tests."""
    key = spec.id, *episodes
    if key not in MEASURED:
        MEASURED[key] = QUANTITIES(spec, episodes)
    return MEASURED[key]


def _work_here(entry, payload, *, on_message=lambda message: None, should_stop=None, **_):
    name, _, function = entry.partition(":")
    module = import_module(name)
    channel = HomeChannel(on_message, should_stop or (lambda: False))
    prepare = getattr(module, "prepare", lambda *_: None)
    return getattr(module, function or "run")(prepare(payload, channel), payload, channel)


class HomeChannel(LocalChannel):
    """Answers what a worker asks, too."""

    def send(self, message):
        self._answer = self._receive(json.loads(json.dumps(message)))

    def reply(self):
        return self._answer

    def ask(self, message):
        self.send(message)
        return self.reply()


def _draw_nothing(jobs, **_):
    error = "nothing is drawn in this test"
    return [Rendering(output=each.output, backend="osmesa", error=error) for each in jobs]


class Asking:
    """Runs sessions whose model follows a script."""

    def __init__(self, patch: pytest.MonkeyPatch, runs_dir) -> None:
        self._patch = patch
        self.runs_dir = runs_dir
        self.events = EventList()
        """of the last session"""
        self.requests: list[Request] = []
        """everything that was ever asked"""

    def connect(self, script, limits: CallLimits = FAST) -> None:
        """Use this script for all models."""
        provider = Scripted(script)
        provider.requests = self.requests

        def connect(name, folder, **options):
            return Models(provider, folder, **{**options, "limits": limits})

        self._patch.setattr(llm, "connect", connect)

    def run(self, script, *, intent="run", until: str | None = None, limits=FAST, **changes):
        """Run a session, or the beginning of it; returns it and the roles that were asked."""
        self.connect(script, limits)
        self.events, before = EventList(), len(self.requests)
        request = {**SMALL, "iterations": 1, "runs_dir": self.runs_dir, **changes}

        def should_stop() -> bool:
            return until is not None and until in self.kinds()

        session = run_session(intent, on_event=self.events, should_stop=should_stop, **request)
        return session, [each.role for each in self.requests[before:]]

    def kinds(self) -> list[str]:
        """Return the kinds of the events so far, in order."""
        return [each["event"] for each in self.events]

    def reported(self, kind: str) -> list[dict]:
        """Return the events of one kind."""
        return [each for each in self.events if each["event"] == kind]

    @property
    def folder(self) -> SessionFolder:
        """Return the only session there is."""
        (path,) = self.runs_dir.iterdir()
        return SessionFolder(path)


def results(session: Session | SessionFolder) -> dict:
    """Return all results of a session except times and its name."""
    folder = SessionFolder(session.path)
    found = {"summary": read_json(folder.summary)}
    for path in (folder.asked, folder.author, folder.trial):
        found[path.name] = read_json(path)
    for number in folder.iterations():
        files = folder.iteration(number)
        for path in (files.candidate, files.selection, files.judgment):
            found[f"{number} {path.name}"] = read_json(path) if path.exists() else None
    return _without_times(found)


def _without_times(value):
    if isinstance(value, dict):
        return {key: _without_times(each) for key, each in value.items() if key not in _TIMES}
    return [_without_times(each) for each in value] if isinstance(value, list) else value
