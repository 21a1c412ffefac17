"""The learners by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from telic.errors import ConfigError
from telic.training.flashsac import FlashSac, FlashSacActor
from telic.training.networks import Networks, Shape
from telic.training.pathwise import SquashedActor
from telic.training.population import Learner
from telic.training.ppo import PpoLearner
from telic.training.reppo import Reppo, ReppoActor


class LearnerKind(NamedTuple):
    """A learner, and the networks that it trains to act."""

    learner: type[Learner]
    actor: Callable[[Shape], Networks | SquashedActor]


LEARNERS = {
    "ppo": LearnerKind(PpoLearner, Networks),
    "reppo": LearnerKind(Reppo, ReppoActor),
    "flashsac": LearnerKind(FlashSac, FlashSacActor),
}


def require_fit(name: str, discrete: bool) -> None:
    """Raise ConfigError where a learner cannot train what is asked for."""
    if name != "ppo" and discrete:
        raise ConfigError(
            f"{name} needs continuous actions; this environment has discrete ones.",
            hint="Use --learner ppo.",
        )
