"""Compare sessions or runs by their settings and their results per training seed and judge again.

A difference is only computed between results that were measured in the same way: scores of sessions
with the same environment and criteria, or returns of runs in the same environment. Each training
seed is one sample, because episodes of the same policy are not independent. If two results share
training seeds, differences between policies of the same seed are evaluated.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from telic.authors.author import MeasurableIntent
from telic.authors.candidate import RewardCandidate, SessionIteration
from telic.authors.request import SessionConfig
from telic.core.config import Record, dotted
from telic.core.request import RunsRequest, argument, option
from telic.core.text import count, number
from telic.core.verb import VerbResult, verb
from telic.errors import UsageError
from telic.judges.code import judge_files
from telic.judges.criteria import Criterion
from telic.judges.measured import read_judge
from telic.judges.recorder import RolloutSpec, record
from telic.judges.validation import text_hash
from telic.judges.verdict import Verdict, together, unknown
from telic.robots.terrain import on_fresh_ground
from telic.session import hub
from telic.session.control import CriteriaApproval
from telic.session.evidence import NOT_SIGNED_OFF, check_end
from telic.storage.files import read_fields, read_json, read_record
from telic.storage.keys import is_own_folder
from telic.storage.layout import IterationFolder, MemberFolder, RunFolder, SessionFolder
from telic.storage.reading import file_hash, given_text, read_text
from telic.storage.scalars import EvaluationRow
from telic.storage.trajectories import Environment
from telic.storage.workspace import Artifact, Workspace
from telic.training.folder import best_step, environment_of
from telic.training.policy import find_policy
from telic.training.videos import choose_member
from telic.verbs.artifacts import PolicyRequest
from telic.verbs.lines import ArtifactSummary, read_line

_LEVEL = 0.05
_NAMED, _OWN = "the judge passed with --judge", "the judge of this user's session"
_PUBLISHED = "a judge of its publisher, which was not validated here"
_NEW = 16
"""number of new episodes if none were recorded"""
_NOT_SETTINGS = ("schema_version", "intent", "criteria", "members", "command", "start_seed")
"""request fields that are shown elsewhere or are different in each request"""
_MEANING = (
    *("quantity", "measure", "phase", "kind", "direction"),
    *("zero", "goal", "unit", "weight", "is_guard"),
)
"""criterion fields that define the measurement"""


class Difference(Record):
    """Difference between means with a confidence interval over training seeds."""

    value: float
    low: float | None
    high: float | None
    """None if there are too few training seeds or their variance is zero"""
    words: str


class ComparedArtifact(Record):
    """Session or run that takes part in a comparison."""

    line: ArtifactSummary
    values: dict[str, float]
    """measured value by training seed"""
    mean: float | None
    difference: Difference | None
    """difference from the first, or None for the first or if they are not comparable"""
    criteria: tuple[Criterion, ...]
    reward: str | None
    """code of a session's best reward, or of the reward of a run's first policy"""


class SettingDifference(Record):
    """Setting that differs between the compared artifacts."""

    name: str
    values: tuple[str, ...]


class Comparison(Record):
    """Comparison of sessions or runs."""

    measure: str
    obstacles: tuple[str, ...]
    """reasons why no difference is computed, or empty if it is computed"""
    rows: tuple[ComparedArtifact, ...]
    settings: tuple[SettingDifference, ...]


class _Measured(NamedTuple):
    environment: str
    settings: dict[str, Any]
    reward: str | None
    values: dict[str, float]
    """scores of a session, or returns of a run under its training reward"""
    task_values: dict[str, float]
    """returns of a run under the environment's reward"""
    criteria: tuple[Criterion, ...] = ()
    fault: str | None = None
    """why the results of an ended session cannot be verified"""
    rules: tuple[Any, ...] = ()
    """phases and code of the judge"""


def _session(artifact: Artifact) -> _Measured:
    folder = SessionFolder(artifact.path)
    config = read_record(folder.config, SessionConfig)
    criteria: tuple[Criterion, ...] = config.criteria or ()
    if folder.approval.exists():
        criteria = read_record(folder.approval, CriteriaApproval).criteria
    elif folder.asked.exists():
        criteria = read_record(folder.asked, MeasurableIntent).criteria
    # Iteration 0 of a branch belongs to its origin.
    files = [folder.iteration(number).judgment for number in folder.iterations() if number]
    read = {file: read_record(file, SessionIteration) for file in files if file.exists()}
    best = max(read.values(), key=lambda x: -1.0 if x.score is None else x.score, default=None)
    values, reward, where = dict[str, float](), None, config.env
    if best is not None:
        files, code = folder.iteration(best.number), folder.iteration(best.number).reward
        if files.candidate.exists():
            arguments = read_record(files.candidate, RewardCandidate).env_args
            where = f"{config.env} {arguments or ''}".strip()
        reward = read_text(code) if code.exists() else None
        own = [each for each in best.members if each.variant == best.variant]
        scores = {f"seed {each.seed}": each.judgment.score for each in own}
        values = {name: score for name, score in scores.items() if score is not None}
    fault = check_end(folder, read)[0] if folder.summary.exists() else None
    fault = None if fault in (None, NOT_SIGNED_OFF) else f"{folder.name}: {fault}."
    judge = read_judge(read_text(folder.judge)) if folder.judge.exists() else None
    rules = () if judge is None else (judge.phases, judge.code.strip())
    return _Measured(where, config.model_dump(), reward, values, {}, criteria, fault, rules)


def _run(artifact: Artifact) -> _Measured:
    run = RunFolder(artifact.path)
    members = run.members()
    codes = [member.reward_code for member in members if member.reward_code.exists()]
    values: dict[str, dict[str, float]] = {"mean_return": {}, "env_return": {}}
    for member in members:
        best: dict[str, Any] = {}
        if member.summary.exists():
            best = read_fields(member.summary, best=EvaluationRow | None)["best"] or {}
        for name, own in values.items():
            if best.get(name) is not None:
                own[member.name.replace("_", " ")] = best[name]
    env, arguments = environment_of(run)
    where, code = f"{env} {arguments or ''}".strip(), read_text(codes[0]) if codes else None
    own, task = values.values()
    return _Measured(where, read_json(run.config), code, own, task)


def _by_seed(values: Mapping[str, float]) -> dict[str, float]:
    """Return values by training seed if no seed occurs twice, else by the name of the policy."""
    seeds = {name.rpartition("seed ")[2]: value for name, value in values.items()}
    return seeds if len(seeds) == len(values) else dict(values)


def _difference(
    own: Mapping[str, float], first: Mapping[str, float], tests: int, what: str
) -> Difference:
    """Return the difference between means with an interval at a joint confidence of 95 %.

    The interval is that of a paired t-test over shared training seeds, or Welch's without any.
    """
    from scipy.stats import ttest_1samp, ttest_ind

    own, first = _by_seed(own), _by_seed(first)
    shared = [seed for seed in own if seed in first]
    shared = shared if len(shared) > 1 else []
    a, b = (np.array([x[seed] for seed in shared or x]) for x in (own, first))
    value, low, high = float(a.mean() - b.mean()), None, None
    # Seeds with zero variance provide no information about other seeds.
    if min(len(a), len(b)) > 1 and (np.ptp(a - b) if shared else np.ptp(a) + np.ptp(b)):
        test = ttest_1samp(a - b, 0.0) if shared else ttest_ind(a, b, equal_var=False)
        interval = test.confidence_interval(1 - _LEVEL / tests)
        low, high = float(interval.low), float(interval.high)
    size = f"{what} is {number(abs(value))} {'higher' if value >= 0 else 'lower'} than the first"
    how = f"paired over {count(len(shared), 'training seed')}" if shared else "unpaired"
    ends = f"{number(low)} to {number(high)}, {how}"
    if low is None or high is None:
        words = f"{size}; more training seeds are needed to establish a difference."
    elif low <= 0.0 <= high:
        words = f"No significant difference: {number(value)}, {ends}."
    else:
        words = f"{size} (95 % confidence interval {ends})."
    return Difference(value=value, low=low, high=high, words=words)


def _obstacles(kinds: set[str], all_of: list[_Measured]) -> tuple[str, ...]:
    """Return the reasons why results cannot be compared by a single number."""
    if len(kinds) > 1:
        return ("Sessions are scored by a judge and runs by their return.",)
    environments = dict.fromkeys(each.environment for each in all_of)
    meanings = {
        (frozenset(tuple(getattr(x, name) for name in _MEANING) for x in own.criteria), own.rules)
        for own in all_of
    }
    where = f"Their environments differ: {', '.join(environments)}."
    found = [where] if len(environments) > 1 else []
    found += ["Their criteria differ."] if len(meanings) > 1 else []
    return (*found, *(each.fault for each in all_of if each.fault))


def compare_artifacts(artifacts: list[Artifact]) -> Comparison:
    """Compare sessions or runs. The first is the baseline."""
    measured = [_session(each) if each.kind == "session" else _run(each) for each in artifacts]
    kinds: set[str] = {artifact.kind for artifact in artifacts}
    obstacles, measure = _obstacles(kinds, measured), "score"
    values = [each.values for each in measured]
    if kinds == {"run"}:
        is_same = len({each.reward for each in measured}) == 1
        measure = "best return" if is_same else "best task return"
        values = [each.values if is_same else each.task_values for each in measured]
    numbers, rows = [np.asarray(list(each.values())) for each in values], list[ComparedArtifact]()
    for place, (artifact, each, own) in enumerate(zip(artifacts, measured, numbers, strict=True)):
        difference = None
        if place and not obstacles and len(own) and len(numbers[0]):
            what = f"Its mean {measure}"
            difference = _difference(values[place], values[0], len(artifacts) - 1, what)
        rows.append(
            ComparedArtifact(
                line=read_line(artifact),
                values=values[place],
                mean=float(own.mean()) if len(own) else None,
                difference=difference,
                criteria=each.criteria,
                reward=each.reward,
            )
        )
    settings = [
        {name: str(value) for name, value in dotted(each.settings).items()} for each in measured
    ]
    names = dict.fromkeys(key for each in settings for key in each)
    differing = [name for name in names if len({each.get(name) for each in settings}) > 1]
    return Comparison(
        measure=f"{measure}, mean over training seeds",
        obstacles=obstacles,
        rows=tuple(rows),
        settings=tuple(
            SettingDifference(name=name, values=tuple(each.get(name, "–") for each in settings))
            for name in differing
            if name.partition(".")[0] not in _NOT_SETTINGS
        ),
    )


# ---- commands


class _ComparisonRequest(RunsRequest):
    """Two results to compare."""

    first: str = argument("Baseline: a session or run.", metavar="A")
    second: str = argument("Session or run to compare with it.", metavar="B")


@verb(_ComparisonRequest)
def compare(request: _ComparisonRequest) -> VerbResult[list[dict[str, Any]]]:
    """Compare the results of two sessions or runs across training seeds.

    Both must use the same environment and the same criteria.
    """
    workspace = Workspace(request.runs_dir)
    pair = [workspace.find(name, "session", "run") for name in (request.first, request.second)]
    found = compare_artifacts(pair)
    if found.obstacles:
        raise UsageError(f"These results cannot be compared. {' '.join(found.obstacles)}")
    lines = [
        {
            **{"artifact": row.line.id, "state": row.line.state, "limits": row.line.limits},
            **{found.measure: row.mean, "training seeds": len(row.values)},
            "difference": row.difference and row.difference.value,
            "interval": row.difference and (row.difference.low, row.difference.high),
        }
        for row in found.rows
    ]
    made = found.rows[1].difference
    return VerbResult(lines, hint=made.words if made else "One of the two has no result yet.")


class _RejudgeRequest(PolicyRequest):
    """A policy to judge again."""

    judge: Path | None = option("Judge file. Default: the judge of ARTIFACT.", default=None)
    episodes: int | None = option(
        "New episodes to judge. Default: the recorded ones.", default=None, minimum=1
    )


class _Rejudgment(Record):
    """Scores of a policy's episodes by a judge, and their difference from the recorded verdict."""

    artifact: str
    member: str
    judge: str
    """SHA-256 of the judge's source"""
    judge_is: str
    """origin of the judge"""
    episodes: int
    recorded: bool
    """whether the episodes were recorded before, and not played now"""
    unknown: int
    """number of episodes without a score"""
    score: float | None
    low: float | None
    """lower bound of the mean score with 95 % confidence"""
    threshold: float
    passing: int | None
    previous_score: float | None
    """mean score of these episodes by the code judge of the recorded verdict"""
    flipped: int | None
    """number of episodes that pass by only one of both judges"""
    criteria: dict[str, tuple[float, float | None]]
    """mean credit and median measured value of each criterion"""


@verb(_RejudgeRequest)
def judge(request: _RejudgeRequest) -> _Rejudgment:
    """Re-score recorded or new episodes of a policy with its own or another judge.

    The judge runs in a sandboxed worker. The recorded verdict does not change.
    """
    place = request.choose()
    member = choose_member(place.run, place.member)
    own, session = place.run.path / "judge_fn.py", SessionFolder(place.home)
    before: list[Verdict] = []
    where, threshold = environment_of(place.run), SessionConfig.model_fields["threshold"].default
    if session.config.exists():
        iteration, own = IterationFolder(place.run.path.parent), session.judge
        threshold = read_record(session.config, SessionConfig).threshold
        scored = read_record(iteration.judgment, SessionIteration).members
        before = [v for x in scored if x.member == member.name for v in x.judgment.verdicts]
        files = [iteration.episode(member.name, number) for number in range(len(before))]
    else:
        step = place.step or best_step(member)
        files = [each.path for each in member.trajectories() if each.step == step]
    if request.judge is None and not own.exists():
        raise UsageError(f"{place.home.name} has no judge.", hint="Pass one with --judge FILE.")
    source = given_text(request.judge or own, "The judge")
    is_new = request.episodes is not None or not files
    with TemporaryDirectory() as folder:
        if is_new:
            before, policy = [], find_policy(member.path, place.step)
            files = _play(policy, member, where, request.episodes or _NEW, Path(folder))
        verdicts = judge_files(source, files, Path(folder) / "judge", where)
    olds = [old.by_judge.get("code", old.score) for old in before]
    for at, old in enumerate(before):
        if not files[at].exists() or old.recording not in (None, file_hash(files[at])):
            verdicts[at] = unknown("code", f"{files[at].name} was modified after it was recorded")
    found = together(verdicts, threshold=threshold)
    pairs = zip(olds, (verdict.score for verdict in verdicts), strict=False)
    known = [(old, new) for old, new in pairs if old is not None and new is not None]
    numbers = f"score {number(found.score)}, lower bound {number(found.low)}"
    passing = f"{found.passing} of {found.episodes} episodes reach {threshold:g}"
    by = _NAMED if request.judge else _OWN if is_own_folder(place.home) else _PUBLISHED
    # Recordings may be the publisher's, and the verdict is shown for the delivered policy.
    if is_new and find_policy(member.path, place.step) == find_policy(place.run.path):
        hub.record_verdict(place.run, f"judged on this machine by {by}: {numbers}, {passing}")
    return _Rejudgment(
        artifact=place.home.name,
        member=member.name,
        judge=text_hash(source),
        judge_is=by,
        recorded=not is_new,
        threshold=threshold,
        previous_score=sum(old for old, _ in known) / len(known) if known else None,
        flipped=sum((a >= threshold) != (b >= threshold) for a, b in known) if known else None,
        criteria=found.criteria,
        **found.model_dump(include={"episodes", "unknown", "score", "low", "passing"}),
    )


def _play(
    policy: Path, member: MemberFolder, where: Environment, episodes: int, folder: Path
) -> list[Path]:
    """Record new episodes of a policy in a sandboxed process."""
    env, env_args = where
    code = member.reward_code
    order = RolloutSpec(
        policy=str(policy.absolute()),
        env=env,
        env_args=on_fresh_ground(env_args),
        seed=secrets.randbits(31),
        paths=tuple(str(folder / f"episode_{number:03d}.npz") for number in range(episodes)),
        reward=read_text(code) if code.exists() else None,
    )
    return [file.path for file in record(order, folder)]
