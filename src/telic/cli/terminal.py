"""What people write on a terminal and programs do not: words in any order, plans, questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from telic.core.verb import Verb, argument, option, verb
from telic.errors import UsageError
from telic.training.request import TrainRequest
from telic.verbs.train import train

if TYPE_CHECKING:
    from telic.training.job import TrainJob
    from telic.training.run import Run


class TerminalTrain(TrainRequest):
    """Words that name the environment and change settings, and a plan without a run."""

    words: Sequence[str] = argument(
        "Environment, then changes of settings.",
        default=(),
        many=True,
        metavar="ENV [key=value ...]",
    )
    env: str = option("Environment id, module:Class, or path of an MJCF file.", default="")
    dry_run: bool = option("Print the plan and stop.", default=False)


def _plain(request: TerminalTrain) -> TrainRequest:
    """Tell the environment from `key=value` words."""
    settings = [word for word in request.words if "=" in word]
    envs = [word for word in request.words if "=" not in word]
    if request.env:
        envs.append(request.env)
    if len(envs) != 1:
        raise UsageError(
            f"Expected one environment, not {' and '.join(envs)}."
            if envs
            else "Which environment?",
            hint="For example: telic train HalfCheetah-v5. See all with: telic envs",
        )
    assert not isinstance(request.settings, Mapping)
    known = {name: value for name, value in request.values().items() if name not in _OWN}
    return TrainRequest(**{**known, "env": envs[0], "settings": [*request.settings, *settings]})


_OWN = ("words", "dry_run")


def _train(request: TerminalTrain) -> Run | TrainJob:
    asked = _plain(request)
    if request.dry_run:
        from telic.training.plan import plan

        return plan.do(asked)
    return train.do(asked)


_train.__doc__ = train.help

ON_TERMINAL: dict[str, Verb[..., Any, Any]] = {
    "train:train": verb(
        TerminalTrain,
        examples=train.examples,
        exit_code=lambda result: train.exit_code(result) if hasattr(result, "status") else 0,
    )(_train),
}
"""verbs that the command line has in a form of its own"""
