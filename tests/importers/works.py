"""A session and a search with records in them, made without training."""

from pathlib import Path

from telic.authors.candidate import MemberScore
from telic.judges.criteria import Leaf
from telic.judges.verdict import Verdict, judged, together
from telic.search.records import (
    Fresh,
    PolicyCandidate,
    SearchConfig,
    SearchFolder,
    SearchIteration,
    SearchProtocol,
    SearchRunSummary,
    TrialEpisodes,
)
from telic.session.records import SessionSummary
from telic.storage.files import JsonLines, write_json
from telic.storage.layout import SessionFolder
from tests.session.sessions import add_iteration, end, make_session

SESSION = "session_20260102_030405_abcd1234"
SEARCH = "search_20260102_030405_abcd1234"


def begin_session(runs_dir: Path) -> SessionFolder:
    """Return a session that was authored, with two seeds and two iterations to try."""
    return make_session(runs_dir, SESSION, iterations=2, seeds=(1, 2))


def try_reward(folder: SessionFolder, number: int, score: float) -> None:
    """Add an iteration whose two policies have a score, and pass from 0.8 on."""
    members = tuple(_member(seed, score + 0.01 * seed) for seed in (1, 2))
    passed = score >= 0.8
    add_iteration(folder, number, score=score, passed=passed, members=members, steps=512)


def end_session(folder: SessionFolder, outcome: str, iterations: int) -> None:
    """Write how the session ended."""
    summary = SessionSummary(
        session=folder.name,
        intent="run forward",
        env="HalfCheetah-v5",
        outcome=outcome,
        iterations=iterations,
        best_iteration=iterations,
        best_member="reward_seed_1",
        score=0.9,
        low=0.85,
        seconds=3.0,
        not_understood=(),
        doubts=(),
    )
    end(folder, summary)


def _member(seed: int, score: float) -> MemberScore:
    verdicts = [_fused(score + shift) for shift in (-0.01, 0.01)]
    return MemberScore(
        member=f"reward_seed_{seed}", variant=0, seed=seed, step=256, judgement=together(verdicts)
    )


def _fused(score: float) -> Verdict:
    leaf = Leaf(
        title="runs forward",
        value=4 * score,
        unit="m/s",
        zero=0.0,
        goal=4.0,
        weight=1.0,
        credit=score,
        counted=score,
        passed=score >= 1,
        tag="too_slow",
        is_guard=False,
    )
    by_judge = {"code": score, "vision": score}
    return judged([leaf], score).model_copy(update={"source": "fused", "by_judge": by_judge})


def begin_search(runs_dir: Path, runs: int = 2) -> SearchFolder:
    """Return a search that has begun, and tried nothing."""
    folder = SearchFolder(runs_dir / SEARCH)
    write_json(folder.config, SearchConfig(env="CartPole-v1", method="cma", runs=runs))
    terms = SearchProtocol(
        env="CartPole-v1",
        policy="linear",
        is_scaled=True,
        low=-6,
        high=6,
        decimals=2,
        clips=True,
        limit=500,
        target=500,
        episodes=4000,
        warmup_is_extra=False,
        is_faithful=False,
    )
    write_json(folder.manifest, {"protocol": terms})
    return folder


def search_once(folder: SearchFolder, run: int, means: list[float]) -> None:
    """Add iterations of one trial each to a run."""
    lines = JsonLines(folder.run(run).iterations)
    before = len(list(folder.run(run).read()))
    for place, mean in enumerate(means, start=before):
        tried = TrialEpisodes(seed=1, returns=(mean, mean), lengths=(9, 9), ends="tt")
        made = PolicyCandidate(number=place, params=(0.5, float(place)), origin="cma", tried=tried)
        iteration = SearchIteration(
            number=place + 1,
            candidates=(made,),
            selected=place,
            winner="first",
            incumbent=place,
            incumbent_mean=mean,
            episodes=2 * place + 2,
            steps=18 * (place + 1),
            model="none",
        )
        lines.append(iteration.model_dump(mode="json"))
    lines.close()


def end_run(folder: SearchFolder, run: int, mean: float) -> None:
    """Write what a run came to on fresh episodes."""
    log = list(folder.run(run).read())
    fresh = Fresh(mean=mean, low=mean - 5, high=min(mean + 5, 500), episodes=20, success=0.5)
    summary = SearchRunSummary(
        run=run,
        outcome="completed",
        method="cma",
        proposer="cma",
        model="none",
        iterations=len(log),
        candidates=len(log),
        episodes=2 * len(log),
        steps=18 * len(log),
        calls=0,
        price_usd=None,
        best=log[-1].candidates[0].params,
        fresh=fresh,
        mean=mean,
        mean_all=mean,
        mean_selected=mean,
        best_seen=mean,
        incumbent_area=mean,
        episodes_to_good=None,
        calls_to_good=None,
        fallbacks=0,
        seconds=1.0,
    )
    write_json(folder.run(run).summary, summary)
