"""telic bench: measure how often intents become policies, and how well judges judge."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from telic.cli.options import RUNS, AsJson, Debug, RunsDir, count, integers
from telic.cli.output import command, console, duration, number, print_json, table
from telic.cli.progress import interruptible

if TYPE_CHECKING:
    from telic.bench.judges import JudgeReport
    from telic.bench.results import CaseGroup, Rate, Tally

_EXAMPLES = """
[bold]Examples[/]

telic bench intents --suite core --difficulty easy

telic bench intents --suite core --sample 9 --iterations 2

telic bench intents --suite mine.toml --model host

Run the same command again to go on with what is not finished.
"""


def register(app: typer.Typer) -> None:
    """Add the commands."""
    bench = typer.Typer(
        help="Measure: intents that become policies, judges that tell right from wrong.",
        no_args_is_help=True,
    )
    bench.command("intents", epilog=_EXAMPLES)(command(intents))
    bench.command("judges")(command(judges))
    app.add_typer(bench, name="bench")


def intents(
    suite: Annotated[str, typer.Option(help="core, exotic, or a TOML file.")] = "core",
    only: Annotated[str | None, typer.Option(help="Cases by id: a,b.")] = None,
    env: Annotated[str | None, typer.Option(help="Cases of this environment.")] = None,
    difficulty: Annotated[str | None, typer.Option(help="easy,medium,hard")] = None,
    sample: Annotated[
        int | None, typer.Option(min=1, help="So many cases, difficulties in proportion.")
    ] = None,
    sample_seed: Annotated[int, typer.Option(help="Another sample.")] = 0,
    iterations: Annotated[int, typer.Option(min=1, help="Rewards to try at most.")] = 4,
    seeds: Annotated[str, typer.Option(help="Training seeds per reward: 1,2,3 or 1-3.")] = "1-3",
    threshold: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Score a policy must prove.")
    ] = 0.8,
    episodes: Annotated[int, typer.Option(min=4, help="Fresh episodes to judge.")] = 12,
    steps: Annotated[str | None, typer.Option(help="Steps per policy, e.g. 300k.")] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    model: Annotated[
        str | None, typer.Option(help="Who writes: provider:model, host; None: the composer.")
    ] = None,
    max_calls: Annotated[int | None, typer.Option(help="Model calls per case at most.")] = None,
    budget_usd: Annotated[float | None, typer.Option(help="Dollars per case at most.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Cases at a time.")] = 1,
    fresh: Annotated[bool, typer.Option(help="Measure anew instead of going on.")] = False,
    runs_dir: RunsDir = RUNS,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Run every intent of a suite as a session: pass rates with intervals, a page with videos."""
    from telic.bench.intents import bench_intents
    from telic.bench.suite import load_suite
    from telic.cli.views import BenchView

    loaded = load_suite(suite)
    cases = loaded.select(
        only=_names(only), env=env, difficulty=_names(difficulty), sample=sample, seed=sample_seed
    )
    view = BenchView(total=len(cases), brief=jobs > 1, quiet=as_json)
    with interruptible() as stop, view:
        found = bench_intents(
            loaded,
            cases,
            runs_dir=runs_dir,
            fresh=fresh,
            jobs=jobs,
            on_event=view,
            should_stop=stop,
            iterations=iterations,
            seeds=tuple(integers(seeds, "--seeds")),
            threshold=threshold,
            episodes=episodes,
            steps=count(steps, "--steps") if steps else None,
            device=device,
            model=model,
            max_calls=max_calls,
            max_usd=budget_usd,
        )
    if as_json:
        print_json({"path": str(found.path), **found.tally.model_dump(mode="json")})
    else:
        _tell(found.path, found.tally)
    if found.tally.waiting:
        raise typer.Exit(1)


def judges(
    only: Annotated[str | None, typer.Option(help="Pairs by id: a,b.")] = None,
    labelled: Annotated[
        Path | None, typer.Option(help="Folder of trajectories with a labels.toml.")
    ] = None,
    runs_dir: RunsDir = RUNS,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Score episodes whose truth is known by construction; say where the judges are wrong."""
    from telic.bench.judges import bench_judges, load_pairs
    from telic.errors import UnknownName

    pairs, wanted = load_pairs(), _names(only)
    known = [each.id for each in pairs]
    for name in wanted:
        if name not in known:
            raise UnknownName("pair", name, known)
    output = runs_dir / "bench_judges" / "results.json"
    with console.status("judging") as status:
        report = bench_judges(
            [each for each in pairs if not wanted or each.id in wanted],
            labelled=labelled,
            output=output,
            on_pair=lambda name: status.update(f"judging {name}"),
        )
    if as_json:
        print_json(report.model_dump(mode="json"))
    else:
        _tell_judges(report, output)


def _tell_judges(report: JudgeReport, output: Path) -> None:
    rows: list[tuple[str | int, ...]] = []
    for pair in dict.fromkeys(each.pair for each in report.examples):
        own = [each for each in report.examples if each.pair == pair]
        wrong = [each.name for each in own if not each.agrees]
        rows.append(
            (pair, own[0].env, sum(each.agrees for each in own), len(own), ", ".join(wrong))
        )
    console.print(table(None, ["pair", "robot", "right", "of", "wrong about"], rows))
    for each in report.examples:
        if not each.agrees:
            what = "is wrong, yet scores" if not each.is_right else "is right, yet scores"
            console.print(
                f"\n[yellow]{escape(each.pair)}[/]: {escape(each.name)} ({each.kind}) {what} "
                f"{number(each.score, 2)}\n  [dim]{escape(each.why)}[/]",
                soft_wrap=True,
            )
    for name, why in report.refused.items():
        console.print(f"\n[blue]{escape(name)}[/] was refused: {escape(why)}", soft_wrap=True)
    console.print(f"\n[bold]{_rate(report.agreement)}[/] of the scores agree with the truth")
    console.print(f"right ones recognised: {_rate(report.recognised)}")
    console.print(f"wrong ones rejected: {_rate(report.rejected)}")
    console.print(f"bad habits that would pass: {len(report.habit_passes)}")
    console.print(f"scores that differ the second time: {len(report.not_repeated)}")
    console.print(f"all of it  {output}")


def _names(text: str | None) -> list[str]:
    return [each.strip() for each in (text or "").split(",") if each.strip()]


def _tell(path: Path, found: Tally) -> None:
    rows = [
        (
            each.case.id,
            each.case.difficulty,
            each.outcome.replace("_", " "),
            each.score,
            each.low,
            each.iterations,
            each.env_steps,
            duration(each.seconds),
            each.reason or "",
        )
        for each in found.results
    ]
    columns = ["case", "difficulty", "outcome", "score", "proves", "tries", "steps", "time", "why"]
    console.print()
    console.print(table(None, columns, rows))
    for title, groups in (
        ("difficulty", found.by_difficulty),
        ("category", found.by_category),
        ("robot", found.by_env),
    ):
        console.print()
        console.print(table(None, [title, "passed", "95 % interval", "mean score"], _rows(groups)))
    console.print(f"\n[bold]{_rate(found.overall)}[/] pass")
    if found.median_seconds_to_pass is not None:
        console.print(
            f"a pass takes {duration(found.median_seconds_to_pass)} and "
            f"{number(found.median_steps_to_pass)} steps (median)"
        )
    cost = "an unknown amount" if found.usd is None else f"${found.usd:.2f}"
    console.print(f"all of it took {duration(found.seconds)} and {cost} for models")
    if found.waiting:
        console.print(f"not finished, the same command goes on: {', '.join(found.waiting)}")
    console.print(f"page  {path / 'index.html'}")


def _rows(groups: tuple[CaseGroup, ...]) -> list[tuple[str, str, str, float | None]]:
    return [
        (
            each.name,
            f"{each.rate.passed} of {each.rate.total}",
            f"{each.rate.low:.0%} to {each.rate.high:.0%}",
            each.mean_score,
        )
        for each in groups
    ]


def _rate(rate: Rate) -> str:
    if rate.share is None:
        return "0 of 0"
    return (
        f"{rate.passed} of {rate.total} ({rate.share:.0%}; {rate.low:.0%} to {rate.high:.0%} with "
        "95 % confidence)"
    )
