"""Check the installation, run benchmarks, and build the plugin for coding agents."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from telic import bench
from telic.core.events import LogMessage
from telic.core.request import (
    PlacedRequest,
    VerbRequest,
    location,
    option,
    read_options,
)
from telic.core.text import names
from telic.core.verb import VerbResult, verb
from telic.plugin.package import HOME, differences, write_package
from telic.training.machine import MachineCheck, examine
from telic.verbs.elsewhere import remote_verbs
from telic.verbs.session import IntentRequest

if TYPE_CHECKING:
    from telic.bench.intents import Benchmark


@verb(VerbRequest, exit_code=lambda report: any(x.state == "bad" for x in report.data))
def doctor(request: VerbRequest) -> VerbResult[list[MachineCheck]]:
    """Check versions, CPU cores, rendering, the sandbox and optional packages."""
    return VerbResult(examine())


class _PluginRequest(VerbRequest):
    """Plugin for coding agents."""

    root: Path | str = location("Folder for the catalogues.", "--root", default=Path())
    check: bool = option("List outdated files instead of writing them.", default=False)


class _PluginFiles(NamedTuple):
    """Plugin files that were written or are outdated."""

    plugin: str
    changed: list[str]
    stale: list[str]


@verb(_PluginRequest, exit_code=lambda found: 4 if found.stale else 0)
def build(request: _PluginRequest) -> _PluginFiles:
    """Write the plugin for coding agents: catalogues, manifests, skills, agents and hooks.

    Exits with code 4 if --check finds an outdated file.
    """
    root = Path(request.root)
    if request.check:
        return _PluginFiles(str(root / HOME), [], differences(root))
    return _PluginFiles(str(root / HOME), write_package(root), [])


_EXAMPLES = """
telic bench intents --suite core --difficulty easy
telic bench intents --suite core --sample 9 --set iterations=2
telic bench intents --suite mine.toml --set model=host
Run the same command again to resume unfinished cases.
"""


class _IntentsRequest(PlacedRequest):
    """Request to run each case of a suite as a session."""

    suite: str = option("Suite: core, exotic, or a TOML file.", default="core")
    only: Sequence[str] = option("Case ids, separated by commas.", default=(), read=names)
    env: str | None = option("Only run cases of this environment.", default=None)
    difficulty: Sequence[str] = option("Difficulties: easy,medium,hard.", default=(), read=names)
    sample: int | None = option(
        "Number of cases, stratified by difficulty.", default=None, minimum=1
    )
    jobs: int = option("Number of cases to run in parallel.", default=1, minimum=1)
    fresh: bool = option("Start from scratch instead of resuming.", default=False)
    settings: Sequence[str] = option(
        "Option of telic run for every session: --set iterations=2. Repeatable.",
        "--set",
        default=(),
        many=True,
    )


@verb(_IntentsRequest, examples=_EXAMPLES, exit_code=lambda made: bool(made.summary.waiting))
def intents(request: _IntentsRequest) -> Benchmark:
    """Run each prompt of a suite as a session and report pass rates with confidence intervals."""
    suite = bench.results.load_suite(request.suite)
    cases = suite.select(
        only=list(request.only),
        env=request.env,
        difficulty=list(request.difficulty),
        sample=request.sample,
    )
    request.on_event(LogMessage(message=f"{len(cases)} cases selected"))
    run_cases = partial(
        bench.intents.bench_intents,
        suite,
        cases,
        runs_dir=request.runs_dir,
        fresh=request.fresh,
        on_event=request.on_event,
        should_stop=request.should_stop,
        **read_options(IntentRequest, request.settings),
    )
    if request.on is None:
        return run_cases(jobs=request.jobs)
    with remote_verbs(request) as elsewhere:
        jobs = request.jobs if request.jobs > 1 else elsewhere.pool.at_once
        return run_cases(jobs=jobs, run_session=elsewhere.run_session)
