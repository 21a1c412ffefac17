"""Compare searches with statistical tests, and refuse searches with different conditions.

    python benchmarks/search/compare.py SEARCH SEARCH … [--metric fresh] [--anyway]

The first search of a task is tested against the others with Welch's t-test and Holm's correction.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
from scipy.stats import mannwhitneyu

from telic.core.stats import bootstrap, holm, interquartile_mean, welch
from telic.errors import Refused
from telic.report import document as doc
from telic.report.markdown import render_section
from telic.search.runner import Result, load_search

METRICS = (
    *("fresh", "final", "mean", "mean_all", "better_of_two"),
    *("mean_selected", "best_seen", "incumbent_area"),
)


def terms_that_differ(results: Sequence[Result]) -> list[str]:
    """Return the differences between the protocols of searches on one task."""
    found = []
    for one, other in combinations(results, 2):
        mine, theirs = (each.summary.protocol.model_dump() for each in (one, other))
        if mine["env"] == theirs["env"]:
            names = f"{one.folder.name} and {other.folder.name}"
            found += [
                f"{names}: {name}: {mine[name]} against {theirs[name]}"
                for name in mine
                if mine[name] != theirs[name]
            ]
    return found


def values_of(result: Result, metric: str) -> np.ndarray:
    """Return the compared value of each run."""
    measured = [getattr(run, metric) for run in result.summary.runs]
    if metric in ("fresh", "final"):
        measured = [each.mean if each else None for each in measured]
    return np.array([each for each in measured if each is not None])


def table_of(results: Sequence[Result], metric: str) -> doc.Table:
    """Return a line for each search, with the test against the first one of its task."""
    values = [values_of(result, metric) for result in results]
    first = {}
    for place, result in enumerate(results):
        first.setdefault(result.summary.env, place)
    leads = [first[result.summary.env] for result in results]
    tested = [
        (None, None) if i == lead else _tests(values[lead], values[i])
        for i, lead in enumerate(leads)
    ]
    corrected = holm([p for p, _ in tested])
    rows = []
    for result, own, p, (_, rank) in zip(results, values, corrected, tested, strict=True):
        ends = bootstrap(own.tolist())
        span = f"{ends.low:.4g} to {ends.high:.4g}" if ends else ""
        chances = ["" if each is None else f"{each:.3g}" for each in (p, rank)]
        middle = interquartile_mean(own.tolist())
        rows.append(
            [
                *(result.summary.env, result.summary.label, str(len(own)), f"{own.mean():.4g}"),
                *(span, f"{middle:.4g}", *chances),
            ]
        )
    heads = ["env", "method", "runs", metric, "95 % interval", "IQM", "Holm p", "Mann-Whitney p"]
    return doc.Table(heads, rows)


def _tests(first: np.ndarray, other: np.ndarray) -> tuple[float | None, float | None]:
    rank = mannwhitneyu(first, other, method="asymptotic") if np.ptp([*first, *other]) else None
    return welch(first, other), None if rank is None else float(rank.pvalue)


def main():
    """Print the table and the ignored differences between protocols."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("searches", nargs="+")
    parser.add_argument("--metric", choices=METRICS, default="fresh")
    parser.add_argument("--runs-dir", type=Path, default=Path("runs"))
    parser.add_argument(
        "--anyway", action="store_true", help="compare despite different conditions"
    )
    options = parser.parse_args()
    results = [load_search(options.runs_dir, name) for name in options.searches]
    differences = terms_that_differ(results)
    if differences and not options.anyway:
        raise Refused(f"The terms differ: {'; '.join(differences)}.", hint="Pass --anyway.")
    print(
        render_section(doc.Section("", (table_of(results, options.metric),))),
        *differences,
        sep="\n",
    )


if __name__ == "__main__":
    main()
