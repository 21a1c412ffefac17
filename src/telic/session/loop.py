"""THE MAIN FLOW of a session: author, train, judge, and revise until it passes.

Every step looks for its own finished record first, so resuming is running again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from telic.composer.compose import Composition, compose
from telic.core.config import Record
from telic.core.events import Listener
from telic.envs import make
from telic.envs.spec import EnvSpec
from telic.judges.code import judge_files
from telic.judges.verdict import together
from telic.session.episodes import record
from telic.session.folder import SessionFolder
from telic.session.records import Candidate, Iteration, MemberScore, SessionConfig, SessionSummary
from telic.session.report import write_report
from telic.session.revise import revise
from telic.session.weights import weights_in, with_weights
from telic.storage.files import read_record, write_json, write_text
from telic.storage.layout import RunFolder
from telic.training.plan import plan
from telic.training.policy import load_policy
from telic.training.run import Run, execute

Made = TypeVar("Made", bound=Record)


def run_loop(
    config: SessionConfig, folder: SessionFolder, tell: Listener, should_stop: Callable[[], bool]
) -> SessionSummary:
    """Do the session, or go on with it where it was interrupted."""
    started = time.monotonic()
    write = partial(_author, config, folder, tell, should_stop)
    author = _once(folder.author, Composition, write)
    write_text(folder.judge, author.judge)
    tell({"event": "session.authored", **author.model_dump(exclude={"reward", "judge"})})
    history: list[Iteration] = []
    for number in range(1, config.iterations + 1):
        files = folder.iteration(number)
        candidate = _once(files.candidate, Candidate, partial(_propose, config, folder, history))
        write_text(files.reward, candidate.reward)
        if not files.judgment.exists():
            tell({"event": "session.iteration", "number": number, "change": candidate.change})
            run = _train(config, candidate, files.path, tell, should_stop)
            if run.status != "completed":
                return _finish(config, folder, author, history, "stopped", started)
            write_json(files.judgment, _judge(config, folder, number, candidate, run))
        history.append(read_record(files.judgment, Iteration))
        tell({"event": "session.judged", **history[-1].model_dump(exclude={"members"})})
        if history[-1].passed:
            return _finish(config, folder, author, history, "passed", started)
    return _finish(config, folder, author, history, "not_passed", started)


def _author(
    config: SessionConfig, folder: SessionFolder, tell: Listener, should_stop: Callable[[], bool]
) -> Composition:
    """Let the composer or a model write criteria, reward and judge."""
    spec = _spec(config)
    if config.model is None:
        return compose(config.intent, spec)
    from telic.agents.author import author
    from telic.llm import Budget, connect

    budget = Budget(usd=config.max_usd, calls=config.max_calls)
    models = connect(
        config.model, folder.path, budget=budget, on_event=tell, should_stop=should_stop
    )
    return author(models, config.intent, spec)


def _spec(config: SessionConfig) -> EnvSpec:
    env = make(config.env, num_envs=1)
    env.close()
    return env.spec


def _propose(config: SessionConfig, folder: SessionFolder, history: list[Iteration]) -> Candidate:
    """Return what to try next: first what the author wrote, then a revision."""
    if not history:
        author = read_record(folder.author, Composition)
        return Candidate(
            reward=author.reward, env_args=author.env_args, settings=author.settings,
            steps=config.steps or author.steps,
        )  # fmt: skip
    last = read_record(folder.iteration(history[-1].number).candidate, Candidate)
    return revise(history, last, weights_in(last.reward))


def _once(path: Path, kind: type[Made], make_it: Callable[[], Made]) -> Made:
    """Return the record of a step that was finished before, or take the step and record it."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, make_it())
    return read_record(path, kind)


def _train(
    config: SessionConfig, candidate: Candidate, folder: Path, tell: Listener,
    should_stop: Callable[[], bool],
) -> Run:  # fmt: skip
    """Train every variant with every seed as one population; goes on by itself."""
    own = weights_in(candidate.reward)
    rewards = [with_weights(candidate.reward, {**own, **each}) for each in candidate.weights]
    job = plan(
        config.env,
        rewards=rewards,
        steps=candidate.steps, seeds=config.seeds, env_args=candidate.env_args,
        settings=candidate.settings, evaluations=2,
        device=config.device,
    )  # fmt: skip
    return execute(job, folder, name="train", on_event=tell, should_stop=should_stop)


def _judge(
    config: SessionConfig, folder: SessionFolder, number: int, candidate: Candidate, run: Run
) -> Iteration:
    """Play fresh episodes with every trained policy and judge them."""
    started = time.monotonic()
    files, members = folder.iteration(number), RunFolder(run.path).members()
    paths: list[Path] = []
    steps: list[int] = []
    for member in members:
        checkpoint = member.checkpoints()[-1]
        own = [files.episode(member.name, index) for index in range(config.episodes)]
        paths += record(load_policy(checkpoint.path), config.env, candidate.env_args, own)
        steps.append(checkpoint.step)
    verdicts = judge_files(folder.judge.read_text(), paths, files.judged_dir)
    scores: list[MemberScore] = []
    for index, member in enumerate(members):
        own = verdicts[index * config.episodes : (index + 1) * config.episodes]
        config_name, _, seed = member.name.rpartition("_seed_")
        scores.append(
            MemberScore(
                member=member.name,
                variant=_variant(config_name),
                seed=int(seed),
                step=steps[index],
                judgement=together(own),
            )
        )
    return _decide(config, number, candidate, scores, run, time.monotonic() - started)


def _variant(config_name: str) -> int:
    """Return which of the candidate's weights a member has, from the reward's name."""
    digits = config_name.removeprefix("reward")
    return int(digits) - 1 if digits.isdigit() else 0


def _decide(
    config: SessionConfig, number: int, candidate: Candidate, scores: list[MemberScore], run: Run,
    judging_s: float,
) -> Iteration:  # fmt: skip
    """Choose the best variant by what its policies prove, and say whether it passes."""
    variants = sorted({each.variant for each in scores})

    def proven(variant: int) -> tuple[int, float]:
        own = [each.low for each in scores if each.variant == variant]
        return sum(low >= config.threshold for low in own), sum(own) / len(own)

    variant = max(variants, key=proven)
    own = [each for each in scores if each.variant == variant]
    known = [each.judgement.score for each in own if each.judgement.score is not None]
    best = max(own, key=lambda each: each.low)
    return Iteration(
        number=number, parent=candidate.parent, change=candidate.change,
        passed=proven(variant)[0] >= config.needed,
        score=sum(known) / len(known) if known else None, variant=variant, best=best.member,
        tags=best.judgement.tags, members=tuple(scores),
        training_s=run.summary["training_time_s"], judging_s=judging_s,
    )  # fmt: skip


def _finish(
    config: SessionConfig, folder: SessionFolder, author: Composition, history: list[Iteration],
    outcome: str, started: float,
) -> SessionSummary:  # fmt: skip
    best = max(history, key=lambda each: (each.passed, each.score or -1.0), default=None)
    member = next(each for each in best.members if each.member == best.best) if best else None
    summary = SessionSummary(
        session=folder.name, intent=config.intent, env=config.env, outcome=outcome,  # type: ignore[arg-type]
        iterations=len(history), best_iteration=best.number if best else None,
        best_member=best.best if best else None,
        score=member.judgement.score if member else None,
        low=member.judgement.low if member else None,
        seconds=time.monotonic() - started, not_understood=author.not_understood,
        doubts=author.doubts,
    )  # fmt: skip
    write_json(folder.summary, summary)
    write_report(folder, config, author, history, summary)
    return summary
