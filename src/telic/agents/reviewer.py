"""Ask a model to look for bugs and exploits before anything is trained."""

from __future__ import annotations

from collections.abc import Sequence

from telic.agents.asking import ask
from telic.agents.author import listed
from telic.agents.records import Review
from telic.judges.criteria import Criterion
from telic.judges.trial import Trial
from telic.llm import Models


def review(
    models: Models,
    shown: dict[str, str],
    criteria: Sequence[Criterion],
    reward: str,
    judge: str,
    trial: Trial,
) -> Review:
    """Return what is wrong with a reward and a judge; what the examples showed counts as found.

    Only the reviewer sees both files; each author is told what concerns its own.
    """
    values = {
        **shown,
        "criteria": listed(criteria),
        "reward": reward,
        "judge": judge,
        "examples": table(trial),
    }
    found = ask(models, "reviewer", Review, values)
    return found.model_copy(
        update={
            "reward_problems": (*trial.reward_problems, *found.reward_problems),
            "judge_problems": (*trial.judge_problems, *found.judge_problems),
        }
    )


def table(trial: Trial) -> str:
    """Return how the examples did as a table for a prompt."""
    if not trial.examples:
        return "They could not be run: " + "; ".join(
            (*trial.reward_problems, *trial.judge_problems)
        )
    rows = [
        f"| {each.name}{' (good)' if each.is_good else ''} | {_number(each.score)} | "
        f"{_number(each.pay)} | "
        + ", ".join(f"{name} {value:.3g}" for name, value in each.terms.items())
        + f" | {each.reason or ''} |"
        for each in trial.examples
    ]
    head = (
        "| episode | judge | reward in sum | by term | what earned little |\n|---|---|---|---|---|"
    )
    return "\n".join([head, *rows])


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.3g}"
