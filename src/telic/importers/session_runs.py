"""The policies that a session trained, as runs with their evidence: curves and judgements."""

from __future__ import annotations

import statistics
from dataclasses import replace
from typing import Any

from telic.authors.candidate import MemberScore, SessionIteration
from telic.importers.records import Curve, EvidenceSheet, ImportedRun, began_at
from telic.judges.verdict import Judgement, Verdict
from telic.session.records import Selection, SessionConfig
from telic.storage.files import read_json, read_json_lines, read_record
from telic.storage.layout import IterationFolder, MemberFolder, RunFolder, SessionFolder
from telic.storage.scalars import read_rows
from telic.studies.documents.contract import Amounts, Phase
from telic.studies.evidence.measurement import thinned
from telic.studies.evidence.series import to_series

_HOUR_S = 3600.0
_TERM = "reward_term_"
_LOGGED = {"episodic_return": "return", "episode_length": "episode_length", "entropy": "entropy"}
_SOURCES = ("code", "vision", "human")


def run_of_trial(
    folder: SessionFolder,
    config: SessionConfig,
    files: IterationFolder,
    judged: SessionIteration,
    member: MemberScore,
) -> ImportedRun:
    """Return a short trial of one variant with one seed."""
    seconds = read_record(files.selection, Selection).training_s
    run = RunFolder(files.path / "trial")
    return _run(folder, config, run, "short_trial", judged.number, member, seconds, judged.trials)


def run_of_training(
    folder: SessionFolder,
    config: SessionConfig,
    files: IterationFolder,
    judged: SessionIteration,
    member: MemberScore,
) -> ImportedRun:
    """Return a full training with one seed."""
    before = read_record(files.selection, Selection).training_s if judged.trials else 0.0
    seconds = judged.training_s - before
    return _run(
        folder,
        config,
        files.run,
        "promotion",
        judged.number,
        member,
        seconds,
        judged.members,
        scores=_while_training(files, member),
    )


def _run(
    folder: SessionFolder,
    config: SessionConfig,
    run: RunFolder,
    phase: Phase,
    number: int,
    member: MemberScore,
    seconds: float,
    together: tuple[MemberScore, ...],
    scores: Curve = (),
) -> ImportedRun:
    own = MemberFolder(run.path / member.member)
    judgement = member.judgement
    if judgement.score is not None:
        scores = (*scores, (float(member.step), judgement.score))
    rows = _rows(own, scores)
    # The members of a population share one process: each is charged its part of the time.
    hours = seconds / len(together) / _HOUR_S
    on_gpu = config.device != "cpu"
    return ImportedRun(
        key=f"{number}/{phase}/{member.member}",
        began_at=_began(run, folder),
        phase=phase,
        seed=member.seed,
        kind="train",
        primary=judgement.score,
        cost=Amounts(
            wall_clock_h=hours, gpu_h=hours if on_gpu else None, env_steps=member.step, launches=1
        ),
        argv=_command(config),
        steps=float(member.step),
        hardware=_hardware(run, config),
        rows=rows,
        curves={name: thinned(each) for name, each in to_series(rows).items()},
        sheets=_judgements(judgement),
        origin=own.path,
    )


def _command(config: SessionConfig) -> tuple[str, ...]:
    seeds = ",".join(map(str, config.seeds))
    words = ["telic", "run", config.intent, "--env", config.env, "--seeds", seeds]
    words += ["--iterations", str(config.iterations), "--threshold", f"{config.threshold:g}"]
    return (*words, *(() if config.model is None else ("--model", config.model)))


def _rows(member: MemberFolder, scores: Curve) -> tuple[dict[str, Any], ...]:
    """Return the log of a policy under the names that studies use, judged scores included."""
    rows: list[dict[str, Any]] = []
    for row in read_rows(member.scalars, "train") if member.scalars.is_file() else ():
        named = {new: row[old] for old, new in _LOGGED.items() if row.get(old) is not None}
        terms = {
            f"reward/{name.removeprefix(_TERM)}": value
            for name, value in row.items()
            if name.startswith(_TERM) and value is not None
        }
        rows.append({"step": float(row["global_step"]), **_floats({**named, **terms})})
    rows += [{"step": step, "score": score} for step, score in scores]
    return tuple(sorted(rows, key=lambda each: each["step"]))


def _floats(values: dict[str, Any]) -> dict[str, float]:
    return {name: float(value) for name, value in values.items()}


def _while_training(files: IterationFolder, member: MemberScore) -> Curve:
    """Return what the judge said of a policy at its checkpoints."""
    return tuple(
        (float(row["step"]), float(score))
        for row in read_json_lines(files.checkpoints)
        if (score := row["scores"].get(member.member)) is not None and row["step"] < member.step
    )


def _began(run: RunFolder, folder: SessionFolder) -> str:
    if run.manifest.is_file():
        return str(read_json(run.manifest)["created_at"])
    return began_at(folder.name, folder.config)


def _hardware(run: RunFolder, config: SessionConfig) -> str | None:
    if not run.manifest.is_file():
        return None
    return f"{read_json(run.manifest).get('platform')}; {config.device}"


# ---------------------------------------------------------------------------- what judges said


def _judgements(judgement: Judgement) -> tuple[EvidenceSheet, ...]:
    """Return a sheet per judge, and one of the fused score where there were several."""
    fused = [each for each in judgement.verdicts if each.source == "fused"]
    if not fused:
        source = judgement.verdicts[0].source if judgement.verdicts else "code"
        return (_whole(judgement, source),)
    apart = [_apart(fused, source) for source in _SOURCES if _scores_by(fused, source)]
    whole = _whole(judgement, "fused")
    # Reflection looks here for how far the judges are apart.
    by_judge = {
        name: statistics.fmean(scores)
        for name, source in (("code", "code"), ("visual", "vision"))
        if (scores := _scores_by(fused, source))
    }
    return (*apart, replace(whole, payload={**whole.payload, **by_judge}))


def _whole(judgement: Judgement, source: str) -> EvidenceSheet:
    payload = {
        "source": source,
        "score": judgement.score,
        "low": judgement.low,
        "episodes": judgement.episodes,
        "unknown": judgement.unknown,
        "by_episode": [each.score for each in judgement.verdicts],
        "lacking": list(judgement.tags),
        "criteria": {
            title: {"credit": credit, "measured": value}
            for title, (credit, value) in judgement.leaves.items()
        },
        "disagreements": sum(len(each.disagreements) for each in judgement.verdicts),
    }
    score = "could not tell" if judgement.score is None else f"{judgement.score:.3g}"
    return EvidenceSheet("judgment", payload, f"telic.judge.{source}", f"{source}: {score}")


def _apart(fused: list[Verdict], source: str) -> EvidenceSheet:
    scores = _scores_by(fused, source)
    mean = statistics.fmean(scores)
    payload = {
        "source": source,
        "score": mean,
        "episodes": len(fused),
        "unknown": len(fused) - len(scores),
        "by_episode": [each.by_judge.get(source) for each in fused],  # pyright: ignore[reportArgumentType]
    }
    return EvidenceSheet("judgment", payload, f"telic.judge.{source}", f"{source}: {mean:.3g}")


def _scores_by(fused: list[Verdict], source: str) -> list[float]:
    found = (dict(each.by_judge).get(source) for each in fused)  # pyright: ignore[reportArgumentType]
    return [each for each in found if each is not None]
