"""The report of a session: what was asked, tried and proven, with pictures and a video."""

from __future__ import annotations

from pathlib import Path

from telic.composer.compose import Composition
from telic.rendering import film_strip, render_one
from telic.session.folder import SessionFolder
from telic.session.records import Iteration, SessionConfig, SessionSummary
from telic.storage.files import write_text


def write_report(
    folder: SessionFolder,
    config: SessionConfig,
    author: Composition,
    history: list[Iteration],
    summary: SessionSummary,
) -> None:
    """Write report.md and the pictures and video of the best policy's median episode."""
    shown = _pictures(folder, history, summary)
    lines = [
        f"# {config.intent}",
        "",
        f"{config.env}: **{_outcome(summary)}** after {summary.iterations} "
        f"iteration{'s' if summary.iterations != 1 else ''} and {summary.seconds:.0f} s.",
        "",
        *_proof(summary, config),
        "",
        "## What it looks like",
        "",
        *shown,
        "",
        "## Criteria",
        "",
        "| criterion | measured (median) | credit |",
        "|---|---|---|",
        *_criteria(history, summary),
        "",
        *_words(author),
        "## What was tried",
        "",
        "| iteration | change | score | proves | what is lacking | training |",
        "|---|---|---|---|---|---|",
        *(_row(each) for each in history),
        "",
        "The reward, the judge and every judged episode are in this folder; "
        "`telic show`, `telic play` and `telic export` work on `iter_N/train`.",
        "",
    ]
    write_text(folder.report, "\n".join(lines))


def _outcome(summary: SessionSummary) -> str:
    return {"passed": "passed", "not_passed": "did not pass", "stopped": "stopped"}[summary.outcome]


def _proof(summary: SessionSummary, config: SessionConfig) -> list[str]:
    if summary.score is None or summary.low is None:
        return ["No policy could be judged."]
    return [
        f"The best policy scores {summary.score:.2f} on {config.episodes} fresh episodes (at least "
        f"{summary.low:.2f} with 95 % confidence; {config.threshold:g} is needed, from "
        f"{config.needed} of {len(config.seeds)} training seeds)."
    ]


def _best(history: list[Iteration], summary: SessionSummary) -> Iteration | None:
    return next((each for each in history if each.number == summary.best_iteration), None)


def _criteria(history: list[Iteration], summary: SessionSummary) -> list[str]:
    best = _best(history, summary)
    if best is None:
        return []
    member = next(each for each in best.members if each.member == best.best)
    return [
        f"| {title} | {'–' if value is None else f'{value:.3g}'} | {credit:.0%} |"
        for title, (credit, value) in member.judgement.leaves.items()
    ]


def _words(author: Composition) -> list[str]:
    lines = [f"- {each}" for each in author.doubts]
    if author.not_understood:
        lines.append(f"- not understood: {', '.join(author.not_understood)}")
    return ["## How the words were read", "", *lines, ""] if lines else []


def _row(each: Iteration) -> str:
    score = "–" if each.score is None else f"{each.score:.2f}"
    proves = max((member.low for member in each.members), default=-1.0)
    return (
        f"| {each.number} | {each.change} | {score} | {max(proves, 0.0):.2f} | "
        f"{', '.join(each.tags) or 'nothing'} | {each.training_s:.0f} s |"
    )


def _pictures(
    folder: SessionFolder, history: list[Iteration], summary: SessionSummary
) -> list[str]:
    """Draw the episode in the middle of the best policy's scores."""
    best = _best(history, summary)
    if best is None:
        return []
    member = next(each for each in best.members if each.member == best.best)
    scores = [each.score if each.score is not None else -1.0 for each in member.judgement.verdicts]
    middle = sorted(range(len(scores)), key=lambda index: scores[index])[len(scores) // 2]
    episode = folder.iteration(best.number).episode(best.best, middle)
    folder.report_dir.mkdir(exist_ok=True)
    strip, video = folder.report_dir / "strip.png", folder.report_dir / "median.mp4"
    lines: list[str] = []
    if not film_strip(episode, strip).error:
        lines.append(f"![six moments of the median episode]({_relative(strip, folder)})")
    if not render_one(episode, video).error:
        lines.append(f"\n[Video of the median episode]({_relative(video, folder)})")
    return lines


def _relative(path: Path, folder: SessionFolder) -> str:
    return str(path.relative_to(folder.path))
