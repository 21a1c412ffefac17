"""Run the text of a judge on recorded episodes.

Criteria with a measure are measured by the host (`telic.judges.measured`). Those that no quantity
expresses are measured by a function in the text, which is foreign code:

    from telic import score

    def judge(episode):
        value = float(episode["joint_speed"].std())
        return [score("moves evenly", value, zero=2.0, goal=0.5)]

`judge_files` runs it in a confined worker of its own, never in the one that measures.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from itertools import pairwise
from pathlib import Path
from types import CodeType
from typing import Any, Protocol, cast

from pydantic import ValidationError

from telic.core.plugins import load_plugin, plugin_names
from telic.core.tensors import use_one_thread
from telic.core.text import is_row
from telic.envs.factory import make
from telic.envs.spec import EnvSpec
from telic.errors import RewardError, TelicError, UnknownName, UsageError, WorkerDied
from telic.judges.confined import run_confined
from telic.judges.criteria import (
    CriterionScore,
    is_consistent,
    require,
    score,
    score_near,
    total,
)
from telic.judges.episode import RecordedEpisode, recorded_together
from telic.judges.measured import JudgeFile, joined, judge_text, measure_criteria, read_judge
from telic.judges.metrics import every_metric
from telic.judges.verdict import Verdict, judged, unknown
from telic.sandbox.source import compile_source, namespace
from telic.sandbox.wire import bounded_text
from telic.storage.resources import usable_cores
from telic.storage.trajectories import (
    Environment,
    Trajectory,
    read_trajectory,
    require_registered,
)

_JUDGE_S = 60.0
_TOGETHER = 64_000
"""steps that are measured in one go, shorter episodes padded to the longest"""
_WORTH_A_WORKER = 32
"""episodes; fewer are not given to a process of their own"""
_TRIES = 2
"""workers that may die over the same episodes before their scores are unknown"""
OFFERED: dict[str, dict[str, Any]] = {
    "telic": {
        **{"score": score, "score_near": score_near, "require": require},
        **{"leaf": score, "near": score_near, "guard": require},
        "metrics": every_metric(),
    }
}
"""what a judge file may import from telic; the second row for files written earlier"""


class Judge(Protocol):
    """Judges one recorded episode, without having seen the reward."""

    def __call__(self, trajectory: Trajectory, spec: EnvSpec) -> Verdict:
        """Return a verdict with a score in [0, 1] and its evidence.

        Pure: the same episode gets the same verdict, and is left as it was. A judge that cannot
        tell, as of an episode without steps, gives no score and a reason; never 0 for "unknown".
        """
        ...


class JudgeCode:
    """A judge whose text was read; calling it may run foreign code."""

    def __init__(self, source: str, label: str = "judge_fn.py", *, is_part: bool = False) -> None:
        """Check and execute the file; raises RefusedCode, or RewardError if it has no judge.

        A part of a judge may consist of constraints alone.
        """
        self.label, self._function, self._is_part = label, None, is_part
        self.file = read_judge(source)
        if not self.file.code:
            return
        code = _compiled(self.file.code, label)
        scope: dict[str, Any] = namespace(OFFERED)
        try:
            exec(code, scope)
        except Exception as error:  # the boundary to foreign code
            raise RewardError(
                f"{label} cannot be loaded: {type(error).__name__}: {error}"[:500],
                hint="Everything outside of judge(episode) runs once, before any episode.",
            ) from None
        self._function = scope.get("judge")
        if not callable(self._function):
            raise RewardError(
                f"{label} defines no function judge(episode).",
                hint="Write: def judge(episode): return [score(...)]",
            )

    def __call__(self, trajectory: Trajectory, spec: EnvSpec) -> Verdict:
        """Judge one episode, recorded in an environment."""
        return self.judge(RecordedEpisode(trajectory, spec))

    def judge(self, episode: RecordedEpisode) -> Verdict:
        """Judge one episode; an error of the judge is an unknown score, never a 0."""
        if len(episode) == 0:
            return unknown("code", "the episode has no steps")
        try:
            measured = measure_criteria(self.file, episode)
            answer: object = [] if self._function is None else self._function(episode)
            parts = cast("list[object]", answer) if isinstance(answer, list) else [None]
            scores = [part for part in parts if isinstance(part, CriterionScore)]
            if len(scores) < len(parts):
                kind = type(answer).__name__
                return unknown("code", f"{self.label} returned {kind}, not a list of scores")
            return _summed(joined(self.file, measured, scores), self._is_part)
        except Exception as error:  # the boundary to foreign code
            return unknown("code", f"{self.label}: {type(error).__name__}: {error}"[:500])


@lru_cache(maxsize=8)
def _compiled(source: str, label: str) -> CodeType:
    """Check and compile a judge; once for all episodes, each of which gets a scope of its own."""
    return compile_source(source, label, extra_modules=OFFERED)


def _summed(scores: Sequence[CriterionScore], is_part: bool) -> Verdict:
    weightless = is_part and not any(each.weight for each in scores)
    return judged(scores, 1.0 if weightless else total(scores))


def judge_files(
    source: str,
    paths: Sequence[Path],
    folder: Path,
    environment: Environment | None = None,
    *,
    is_part: bool = False,
) -> list[Verdict]:
    """Judge recorded episodes in a confined worker whose working folder is `folder`.

    The worker may read only the folders of the episodes and of the environment's model. If it dies,
    which need not be the judge's fault, another one tries again; if that dies too, every score is
    unknown. Many episodes are divided among as many workers as there are CPU cores. `environment`
    None: that of the files, which no foreign code could write. A part of a judge may be constraints
    alone.
    """
    if not paths:
        return []
    try:
        file = read_judge(source)
    except TelicError as error:
        return [unknown("code", str(error))] * len(paths)
    if file.criteria and file.code:  # the process that measures runs no foreign code
        by_host = [each for each in file.criteria if each.measure]
        listed = judge_text("", "", by_host, file.phases)
        beside = folder.with_name(f"{folder.name}_code")
        coded = judge_files(file.code, paths, beside, environment, is_part=True)
        measured = None
        if by_host:
            measured = judge_files(listed, paths, folder, environment, is_part=True)
        return [_both(file, *pair) for pair in zip(measured or coded, coded, strict=True)]

    def judge_share(paths: Sequence[Path], folder: Path) -> list[Verdict]:
        reason = ""
        for _ in range(_TRIES):
            try:
                return _judge_confined(source, paths, folder, environment, is_part)
            except WorkerDied as error:
                reason = f"{error} ({_TRIES} workers tried.)"
            except TelicError as error:  # the judge itself is wrong, and would be again
                reason = str(error)
                break
        return [unknown("code", reason)] * len(paths)

    count = max(1, min(len(usable_cores()), len(paths) // _WORTH_A_WORKER))
    bounds = [len(paths) * place // count for place in range(count + 1)]
    shares = [paths[first:end] for first, end in pairwise(bounds)]
    folders = [folder, *(folder.with_name(f"{folder.name}_{place}") for place in range(1, count))]
    with ThreadPoolExecutor(count) as judges:
        return [verdict for own in judges.map(judge_share, shares, folders) for verdict in own]


def _both(file: JudgeFile, measured: Verdict, coded: Verdict) -> Verdict:
    """Return the verdict of what the host measured and what code measured of one episode."""
    for each in (measured, coded):
        if each.score is None:
            return each
    own = measured.leaves if any(each.measure for each in file.criteria) else ()
    scores = joined(file, own, coded.leaves)
    return judged(scores, total(scores))


def _judge_confined(
    source: str,
    paths: Sequence[Path],
    folder: Path,
    environment: Environment | None,
    is_part: bool,
) -> list[Verdict]:
    """Return verdicts whose scores are computed here, from what a confined judge measured."""
    environment = environment or _environment_of(paths)
    files = [str(path.absolute()) for path in paths]
    result = run_confined(
        "telic.judges.code",
        {"source": source, "paths": files, "environment": environment, "is_part": is_part},
        folder,
        [environment],
        {path.absolute().parent for path in paths},
    )
    answers: object = result.get("verdicts")
    if not is_row(answers) or len(answers) != len(paths):
        raise WorkerDied("The judge did not give one verdict for each episode.")
    verdicts: list[Verdict] = []
    for answer in answers:
        try:
            given = Verdict.model_validate(answer)
            if given.score is None:
                reason = bounded_text(given.reason or "the judge gave no reason", 500)
                verdicts.append(unknown("code", reason))
            elif not all(map(is_consistent, given.leaves)):
                reason = "a score claims more credit than its measured value earns"
                verdicts.append(unknown("code", reason))
            else:
                verdicts.append(_summed(given.leaves, is_part))
        except (ValidationError, UsageError) as error:
            reason = f"the verdict cannot be read: {bounded_text(error, 300)}"
            verdicts.append(unknown("code", reason))
    return verdicts


def judge_here(
    source: str,
    paths: Sequence[Path],
    environment: Environment | None = None,
    alive: Callable[[], None] = lambda: None,
    *,
    is_part: bool = False,
) -> list[Verdict]:
    """Judge recorded episodes in this process; for the worker, and for trusted code.

    `alive` is called before every few of them; the other arguments are those of `judge_files`.
    """
    verdicts, some = list[Verdict](), list[Trajectory]()
    environment = environment or _environment_of(paths)
    alive()
    for path in paths:
        trajectory = read_trajectory(path, environment)
        longest = max(map(len, (*some, trajectory)))
        if some and (len(some) + 1) * longest > _TOGETHER:
            verdicts += _judge_some(source, some, environment, is_part)
            some = []
            alive()
        some.append(trajectory)
    return verdicts + _judge_some(source, some, environment, is_part)


def _judge_some(
    source: str, some: Sequence[Trajectory], environment: Environment, is_part: bool
) -> list[Verdict]:
    # A new judge each time: it must not remember other episodes.
    return [
        JudgeCode(source, is_part=is_part).judge(episode)
        for episode in recorded_together(some, _spec_of(*environment))
    ]


def _environment_of(paths: Sequence[Path]) -> Environment:
    """Return the environment of the first file, where it is one that a registry knows."""
    facts = read_trajectory(paths[0]).facts
    require_registered(facts, paths[0])
    return facts.env_id, facts.env_kwargs


def _spec_of(env_id: str, arguments: dict[str, Any]) -> EnvSpec:
    return _described(env_id, json.dumps(arguments, sort_keys=True))


@lru_cache(maxsize=32)
def _described(env_id: str, arguments: str) -> EnvSpec:
    env = make(env_id, num_envs=1, **json.loads(arguments))
    env.close()
    return env.spec


def run(state: None, payload: dict[str, Any], channel: Any) -> dict[str, Any]:
    """Judge every episode; entry of the confined worker."""
    use_one_thread()
    paths = [Path(path) for path in payload["paths"]]
    alive = partial(channel.heartbeat, _JUDGE_S, "judging")
    judge = partial(judge_here, payload["source"], paths, payload["environment"], alive)
    verdicts = judge(is_part=payload["is_part"])
    return {"verdicts": [each.model_dump(mode="json") for each in verdicts]}


# ---- judges of installed packages


def find_judge(name: str) -> Callable[[str, EnvSpec], Judge]:
    """Return what makes the judge of that name; raises UnknownName, or PluginError."""
    make_judge = load_plugin("judges", name)
    if make_judge is None:
        raise UnknownName("judge", name, plugin_names("judges"))
    return make_judge


def judge_too(
    name: str,
    intent: str,
    paths: Sequence[Path],
    verdicts: Sequence[Verdict],
    environment: Environment,
) -> list[Verdict]:
    """Let a judge of an installed package judge the same episodes; the lower score counts.

    It is trusted and runs here. Where either judge cannot tell, the score is unknown.
    """
    spec = _spec_of(*environment)
    judge = find_judge(name)(intent, spec)
    out: list[Verdict] = []
    for path, verdict in zip(paths, verdicts, strict=True):
        other = judge(read_trajectory(path, environment), spec)
        update: dict[str, Any] = {}
        if verdict.score is not None and other.score is None:
            update = {"score": None, "reason": f"{name} could not tell: {other.reason}"}
        elif verdict.score is not None and other.score is not None:
            scores = [
                each.model_copy(update={"title": f"{name}: {each.title}"}) for each in other.leaves
            ]
            update = {
                "score": min(verdict.score, other.score),
                "leaves": (*verdict.leaves, *scores),
                "tags": tuple(dict.fromkeys((*verdict.tags, *other.tags))),
            }
        out.append(verdict.model_copy(update=update))
    return out
