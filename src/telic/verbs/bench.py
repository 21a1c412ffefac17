"""Measure: how often intents become policies, and how well judges judge."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from telic.core.verb import RunsRequest, WatchedRequest, inner, option, verb
from telic.core.words import names
from telic.errors import UnknownName
from telic.verbs.session import SessionOptions

if TYPE_CHECKING:
    from telic.bench.intents import Benchmark
    from telic.bench.judges import JudgeReport

_EXAMPLES = """
telic bench intents --suite core --difficulty easy

telic bench intents --suite core --sample 9 --iterations 2

telic bench intents --suite mine.toml --model host

Run the same command again to go on with what is not finished.
"""


class IntentsRequest(SessionOptions, RunsRequest, WatchedRequest):
    """Cases of a suite, each of which is run as a session."""

    suite: str = option("core, exotic, or a TOML file.", default="core")
    only: Sequence[str] = option("Cases by id: a,b.", default=(), read=names)
    env: str | None = option("Cases of this environment.", default=None)
    difficulty: Sequence[str] = option("easy,medium,hard", default=(), read=names)
    sample: int | None = option(
        "So many cases, difficulties in proportion.", default=None, minimum=1
    )
    sample_seed: int = option("Another sample.", default=0)
    jobs: int = option("Cases at a time.", default=1, minimum=1)
    fresh: bool = option("Measure anew instead of going on.", default=False)


def _is_unfinished(benchmark: Benchmark) -> int:
    return int(bool(benchmark.tally.waiting))


@verb(IntentsRequest, examples=_EXAMPLES, exit_code=_is_unfinished)
def intents(request: IntentsRequest) -> Benchmark:
    """Run every intent of a suite as a session: pass rates with intervals, a page with videos."""
    from telic.bench.intents import bench_intents
    from telic.bench.suite import load_suite
    from telic.core.events import LogMessage

    suite = load_suite(request.suite)
    cases = suite.select(
        only=list(request.only),
        env=request.env,
        difficulty=list(request.difficulty),
        sample=request.sample,
        seed=request.sample_seed,
    )
    request.on_event(LogMessage(message=f"{len(cases)} cases chosen"))
    return bench_intents(
        suite,
        cases,
        runs_dir=request.runs_dir,
        fresh=request.fresh,
        jobs=request.jobs,
        on_event=request.on_event,
        should_stop=request.should_stop,
        **request.options(),
    )


class JudgesRequest(RunsRequest):
    """Episodes whose truth is known."""

    only: Sequence[str] = option("Pairs by id: a,b.", default=(), read=names)
    labelled: Path | None = option("Folder of trajectories with a labels.toml.", default=None)
    on_step: Callable[[str], None] = inner("Called with what is done now.", default=lambda _: None)


class JudgeBenchmark(NamedTuple):
    """How often judges were right, and where all of it is."""

    report: JudgeReport
    output: Path

    def as_data(self) -> JudgeReport:
        """Return the report alone."""
        return self.report


@verb(JudgesRequest)
def judges(request: JudgesRequest) -> JudgeBenchmark:
    """Score episodes whose truth is known by construction; say where the judges are wrong."""
    from telic.bench.judges import bench_judges, load_pairs

    pairs = load_pairs()
    known = [pair.id for pair in pairs]
    for name in request.only:
        if name not in known:
            raise UnknownName("pair", name, known)
    output = Path(request.runs_dir) / "bench_judges" / "results.json"
    report = bench_judges(
        [pair for pair in pairs if not request.only or pair.id in request.only],
        labelled=request.labelled,
        output=output,
        on_pair=lambda name: request.on_step(f"judging {name}"),
    )
    return JudgeBenchmark(report, output)
