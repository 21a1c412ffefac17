"""Run the text of a judge on recorded episodes.

The host measures criteria that have an expression (`telic.judges.measured`). Other criteria are
measured by a function in the text, which is untrusted code:

    from telic import score

    def judge(episode):
        value = float(episode["joint_speed"].std())
        return [score("moves evenly", value, zero=2.0, goal=0.5)]

`judge_files` runs this code in a separate sandboxed worker, never in the process that measures.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol, cast

from pydantic import ValidationError

from telic.core.plugins import load_plugin, plugin_names
from telic.core.tensors import use_one_thread
from telic.core.text import is_row
from telic.envs.factory import make
from telic.envs.spec import EnvSpec
from telic.errors import RewardError, TelicError, UnknownName, UsageError, WorkerDied
from telic.judges.criteria import (
    CriterionScore,
    is_consistent,
    require,
    score,
    score_near,
    total_score,
)
from telic.judges.episode import RecordedEpisode, recorded_together
from telic.judges.measured import JudgeFile, joined, judge_text, measure_criteria, read_judge
from telic.judges.metrics import every_metric
from telic.judges.verdict import Verdict, judged, unknown
from telic.rewards.confined import run_confined
from telic.sandbox.source import compile_source, namespace
from telic.sandbox.wire import bounded_text
from telic.storage.resources import usable_cores
from telic.storage.trajectories import Environment, Trajectory, read_trajectory, require_registered

_JUDGE_S = 60.0
_BATCH_STEPS = 64_000
"""steps per measurement batch, in which shorter episodes are padded to the longest"""
_WORTH_A_WORKER = 32
"""minimum number of episodes per worker process"""
_MAX_CRASHES = 2
"""number of worker crashes on the same episodes after which their scores are unknown"""
OFFERED: dict[str, dict[str, Any]] = {
    "telic": {
        **{"score": score, "score_near": score_near, "require": require},
        **{"leaf": score, "near": score_near, "guard": require},
        "metrics": every_metric(),
    }
}
"""names that a judge file may import from telic, in the second row for earlier versions"""


_compiled = lru_cache(maxsize=8)(partial(compile_source, extra_modules=OFFERED))
"""check and compile a judge once; each episode executes it in a new namespace"""


class Judge(Protocol):
    """Interface of judges that score a recorded episode without access to the reward."""

    def __call__(self, trajectory: Trajectory, spec: EnvSpec) -> Verdict:
        """Return a verdict with its evidence and a score in [0, 1].

        A judge must be deterministic and must not change the episode. If it cannot decide, e.g.
        because the episode has no steps, it returns a reason and no score, instead of a score of 0.
        """
        ...


class JudgeCode:
    """Parsed judge file. Calling it may run untrusted code."""

    def __init__(self, source: str, label: str = "judge_fn.py") -> None:
        """Check and execute the file. Raises RefusedCode, or RewardError for a missing judge."""
        self.label, self._function = label, None
        self.file = read_judge(source)
        if not self.file.code:
            return
        code = _compiled(self.file.code, label)
        scope: dict[str, Any] = namespace(OFFERED)
        try:
            exec(code, scope)
        except Exception as error:  # boundary to untrusted code
            raise RewardError(
                f"{label} cannot be loaded: {type(error).__name__}: {error}"[:500],
                hint="Code outside judge(episode) runs once, before any episode.",
            ) from None
        self._function = scope.get("judge")
        if not callable(self._function):
            raise RewardError(
                f"{label} does not define a function judge(episode).",
                hint="Define it: def judge(episode): return [score(...)]",
            )

    def __call__(self, trajectory: Trajectory, spec: EnvSpec) -> Verdict:
        """Judge one recorded episode of an environment."""
        return self.judge(RecordedEpisode(trajectory, spec))

    def judge(self, episode: RecordedEpisode) -> Verdict:
        """Judge one episode. An error in the judge leaves the score unknown instead of 0."""
        return _summed(self.measure(episode))

    def measure(self, episode: RecordedEpisode) -> Verdict:
        """Score the criteria of an episode without computing its overall score."""
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
        except Exception as error:  # boundary to untrusted code
            return unknown("code", f"{self.label}: {type(error).__name__}: {error}"[:500])


def _summed(verdict: Verdict) -> Verdict:
    """Return a verdict with the score computed from its criteria, if all are known."""
    if verdict.score is None:
        return verdict
    try:
        return judged(verdict.criteria, total_score(verdict.criteria))
    except UsageError as error:
        return unknown("code", f"invalid verdict: {bounded_text(error, 300)}")


def judge_files(
    source: str, paths: Sequence[Path], folder: Path, environment: Environment | None = None
) -> list[Verdict]:
    """Judge recorded episodes in a sandboxed worker whose working directory is `folder`.

    The worker may read only the folders of the episodes and of the environment's model. If it
    dies, it is retried once, and if the retry dies too, all its scores are unknown. Large numbers
    of episodes are divided among one worker per CPU core. Without `environment`, the environment is
    read from the files, which untrusted code cannot write.
    """
    if not paths:
        return []
    try:
        file = read_judge(source)
    except TelicError as error:
        return [unknown("code", str(error))] * len(paths)
    if not (file.criteria and file.code):
        return list(map(_summed, _measure_files(source, paths, folder, environment)))
    # The process that measures for the host runs no untrusted code.
    code_folder = folder.with_name(f"{folder.name}_code")
    coded = _measure_files(file.code, paths, code_folder, environment)
    by_host = [each for each in file.criteria if each.measure]
    listed = judge_text("", "", by_host, file.phases)
    measured = [judged((), 1.0)] * len(paths)
    if by_host:
        measured = _measure_files(listed, paths, folder, environment)
    return [_summed(_both(file, *pair)) for pair in zip(measured, coded, strict=True)]


def _both(file: JudgeFile, measured: Verdict, coded: Verdict) -> Verdict:
    """Combine the verdicts of the host and of the judge's code on one episode."""
    for each in (measured, coded):
        if each.score is None:
            return each
    return judged(joined(file, measured.criteria, coded.criteria), 1.0)


def _measure_files(
    source: str, paths: Sequence[Path], folder: Path, environment: Environment | None
) -> list[Verdict]:
    """Score criteria in sandboxed workers. Scores are unknown if a retry also fails."""

    def share(paths: Sequence[Path], folder: Path) -> list[Verdict]:
        reason = ""
        for _ in range(_MAX_CRASHES):
            try:
                return _measure_confined(source, paths, folder, environment)
            except WorkerDied as error:
                reason = f"{error} ({_MAX_CRASHES} workers tried.)"
            except TelicError as error:  # the judge itself is at fault, so a retry would also fail
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
    """Return the verdicts of a confined judge, without scores that measured values contradict."""
    environment = environment or _environment_of(paths)
    result = run_confined(
        "telic.judges.code:judge_confined",
        {"source": source, "paths": [str(x.absolute()) for x in paths], "environment": environment},
        folder,
        [environment],
        {path.absolute().parent for path in paths},
    )
    answers: object = result.get("verdicts")
    if not is_row(answers) or len(answers) != len(paths):
        raise WorkerDied("The judge did not return one verdict per episode.")
    return [_believed(each) for each in answers]


def _believed(answer: object) -> Verdict:
    try:
        given = Verdict.model_validate(answer)
    except ValidationError as error:
        return unknown("code", f"invalid verdict: {bounded_text(error, 300)}")
    if given.score is None:
        return unknown("code", bounded_text(given.reason or "the judge gave no reason", 500))
    if not all(map(is_consistent, given.criteria)):
        return unknown("code", "a score claims more credit than its measured value gives")
    return judged(given.criteria, 1.0)


def judge_here(
    source: str,
    paths: Sequence[Path],
    environment: Environment | None = None,
    alive: Callable[[], None] = lambda: None,
) -> list[Verdict]:
    """Score criteria in this process, for use in workers and with trusted code.

    `alive` is called before every batch. The other arguments are those of `judge_files`.
    """
    verdicts, some = list[Verdict](), list[Trajectory]()
    spec = _spec_of(*(environment := environment or _environment_of(paths)))

    def judge_some() -> list[Verdict]:
        # A new judge for each episode, so that no state carries over.
        return [JudgeCode(source).measure(each) for each in recorded_together(some, spec)]

    alive()
    for path in paths:
        trajectory = read_trajectory(path, environment)
        longest = max(map(len, (*some, trajectory)))
        if some and (len(some) + 1) * longest > _BATCH_STEPS:
            verdicts += judge_some()
            some.clear()
            alive()
        some.append(trajectory)
    return verdicts + judge_some()


def _environment_of(paths: Sequence[Path]) -> Environment:
    """Return the environment named in the first file, which must be registered."""
    facts = read_trajectory(paths[0]).facts
    require_registered(facts, paths[0])
    return facts.env_id, facts.env_kwargs


def _spec_of(env_id: str, arguments: dict[str, Any]) -> EnvSpec:
    env = make(env_id, num_envs=1, **arguments)
    env.close()
    return env.spec


def judge_confined(state: None, payload: dict[str, Any], channel: Any) -> dict[str, Any]:
    """Judge every episode in the sandboxed worker."""
    use_one_thread()
    paths = [Path(path) for path in payload["paths"]]
    alive = partial(channel.heartbeat, _JUDGE_S, "judging")
    verdicts = judge_here(payload["source"], paths, payload["environment"], alive)
    return {"verdicts": [each.model_dump(mode="json") for each in verdicts]}


# ---- judges from installed packages


def find_judge(name: str) -> Callable[[str, EnvSpec], Judge]:
    """Return the factory function of a judge by name. Raises UnknownName or PluginError."""
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
    """Combine verdicts with those of a judge from an installed package. The lower score counts.

    The judge is trusted and runs in this process. If either score is unknown, so is the result.
    """
    spec = _spec_of(*environment)
    judge = find_judge(name)(intent, spec)
    out: list[Verdict] = []
    for path, verdict in zip(paths, verdicts, strict=True):
        other = judge(read_trajectory(path, environment), spec)
        update: dict[str, Any] = {}
        if verdict.score is not None and other.score is None:
            update = {"score": None, "reason": f"{name} returned no score: {other.reason}"}
        elif verdict.score is not None and other.score is not None:
            scores = [
                row.model_copy(update={"title": f"{name}: {row.title}"}) for row in other.criteria
            ]
            update = {
                "score": min(verdict.score, other.score),
                "criteria": (*verdict.criteria, *scores),
                "tags": tuple(dict.fromkeys((*verdict.tags, *other.tags))),
            }
        out.append(verdict.model_copy(update=update))
    return out
