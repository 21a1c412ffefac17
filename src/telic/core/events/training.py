"""What is heard while policies are trained, evaluated and filmed."""

from __future__ import annotations

from dataclasses import field
from typing import Union

from telic.core.events import Emitted, Facts, event, record


@event("log")
class LogMessage(Emitted):
    """Something a person may want to know."""

    message: str
    """what happened, in words"""


@record
class ProbeFinding:
    """A remark about a reward."""

    name: str
    """stable name of the kind of remark"""
    message: str
    """what was seen, and what to do"""
    values: dict[str, float | None] = field(default_factory=dict[str, float | None])
    """the numbers"""


@event("probe.done")
class ProbeDone(Emitted):
    """A reward was tried on recorded transitions and may be trained with."""

    reward: str = ""
    """how the job calls the reward"""
    name: str = ""
    """how the reward calls itself"""
    mode: str
    """how its code is run: batched, vmap, looped or environment"""
    transitions: int = 0
    """environment steps it was tried on"""
    total: Facts = field(default_factory=Facts)
    """mean, std, min and max of the reward"""
    terms: tuple[Facts, ...] = ()
    """name, share, mean, std, min and max of every term"""
    microseconds_per_step: float | None
    """per environment step with 64 environments; None: nothing is computed"""
    microseconds_looped: float | None = None
    """the same, called once per environment; None: the reward is batched"""
    memory_size: int = 0
    """numbers of memory per environment"""
    is_stateful: bool = False
    """keeps state of its own for each environment"""
    is_resumable: bool = True
    """a resumed run repeats the numbers of one that ran on"""
    spec: Facts = field(default_factory=Facts)
    """fields of RewardSpec: what the reward says about itself"""
    findings: tuple[ProbeFinding, ...] = ()
    """what is worth knowing before training"""


@event("train.start")
class TrainStart(Emitted):
    """Training begins, or goes on where it was interrupted."""

    run: str
    """name of the run folder"""
    members: tuple[str, ...]
    """names of the policies that are trained together"""
    step: int
    """environment steps per member that are done already"""
    total_steps: int
    """environment steps per member when done"""
    device: str
    """cpu or cuda"""
    resumed: bool
    """whether it goes on from a save"""


@event("train.progress")
class TrainProgress(Emitted):
    """How training goes; at most twice a second, and not kept on disk."""

    step: int
    """environment steps per member so far"""
    total_steps: int
    """environment steps per member when done"""
    seconds: float = 0.0
    """spent training so far"""
    steps_per_second: float | None
    """of all members together, since training began or went on"""
    seconds_left: float | None
    """until the end, at this rate"""
    returns: dict[str, float | None]
    """mean return of a member's last episodes; None: none has ended yet"""


@event("train.finding")
class TrainFinding(Emitted):
    """Something looks wrong with the training of a member; each kind is said once."""

    member: str
    """whom it concerns"""
    name: str
    """stable name of the kind, e.g. entropy_collapse"""
    message: str
    """what was seen, with numbers, and what to do"""
    values: dict[str, float | None] = field(default_factory=dict[str, float | None])
    """the numbers"""
    step: int = 0
    """environment steps per member when it was seen"""


@record
class MemberEvaluation:
    """How good one member was; an EvaluationRecord without the single returns."""

    global_step: int
    """environment steps per member"""
    episodes: int
    """fresh episodes"""
    mean_return: float | None
    """None: not a finite number"""
    interval: tuple[float, float] | None
    """95 % bootstrap interval of the mean"""
    std_return: float | None
    """spread of the returns"""
    min_return: float | None
    """worst episode"""
    p10_return: float | None
    """a poor episode"""
    median_return: float | None
    """an ordinary episode"""
    p90_return: float | None
    """a good episode"""
    max_return: float | None
    """best episode"""
    episode_length: float
    """mean steps"""
    terminated_share: float
    """share of episodes that ended before their time"""
    env_return: float | None = None
    """mean return under the environment's own reward"""
    reward_terms: dict[str, float | None] = field(default_factory=dict[str, float | None])
    """mean sum over an episode, by term"""


@event("eval.done")
class EvalDone(Emitted):
    """All members were evaluated on fresh episodes."""

    step: int
    """environment steps per member"""
    seconds: float = 0.0
    """the evaluation took"""
    members: dict[str, MemberEvaluation]
    """by name; members that had to stop are missing"""


@event("train.end")
class TrainEnd(Emitted):
    """Training came to its end, or was asked to stop; what summary.json of the run holds."""

    schema_version: int = 1
    """of the run's summary"""
    run: str
    """name of the run folder"""
    env: str
    """environment"""
    status: str
    """completed or stopped"""
    total_timesteps: int
    """environment steps of all members together"""
    training_time_s: float
    """seconds of training"""
    steps_per_second: float | None
    """of all members together"""
    best_member: str | None
    """whose best evaluation is highest; None: nobody was evaluated"""
    best_return: float | None
    """mean return of that evaluation"""
    members: tuple[str, ...]
    """names of all members"""


@event("video.progress")
class VideoProgress(Emitted):
    """A video is being drawn; not kept on disk."""

    path: str
    """file that is being made"""
    frame: int
    """pictures drawn"""
    frames: int
    """pictures in all"""


TrainingEvent = Union[  # noqa: UP007 - a union of many reads better as a list
    LogMessage, ProbeDone, TrainStart, TrainProgress, TrainFinding, EvalDone, TrainEnd
]
"""what the confined process of a training may say"""
