"""Suites, records, files and pass rates of intent benchmarks.

runs/bench_<suite>_<time>_<hex>/
    bench.json                   suite and options
    results.jsonl                one line per attempt at a case (append-only)
    results.json index.html      summary
    cases/<id>/session_.../      sessions of a case
    cases/<id>/error.txt         traceback of the last crash
    lock
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any, Literal, get_args

from pydantic import Field, field_validator

from telic.authors.request import SessionConfig
from telic.core.config import Config, Record
from telic.core.events import Event
from telic.core.stats import wilson
from telic.errors import BadFile, ConfigError, UnknownName
from telic.session.records import ENDED, Outcome, session_state
from telic.storage.files import as_record, read_fields, read_json_lines, read_record, write_json
from telic.storage.keys import is_own_folder, sign_folder, signer_of, usable_key
from telic.storage.layout import FolderFile, SessionFolder, new_name
from telic.storage.reading import parse_toml, read_text, without_links

SUITES = Path(__file__).parent / "suites"

Difficulty = Literal["easy", "medium", "hard"]
DIFFICULTIES: tuple[str, ...] = get_args(Difficulty)
CaseOutcome = Literal[Outcome, "unconfirmed", "refused", "error"]
"""outcomes of a session, and others ("unconfirmed" means that a check of the suite failed)"""
FINAL: tuple[CaseOutcome, ...] = (*(set(ENDED) - {"claimed"}), "unconfirmed", "refused")
"""outcomes that are not retried, unlike errors and claims"""


class Case(Config):
    """Intent for one robot."""

    id: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$", description="short name and folder name")
    env: str = Field(description="environment id or path of an MJCF file")
    intent: str = Field(min_length=1, description="the intent")
    category: str = Field(min_length=1, description="kind of behavior, such as locomotion or pose")
    difficulty: Difficulty = Field(description="difficulty of the case")
    checks: dict[str, str] = Field(
        default={},
        description="conditions that episodes of a pass must satisfy, by title. Authors of "
        "rewards and judges do not see them",
    )

    @property
    def shown(self) -> Case:
        """The case without its checks, because models must not find them in the folder."""
        return self.model_copy(update={"checks": {}})


class Suite(Config):
    """Suite of intents to benchmark."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]*$", description="short name")
    about: str = Field(default="", description="description in one sentence")
    case: tuple[Case, ...] = Field(min_length=1, description="cases of the suite")

    @field_validator("case")
    @classmethod
    def _distinct(cls, cases: tuple[Case, ...]) -> tuple[Case, ...]:
        for name, times in Counter(case.id for case in cases).items():
            if times > 1:
                raise ValueError(f'Two cases have the id "{name}".')
        return cases

    def select(
        self,
        *,
        only: Sequence[str] = (),
        env: str | None = None,
        difficulty: Sequence[str] = (),
        sample: int | None = None,
    ) -> tuple[Case, ...]:
        """Return the selected cases in the suite's order.

        Raises UnknownName for a case or difficulty that does not exist, and ConfigError if no case
        is left.
        """
        for kind, names, names_there in (
            ("case", only, [each.id for each in self.case]),
            ("difficulty", difficulty, list(DIFFICULTIES)),
        ):
            for name in names:
                if name not in names_there:
                    raise UnknownName(kind, name, names_there)
        cases = [
            each
            for each in self.case
            if (not only or each.id in only)
            and (env is None or each.env == env)
            and (not difficulty or each.difficulty in difficulty)
        ]
        if not cases:
            raise ConfigError(
                f"No case of the suite {self.name} matches.", hint="Use fewer filters."
            )
        return tuple(cases if sample is None else _sampled(cases, sample))


def load_suite(name: str) -> Suite:
    """Load a suite included in telic by name, or from a TOML file."""
    path = Path(name) if name.endswith(".toml") else SUITES / f"{name}.toml"
    if not path.exists():
        known = sorted(each.stem for each in SUITES.glob("*.toml"))
        if path.parent != SUITES:
            raise ConfigError(
                f"The suite file {path} does not exist.",
                hint=f"Suites included in telic: {', '.join(known)}.",
            )
        raise UnknownName("suite", name, known)
    try:
        suite = Suite.parse(parse_toml(read_text(path), str(path)))
    except (BadFile, ConfigError) as error:
        raise ConfigError(f"{path} is not a suite: {error}") from None
    # A robot file next to the suite is named by its absolute path.
    files = {case.env: path.parent / case.env for case in suite.case}
    cases = [
        case.model_copy(update={"env": str(files[case.env].absolute())})
        if files[case.env].is_file()
        else case
        for case in suite.case
    ]
    return suite.model_copy(update={"case": tuple(cases)})


def _sampled(cases: list[Case], count: int) -> list[Case]:
    """Return a deterministic sample of evenly spaced cases of each difficulty, in proportion."""
    if count < 1:
        raise ConfigError(f"A sample of {count} cases is empty.", hint="Try --sample 9.")
    count = min(count, len(cases))
    ordered = sorted(cases, key=lambda each: DIFFICULTIES.index(each.difficulty))
    chosen = [ordered[(2 * place + 1) * len(cases) // (2 * count)] for place in range(count)]
    return [each for each in cases if each in chosen]


class BenchConfig(Config):
    """Settings that determine the results of a case, excluding the selection of cases."""

    schema_version: Literal[1] = 1
    suite: str = Field(description="name of the suite")
    telic: str = Field(description="telic version")
    options: dict[str, Any] = Field(description="session options, including defaults")


class CriterionResult(Record):
    """Result of one criterion for the best policy."""

    title: str
    credit: float
    """mean credit, from 0 to 1"""
    value: float | None
    """median measured value"""
    unit: str = ""


class CaseResult(Event):
    """Result of a case."""

    NAME = "bench.result"

    schema_version: Literal[1] = 1
    case: Case
    outcome: CaseOutcome
    reason: str | None = None
    """why it did not pass"""
    tags: tuple[str, ...] = ()
    score: float | None = None
    low: float | None = None
    """lower confidence bound (95 %) of the score"""
    iterations: int | None = None
    env_steps: int | None = None
    """total number of steps of all policies in all iterations"""
    seconds: float = 0.0
    usd: float | None = None
    """cost in dollars, or None if unknown"""
    criteria: tuple[CriterionResult, ...] = ()
    checks: dict[str, float] = Field(
        default={}, description="fraction of judged episodes that satisfy each check of the suite"
    )
    not_understood: tuple[str, ...] = ()
    session: str | None = None
    """folder of the session, relative to the benchmark's folder like all paths here"""
    strip: str | None = None
    video: str | None = None
    finished_at: str
    """time in UTC (ISO 8601)"""


class PassRate(Record):
    """Number of passes, and pass rate with a 95 % Wilson interval."""

    passed: int
    total: int
    share: float | None
    low: float | None
    high: float | None

    @classmethod
    def of(cls, passed: int, total: int) -> PassRate:
        """Compute the pass rate and its interval. Without cases, the rate is None."""
        found = wilson(passed, total)
        low, high = (None, None) if found is None else (found.low, found.high)
        share = passed / total if total else None
        return cls(passed=passed, total=total, share=share, low=low, high=high)


class CaseGroup(Record):
    """Cases of one difficulty, category or robot."""

    name: str
    rate: PassRate
    mean_score: float | None
    """mean over cases with a score"""


class BenchmarkSummary(Record):
    """Result of a benchmark. Cases that crashed or were refused count as not passed."""

    schema_version: Literal[1] = 1
    suite: str
    about: str
    config: BenchConfig
    cases_in_suite: int
    waiting: tuple[str, ...]
    """requested cases that are not finished (excluded from all rates)"""
    overall: PassRate
    by_difficulty: tuple[CaseGroup, ...]
    by_category: tuple[CaseGroup, ...]
    by_env: tuple[CaseGroup, ...]
    outcomes: dict[str, int]
    median_seconds_to_pass: float | None
    median_steps_to_pass: float | None
    seconds: float
    usd: float | None
    """cost in dollars, or None if the price of a part is unknown"""
    results: tuple[CaseResult, ...]


@dataclass(frozen=True, slots=True)
class BenchFolder:
    """Files of one benchmark."""

    path: Path

    config = FolderFile("bench.json")
    """request of the benchmark"""
    attempts = FolderFile("results.jsonl")
    """append-only log of attempts"""
    results = FolderFile("results.json")
    """machine-readable result"""
    page = FolderFile("index.html")
    """result page"""
    lock = FolderFile("lock")
    """lock of the benchmark"""

    def case(self, case_id: str) -> Path:
        """Return the folder of a case's sessions."""
        return self.path / "cases" / case_id

    def row(self, result: CaseResult) -> dict[str, Any]:
        """Format a result as a line of the log, signed with the user's key if there is one."""
        row, key = result.model_dump(mode="json"), usable_key(self.path)
        return row if key is None else {**row, "sig": key.sign(_signed_bytes(self, row))}


def open_folder(config: BenchConfig, runs_dir: Path, fresh: bool) -> BenchFolder:
    """Return this user's newest folder of an equal request, or create a new folder."""
    paths = [] if fresh else sorted(runs_dir.glob(f"bench_{config.suite}_*/bench.json"))
    for path in reversed([each for each in paths if is_own_folder(each.parent)]):
        earlier = read_record(path, BenchConfig)
        # Options missing in earlier files have their current default values.
        if earlier.model_copy(update={"options": session_options(earlier.options)}) == config:
            return BenchFolder(without_links(path.parent))
    folder = BenchFolder(runs_dir / new_name(f"bench_{config.suite}", letters=4))
    write_json(folder.config, config)
    sign_folder(folder.path)
    return folder


def results_in(folder: BenchFolder) -> list[CaseResult]:
    """Return the latest result of every case. A pass is "claimed" unless it is verified here.

    A verified pass is a line with this user's signature whose session is a verified pass.
    """
    key, latest = usable_key(folder.path), dict[str, CaseResult]()
    for row in read_json_lines(folder.attempts):
        signer = signer_of(_signed_bytes(folder, row), str(row.pop("sig", "")))
        result = as_record(row, CaseResult, str(folder))
        result = result.model_copy(update={"case": result.case.shown})
        if result.outcome == "passed":
            fault = "" if _is_proven(result, folder.path.resolve()) else "its session is unverified"
            if key is None or signer != key.public:
                fault = "its entry in the log is unsigned or was modified"
            claim = {"outcome": "claimed", "low": None, "reason": f"claimed, but {fault}"}
            result = result.model_copy(update=claim) if fault else result
        latest[result.case.id] = result
    return list(latest.values())


def _signed_bytes(folder: BenchFolder, row: dict[str, Any]) -> bytes:
    content = {name: value for name, value in row.items() if name != "sig"}
    return json.dumps([folder.path.resolve().name, content], sort_keys=True).encode()


def _is_proven(result: CaseResult, home: Path) -> bool:
    """Return whether a result refers to a verified pass of the case's intent and robot."""
    folder, case = SessionFolder((home / (result.session or "")).resolve()), result.case
    if not folder.path.is_relative_to(home) or session_state(folder) != "passed":
        return False
    found = read_fields(folder.summary, intent=str, env=str)
    return (found["intent"], Path(found["env"]).name) == (case.intent, Path(case.env).name)


def session_options(options: dict[str, Any]) -> dict[str, Any]:
    """Return all session options by name, including defaults."""
    config = SessionConfig.parse({"intent": "any", "env": "any", **options})
    return config.model_dump(mode="json", exclude={"intent", "env", "schema_version"})


def summarize(
    suite: Suite, asked: Sequence[Case], config: BenchConfig, results: Sequence[CaseResult]
) -> BenchmarkSummary:
    """Summarize the finished cases of a suite."""
    shown = [case.shown for case in suite.case]
    current = {each.case.id: each for each in results if each.case in shown}
    ended = [
        current[case.id]
        for case in suite.case
        if case.id in current and current[case.id].outcome != "stopped"
    ]
    ids = {each.case.id for each in ended}
    passes = [each for each in ended if each.outcome == "passed"]
    counts = Counter(each.outcome for each in ended)
    seconds = [each.seconds for each in passes]
    steps = [each.env_steps for each in passes if each.env_steps is not None]
    return BenchmarkSummary(
        suite=suite.name,
        about=suite.about,
        config=config,
        cases_in_suite=len(suite.case),
        waiting=tuple(each.id for each in asked if each.id not in ids),
        overall=PassRate.of(len(passes), len(ended)),
        by_difficulty=_groups(ended, lambda each: each.case.difficulty, DIFFICULTIES),
        by_category=_groups(ended, lambda each: each.case.category),
        by_env=_groups(ended, lambda each: each.case.env),
        outcomes={name: counts[name] for name in get_args(CaseOutcome) if counts[name]},
        median_seconds_to_pass=median(seconds) if seconds else None,
        median_steps_to_pass=median(steps) if steps else None,
        seconds=sum(each.seconds for each in current.values()),
        usd=total_usd([each.usd for each in current.values()]),
        results=tuple(ended),
    )


def _groups(
    results: Sequence[CaseResult], key: Callable[[CaseResult], str], order: Sequence[str] = ()
) -> tuple[CaseGroup, ...]:
    found = dict.fromkeys(map(key, results))
    groups: list[CaseGroup] = []
    for name in [name for name in order or found if name in found]:
        own = [result for result in results if key(result) == name]
        scores = [result.score for result in own if result.score is not None]
        share = PassRate.of(sum(result.outcome == "passed" for result in own), len(own))
        mean = fmean(scores) if scores else None
        groups.append(CaseGroup(name=name, rate=share, mean_score=mean))
    return tuple(groups)


def total_usd(values: Sequence[float | None]) -> float | None:
    """Return the sum in dollars, or None if a value is unknown."""
    numbers = [value for value in values if value is not None]
    return sum(numbers) if len(numbers) == len(values) else None
