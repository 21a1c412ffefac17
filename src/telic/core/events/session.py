"""What is heard of a session: an intent that is read, tried, trained and judged."""

from __future__ import annotations

from dataclasses import field
from typing import Union

from telic.core.events import Emitted, Facts, event, record


@event("session.start")
class SessionStart(Emitted):
    """A session begins, or goes on."""

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


@event("session.asked")
class SessionAsked(Emitted):
    """The intent was read: what must be measurable for it to be fulfilled."""

    schema_version: int = 1
    """of asked.json"""
    criteria: tuple[Facts, ...]
    """fields of Criterion each; "title" says it in words"""
    doubts: tuple[str, ...] = ()
    """what the author is not sure about"""
    not_understood: tuple[str, ...] = ()
    """words of the intent that nothing was made of"""
    dropped: tuple[str, ...] = ()
    """numbers and modifiers that were read and that no criterion carries"""
    covered: tuple[Facts, ...] = ()
    """fields of Covered each: words of the intent, and the criteria that carry them"""


@event("session.tried")
class SessionTried(Emitted):
    """Reward and judge were tried on episodes whose worth is known."""

    examples: tuple[Facts, ...]
    """what each example scored, and what it should have"""
    judge_problems: tuple[str, ...] = ()
    """where the judge is wrong"""
    reward_problems: tuple[str, ...] = ()
    """where the reward is wrong"""


@event("session.forecast")
class SessionForecast(Emitted):
    """What the session is going to take, said before anything is trained."""

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


@event("session.iteration")
class SessionIterationStart(Emitted):
    """A reward is about to be trained."""

    number: int
    """iteration, from 1"""
    change: str
    """what is different from its parent, in words"""


@event("session.selected")
class SessionSelected(Emitted):
    """Short trials of several variants ended; one is trained on."""

    number: int
    """iteration"""
    kept: int
    """variant that is trained on, from 0"""
    scores: tuple[float | None, ...]
    """mean score of every variant; None: could not be judged"""


@event("session.checkpoint")
class SessionCheckpoint(Emitted):
    """What the judge says of policies that are still being trained."""

    number: int
    """iteration"""
    step: int
    """environment steps per member"""
    scores: dict[str, float | None]
    """mean score by member; None: could not be judged"""
    unjudged: tuple[str, ...] = ()
    """why episodes have no score, each reason once with a count"""


@event("session.judged")
class SessionJudged(Emitted):
    """An iteration was trained and judged; its judgment.json without the single policies."""

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
    scores: dict[str, float | None] = field(default_factory=dict[str, float | None])
    """of each policy"""
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
    unjudged: tuple[str, ...] = ()
    """why episodes have no score, each reason once with a count"""
    judge_doubted: str | None = None
    """on what the pictures contradict the judge's code, also after a closer look"""


@record
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


@event("session.spent")
class SessionSpent(Emitted):
    """What the session has spent so far, and what is left."""

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


@event("session.paused")
class SessionPaused(Emitted):
    """Somebody asked the session to wait."""

    message: str
    """how to let it go on"""


@event("session.resumed")
class SessionResumed(Emitted):
    """A paused session goes on."""


@event("session.waiting")
class SessionWaiting(Emitted):
    """The session waits for a person or for processors."""

    reason: str
    """approval or cores"""
    message: str
    """what it waits for, in words"""


@event("session.admitted")
class SessionAdmitted(Emitted):
    """A session that waited for processors has them."""

    waited_s: float
    """seconds it waited"""


@record
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


@event("session.notes")
class SessionNotes(Emitted):
    """A revision answers what people said."""

    number: int
    """iteration that answers"""
    notes: tuple[PersonNote, ...]
    """who said what"""


SessionEvent = Union[  # noqa: UP007 - a union of many reads better as a list
    SessionStart,
    SessionAsked,
    SessionTried,
    SessionForecast,
    SessionIterationStart,
    SessionSelected,
    SessionCheckpoint,
    SessionJudged,
    SessionSpent,
    SessionPaused,
    SessionResumed,
    SessionWaiting,
    SessionAdmitted,
    SessionNotes,
]
