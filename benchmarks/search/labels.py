"""Test whether labeling an episode "worst" changes the revisions of a critic.

`revisions` measures correlations, while this measures the causal effect. A critic sees the worst,
median and best episode of a policy as A, B and C in random order, with the information which one is
the worst: once the true one, once the median one. Nothing else differs, so the difference between
the two revisions is due to the label or to chance. This requires a model:

    python benchmarks/search/labels.py latest --model ollama:qwen3 [--cases 20]
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.stats
from revisions import is_vivid

from telic.core.config import Record
from telic.core.seeds import derive
from telic.errors import UsageError
from telic.llm import Budget, ModelAnswerError, Models, connect
from telic.search._language_model import PolicyRequester, objection
from telic.search._writer import Prompt, WatchedCandidate, Writer, describe_trace, nearest
from telic.search.plan import SearchPlan
from telic.search.records import History, PolicyCandidate
from telic.search.runner import Result, load_search
from telic.search.task import Floats, PolicyTrial, generator, rollout_seeds

_LETTERS = "ABC"
_NEW_STARTS = 50
_LEVEL = 0.05
"""error level of each of the two conclusions if the label has no effect"""
_FEWEST = 5
"""minimum number of pairs, because 2^-5 is the first probability below the level"""


class LabelPair(NamedTuple):
    """Policy with two prompts that label different episodes as the worst one."""

    run: int
    candidate: PolicyCandidate
    worst: int
    """index of the truly worst episode among the candidate's"""
    honest: Prompt
    moved: Prompt


class LabelEffect(Record):
    """Difference between honest and moved label, over pairs.

    If the label has no effect, the sign of each difference is random. The conclusions (`above`,
    `below`) rely only on that, so they are wrong no more often than the level, even for few. The
    interval, which assumes normal differences, shows the size of the effect.
    """

    mean: float
    low: float | None
    """lower end of the 95 % interval by Student's t, or None for a single pair"""
    high: float | None
    above: float | None = None
    """probability of a mean at least this high without an effect, or None in old reports"""
    below: float | None = None
    """probability of a mean at most this low without an effect"""


class LabelReport(Record):
    """Effect of moving the label."""

    title: str
    model: str
    pairs: int
    unanswered: int
    """number of pairs left out, because no answer was valid"""
    regressed_honest: int
    """number of revisions that are worse than the original policy on the same new episodes"""
    regressed_moved: int
    on_worst: LabelEffect
    """return on the start of the truly worst episode, above 0 if the label attracts revisions"""
    overall: LabelEffect
    """return on new episodes, below 0 if that harms the policy"""

    @property
    def conclusion(self) -> str:
        """Conclusion in one or two sentences."""
        drawn, harmed = self.on_worst, self.overall
        if self.pairs < _FEWEST:
            return f"{self.pairs} pairs cannot tell an effect from chance; ask about {_FEWEST}."
        if drawn.above is not None and drawn.above <= _LEVEL:
            said = "Calling an episode the worst makes revisions do better on its start"
        else:
            said = "No sign that calling an episode the worst draws revisions to it"
        if harmed.below is not None and harmed.below <= _LEVEL:
            cost = "On new starts they do worse for it"
        else:
            cost = "No sign that it harms them on new starts"
        return f"{said} ({_interval(drawn)}). {cost} ({_interval(harmed)})."

    def rows(self) -> list[tuple[Any, ...]]:
        """Return the results by label as rows of a table."""
        return [
            ("the worst episode", self.pairs, self.regressed_honest),
            ("the median episode", self.pairs, self.regressed_moved),
        ]


def label_pairs(result: Result, cases: int) -> list[LabelPair]:
    """Return prompts about at most `cases` policies from all parts of a search.

    Only policies whose worst episode was worse than the median one are informative. Raises
    UsageError if there are none.
    """
    vivid = [
        (run, candidate)
        for run, log in result.iterations.items()
        for iteration in log
        for candidate in iteration.candidates
        if candidate.place == "first" and is_vivid(candidate)
    ]
    if not vivid:
        raise UsageError(
            f"No policy of {result.folder.name} has a worst episode that stands out.",
            hint="Name a search whose candidates were tried on several episodes each.",
        )
    places: list[int] = np.unique(np.linspace(0, len(vivid) - 1, cases).astype(int)).tolist()
    return [_pair(result.plan.of_run(vivid[place][0]), *vivid[place]) for place in places]


def label_report(result: Result, models: Models, cases: int = 20) -> LabelReport:
    """Query a model with both prompts of every pair, and play both answers."""
    pairs = label_pairs(result, cases)
    asked = [(pair, _ask(result.plan, models, pair)) for pair in pairs]
    answered = [(pair, answers) for pair, answers in asked if answers is not None]
    if not answered:
        raise UsageError(
            f"{models.provider.name} gave no valid answer, so there is nothing to compare.",
            hint="Ask a stronger model.",
        )
    played = [_play(result.plan.of_run(pair.run), pair, answers) for pair, answers in answered]
    overall = np.array([each.overall for each in played])  # (pairs, 3)
    on_worst = np.array([each.on_worst for each in played])
    return LabelReport(
        title=f"{result.summary.env}: which episode is called the worst, asked of "
        f"{models.provider.name}",
        model=models.provider.name,
        pairs=len(played),
        unanswered=len(pairs) - len(played),
        regressed_honest=int((overall[:, 1] < overall[:, 0]).sum()),
        regressed_moved=int((overall[:, 2] < overall[:, 0]).sum()),
        on_worst=_effect(on_worst[:, 1] - on_worst[:, 2]),
        overall=_effect(overall[:, 1] - overall[:, 2]),
    )


class _Played(NamedTuple):
    """Returns of the policy, and of its revisions by the honest and by the moved label."""

    overall: Floats  # (3,)
    on_worst: Floats  # (3,)


def _pair(plan: SearchPlan, run: int, candidate: PolicyCandidate) -> LabelPair:
    seeds = rollout_seeds(candidate.tried.seed, len(candidate.tried.returns))
    trial = PolicyTrial(np.array([candidate.params]), seeds[None, :], is_recorded=True)
    (rollouts,) = plan.player().play([trial])
    returns = rollouts.returns[0]
    worst, best = int(returns.argmin()), int(returns.argmax())
    median = nearest(returns, float(np.median(returns)))
    shown = generator(candidate.tried.seed, "order").permutation([worst, median, best]).tolist()
    steps, thinning = plan.switches.trace_steps, plan.switches.thinning
    told = [
        describe_trace(plan.task, rollouts.trace(0, episode), steps, thinning) for episode in shown
    ]
    traces = "\n\n".join(
        f"### Episode {letter}\n\n{text}" for letter, text in zip(_LETTERS, told, strict=True)
    )
    switches = plan.switches.replace(allow_no_change=True)
    writer = Writer(plan._replace(switches=switches))
    nothing = History(confirm=0, keeps_losers=True)

    def prompt(labeled: int) -> Prompt:
        letter = _LETTERS[shown.index(labeled)]
        evidence = f"{traces}\n\nEpisode {letter} is the worst of the three."
        return writer.critic(nothing, WatchedCandidate(candidate, evidence, None, {}))

    return LabelPair(run, candidate, worst, prompt(worst), prompt(median))


def _ask(plan: SearchPlan, models: Models, pair: LabelPair) -> list[tuple[float, ...]] | None:
    """Return the revisions by the honest and by the moved label, or None if one is never valid."""
    asker = PolicyRequester(models, plan, pair.run)
    welcome = objection(History(confirm=0, keeps_losers=True), may_repeat=True)
    prompts = (pair.honest, pair.moved)
    try:
        return [asker.ask("critic", p, welcome, "critic").drafts[0].params for p in prompts]
    except ModelAnswerError:
        return None


def _play(plan: SearchPlan, pair: LabelPair, revisions: Sequence[tuple[float, ...]]) -> _Played:
    params = np.array([pair.candidate.params, *revisions])
    seed, count = pair.candidate.tried.seed, len(pair.candidate.tried.returns)
    worst = rollout_seeds(seed, count)[[pair.worst]]
    seeds = np.concatenate((worst, rollout_seeds(derive(seed, "label"), _NEW_STARTS)))
    (rollouts,) = plan.player().play([PolicyTrial(params, np.stack([seeds] * len(params)))])
    return _Played(rollouts.returns[:, 1:].mean(1), rollouts.returns[:, 0])


def _effect(differences: Floats) -> LabelEffect:
    mean, low, high = float(differences.mean()), None, None
    if len(differences) > 1:
        error = float(differences.std(ddof=1)) / len(differences) ** 0.5
        half = float(scipy.stats.t.ppf(0.975, len(differences) - 1)) * error
        low, high = mean - half, mean + half
    above, below = (_sign_flips(each) for each in (differences, -differences))
    return LabelEffect(mean=mean, low=low, high=high, above=above, below=below)


def _sign_flips(differences: Floats) -> float:
    """Return the one-sided p-value of a mean above 0, if every sign were random."""
    return float(
        scipy.stats.permutation_test(
            (differences,),
            np.sum,
            permutation_type="samples",
            alternative="greater",
            n_resamples=1 << 14,
            rng=0,
        ).pvalue
    )


def _interval(effect: LabelEffect) -> str:
    if effect.low is None or effect.high is None:
        return f"{effect.mean:+.3g}"
    return f"{effect.mean:+.3g}, 95 % interval [{effect.low:.3g}, {effect.high:.3g}]"


def main():
    """Query a model about the policies of one search."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("search")
    parser.add_argument("--model", required=True)
    parser.add_argument("--cases", type=int, default=20)
    parser.add_argument("--max-usd", type=float)
    parser.add_argument("--runs-dir", type=Path, default=Path("runs"))
    options = parser.parse_args()
    result = load_search(options.runs_dir, options.search)
    models = connect(options.model, result.folder.path, budget=Budget(usd=options.max_usd))
    report = label_report(result, models, options.cases)
    print(report.title, *report.rows(), report.conclusion, sep="\n")


if __name__ == "__main__":
    main()
