"""What is heard of a session: an intent that is read, tried, trained and judged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from telic.core.events.base import Emitted, Facts


@dataclass(frozen=True, kw_only=True)
class SessionStart(Emitted):
    """A session begins, or goes on."""

    NAME: ClassVar[str] = "session.start"

    session: str
    """name of its folder"""
    path: str
    """its folder"""
    intent: str
    """what the robot should do, in words"""
    env: str
    """environment"""
    resumed: bool
    """whether the intent was read before"""


@dataclass(frozen=True, kw_only=True)
class SessionAsked(Emitted):
    """The intent was read: what must be measurable for it to be fulfilled."""

    NAME: ClassVar[str] = "session.asked"

    schema_version: int = 1
    """of asked.json"""
    criteria: tuple[Facts, ...]
    """fields of Criterion each; "title" says it in words"""
    doubts: tuple[str, ...] = ()
    """what the author is not sure about"""
    not_understood: tuple[str, ...] = ()
    """words of the intent that nothing was made of"""


@dataclass(frozen=True, kw_only=True)
class SessionTried(Emitted):
    """Reward and judge were tried on episodes whose worth is known."""

    NAME: ClassVar[str] = "session.tried"

    examples: tuple[Facts, ...]
    """what each example scored, and what it should have"""
    judge_problems: tuple[str, ...] = ()
    """where the judge is wrong"""
    reward_problems: tuple[str, ...] = ()
    """where the reward is wrong"""


@dataclass(frozen=True, kw_only=True)
class SessionForecast(Emitted):
    """What the session is going to take, said before anything is trained."""

    NAME: ClassVar[str] = "session.forecast"

    iterations: int
    """rewards that may be tried"""
    first_steps: int
    """environment steps if the first try passes"""
    most_steps: int
    """environment steps if every iteration is needed"""
    steps_per_second: float | None
    """as measured on this machine; None: this environment was never trained here"""
    measured_runs: int
    """trainings that this was measured on"""
    first_seconds: float | None
    """seconds of training if the first try passes"""
    most_seconds: float | None
    """seconds of training if every iteration is needed"""
    calls: int
    """model calls if every iteration is needed"""
    usd: float | None
    """price of them; None: unknown"""
    short: tuple[str, ...]
    """limits that will end the session before its last iteration: hours, steps, usd, calls"""


@dataclass(frozen=True, kw_only=True)
class SessionIterationStart(Emitted):
    """A reward is about to be trained."""

    NAME: ClassVar[str] = "session.iteration"

    number: int
    """iteration, from 1"""
    change: str
    """what is different from its parent, in words"""


@dataclass(frozen=True, kw_only=True)
class SessionSelected(Emitted):
    """Short trials of several variants ended; one is trained on."""

    NAME: ClassVar[str] = "session.selected"

    number: int
    """iteration"""
    kept: int
    """variant that is trained on, from 0"""
    scores: tuple[float | None, ...]
    """mean score of every variant; None: could not be judged"""


@dataclass(frozen=True, kw_only=True)
class SessionCheckpoint(Emitted):
    """What the judge says of policies that are still being trained."""

    NAME: ClassVar[str] = "session.checkpoint"

    number: int
    """iteration"""
    step: int
    """environment steps per member"""
    scores: dict[str, float | None]
    """mean score by member; None: could not be judged"""


@dataclass(frozen=True, kw_only=True)
class SessionJudged(Emitted):
    """An iteration was trained and judged; its judgment.json without the single policies."""

    NAME: ClassVar[str] = "session.judged"

    schema_version: int = 1
    """of judgment.json"""
    number: int
    """iteration"""
    parent: int | None = None
    """iteration it was made from"""
    change: str = ""
    """what is different from its parent, in words"""
    passed: bool
    """whether it was proven to do what was asked"""
    score: float | None
    """mean score of the policies; None: unknown"""
    variant: int = 0
    """variant that was trained in full"""
    best: str | None
    """its best policy; None: it has none"""
    tags: tuple[str, ...] = ()
    """what is lacking"""
    steps: int = 0
    """environment steps of all policies, trials included"""
    training_s: float = 0.0
    """seconds of training"""
    judging_s: float = 0.0
    """seconds of judging"""
    failure: str | None = None
    """why it could not be trained"""
    alarms: tuple[str, ...] = ()
    """policies whose return rose while their score fell"""


@dataclass(frozen=True, kw_only=True)
class BudgetLeft:
    """What may still be spent; None is no limit, or unknown for dollars."""

    hours: float | None = None
    """of work"""
    steps: int | None = None
    """environment steps of all policies"""
    usd: float | None = None
    """dollars for models"""
    calls: int | None = None
    """model calls"""


@dataclass(frozen=True, kw_only=True)
class SessionSpent(Emitted):
    """What the session has spent so far, and what is left."""

    NAME: ClassVar[str] = "session.spent"

    number: int | None = None
    """iteration that has just ended"""
    seconds: float
    """of work, waiting left out"""
    steps: int
    """environment steps of all policies"""
    usd: float | None
    """None: the price of a call is unknown"""
    calls: int
    """model calls"""
    left: BudgetLeft = BudgetLeft()
    """what may still be spent"""


@dataclass(frozen=True, kw_only=True)
class SessionPaused(Emitted):
    """Somebody asked the session to wait."""

    NAME: ClassVar[str] = "session.paused"

    message: str
    """how to let it go on"""


@dataclass(frozen=True, kw_only=True)
class SessionResumed(Emitted):
    """A paused session goes on."""

    NAME: ClassVar[str] = "session.resumed"


@dataclass(frozen=True, kw_only=True)
class SessionWaiting(Emitted):
    """The session waits for a person or for processors."""

    NAME: ClassVar[str] = "session.waiting"

    reason: str
    """approval or cores"""
    message: str
    """what it waits for, in words"""


@dataclass(frozen=True, kw_only=True)
class SessionAdmitted(Emitted):
    """A session that waited for processors has them."""

    NAME: ClassVar[str] = "session.admitted"

    waited_s: float
    """seconds it waited"""


@dataclass(frozen=True, kw_only=True)
class PersonNote:
    """Something a person wants of the next revision."""

    id: str = ""
    """its name"""
    time: str = ""
    """UTC, ISO 8601"""
    author: str
    """who said it"""
    text: str
    """what was said"""


@dataclass(frozen=True, kw_only=True)
class SessionNotes(Emitted):
    """A revision answers what people said."""

    NAME: ClassVar[str] = "session.notes"

    number: int
    """iteration that answers"""
    notes: tuple[PersonNote, ...]
    """who said what"""
