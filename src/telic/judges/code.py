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

    def __init__(self, source: str, label: str = "judge_fn.py") -> None:
        """Check and execute the file; raises RefusedCode, or RewardError if it has no judge."""
        self.label, self._function = label, None
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
        return _summed(self.measure(episode))

    def measure(self, episode: RecordedEpisode) -> Verdict:
        """Score one episode by criterion; the score of the whole is not computed yet."""
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
            return judged(joined(self.file, measured, scores), 1.0)
        except Exception as error:  # the boundary to foreign code
            return unknown("code", f"{self.label}: {type(error).__name__}: {error}"[:500])


@lru_cache(maxsize=8)
def _compiled(source: str, label: str) -> CodeType:
    """Check and compile a judge; once for all episodes, each of which gets a scope of its own."""
    return compile_source(source, label, extra_modules=OFFERED)


def _summed(verdict: Verdict) -> Verdict:
    """Return a verdict with the score that its criteria earn together; unknown stays unknown."""
    if verdict.score is None:
        return verdict
    try:
        return judged(verdict.leaves, total(verdict.leaves))
    except UsageError as error:
        return unknown("code", f"the verdict cannot be read: {bounded_text(error, 300)}")


def judge_files(
    source: str, paths: Sequence[Path], folder: Path, environment: Environment | None = None
) -> list[Verdict]:
    """Judge recorded episodes in a confined worker whose working folder is `folder`.

    The worker may read only the folders of the episodes and of the environment's model. If it dies,
    which need not be the judge's fault, another one tries again; if that dies too, every score is
    unknown. Many episodes are divided among as many workers as there are CPU cores. `environment`
    None: that of the files, which no foreign code could write.
    """
    if not paths:
        return []
    try:
        file = read_judge(source)
    except TelicError as error:
        return [unknown("code", str(error))] * len(paths)
    if not (file.criteria and file.code):
        return list(map(_summed, _measure_files(source, paths, folder, environment)))
    # The process that measures for the host runs no foreign code.
    beside = folder.with_name(f"{folder.name}_code")
    coded = _measure_files(file.code, paths, beside, environment)
    by_host = [each for each in file.criteria if each.measure]
    listed = judge_text("", "", by_host, file.phases)
    measured = [judged((), 1.0)] * len(paths)
    if by_host:
        measured = _measure_files(listed, paths, folder, environment)
    return [_summed(_both(file, *pair)) for pair in zip(measured, coded, strict=True)]


def _both(file: JudgeFile, measured: Verdict, coded: Verdict) -> Verdict:
    """Return the verdict of what the host measured and what code measured of one episode."""
    for each in (measured, coded):
        if each.score is None:
            return each
    return judged(joined(file, measured.leaves, coded.leaves), 1.0)


def _measure_files(
    source: str, paths: Sequence[Path], folder: Path, environment: Environment | None
) -> list[Verdict]:
    """Let confined workers score episodes by criterion; one that dies twice leaves it unknown."""

    def share(paths: Sequence[Path], folder: Path) -> list[Verdict]:
        reason = ""
        for _ in range(_TRIES):
            try:
                return _measure_confined(source, paths, folder, environment)
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
        return [verdict for own in judges.map(share, shares, folders) for verdict in own]


def _measure_confined(
    source: str, paths: Sequence[Path], folder: Path, environment: Environment | None
) -> list[Verdict]:
    """Return what a confined judge measured; a credit that the value does not earn is refused."""
    environment = environment or _environment_of(paths)
    result = run_confined(
        "telic.judges.code",
        {"source": source, "paths": [str(x.absolute()) for x in paths], "environment": environment},
        folder,
        [environment],
        {path.absolute().parent for path in paths},
    )
    answers: object = result.get("verdicts")
    if not is_row(answers) or len(answers) != len(paths):
        raise WorkerDied("The judge did not give one verdict for each episode.")
    return [_believed(each) for each in answers]


def _believed(answer: object) -> Verdict:
    try:
        given = Verdict.model_validate(answer)
    except ValidationError as error:
        return unknown("code", f"the verdict cannot be read: {bounded_text(error, 300)}")
    if given.score is None:
        return unknown("code", bounded_text(given.reason or "the judge gave no reason", 500))
    if not all(map(is_consistent, given.leaves)):
        return unknown("code", "a score claims more credit than its measured value earns")
    return judged(given.leaves, 1.0)


def judge_here(
    source: str,
    paths: Sequence[Path],
    environment: Environment | None = None,
    alive: Callable[[], None] = lambda: None,
) -> list[Verdict]:
    """Score episodes by criterion in this process; for the worker, and for trusted code.

    `alive` is called before every few of them; the other arguments are those of `judge_files`.
    """
    verdicts, some = list[Verdict](), list[Trajectory]()
    spec = _spec_of(*(environment := environment or _environment_of(paths)))

    def judge_some() -> list[Verdict]:
        # A new judge each time: it must not remember other episodes.
        return [JudgeCode(source).measure(each) for each in recorded_together(some, spec)]

    alive()
    for path in paths:
        trajectory = read_trajectory(path, environment)
        longest = max(map(len, (*some, trajectory)))
        if some and (len(some) + 1) * longest > _TOGETHER:
            verdicts += judge_some()
            some.clear()
            alive()
        some.append(trajectory)
    return verdicts + judge_some()


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
    verdicts = judge_here(payload["source"], paths, payload["environment"], alive)
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
