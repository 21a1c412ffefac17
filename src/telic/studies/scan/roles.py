"""What a command does when it runs: plays a policy, loads one, asks a model, draws."""

from __future__ import annotations

import re
from collections.abc import Iterator

from telic.studies.scan.facts import CallSite
from telic.studies.scan.situation import Situation
from telic.studies.scan.source import VOCABULARY

_LOADS = VOCABULARY.pattern("policy_loads")
_NOT_POLICIES = re.compile(
    r"(yaml|json|toml|pandas|csv|gin|dotenv|omegaconf|hydra|suite|datasets)", re.I
)
_ROLLOUTS = VOCABULARY.pattern("rollout_calls")
_OPTIMISERS = tuple(VOCABULARY.words("optimiser_packages"))
_MAKES = re.compile(r"(^|\.)(make|make_vec|make_env|make_vec_env|load_environment|create_env)$")


def loads_policy(situation: Situation) -> CallSite | None:
    """Return a call that loads what was trained, if one is made by default."""
    for call in _possible(situation):
        if _LOADS.match(call.last) and "." in call.name and not _NOT_POLICIES.search(call.name):
            outside = situation.flow.outside(call)
            if not any(_NOT_POLICIES.search(name) for name in outside):
                return call
    return None


def plays(situation: Situation) -> CallSite | None:
    """Return a call that steps an environment or rolls a policy out, if one is made."""
    made: CallSite | None = None
    for call in _possible(situation):
        if call.last == "step" and (call.args or call.keywords) and "." in call.name:
            outside = situation.flow.outside(call)
            if not any(name.startswith(_OPTIMISERS) for name in outside):
                return call
        if _ROLLOUTS.match(call.last):
            return call
        if _MAKES.search(call.name) and made is None:
            made = call
    return made or _shared_with_training(situation)


def _shared_with_training(situation: Situation) -> CallSite | None:
    """A call of something that training also runs: the same world, tried in the same way."""
    trained = {spot.path for spot in situation.flow.training}
    for call in _possible(situation):
        for target in situation.flow.resolver.targets(call):
            if not isinstance(target, str) and target.path in trained and target.path != call.path:
                return call
    return None


def _possible(situation: Situation) -> Iterator[CallSite]:
    """Calls that a command makes, also where a condition could not be answered."""
    yield from situation.happening


def consults(situation: Situation) -> Iterator[CallSite]:
    """Return the calls that ask a hosted language model, as they are made by default."""
    for call in situation.happening:
        for name in situation.flow.outside(call):
            if VOCABULARY.package(name, "language_models") and name.count(".") > 0:
                yield call
                break


def is_search(situation: Situation) -> bool:
    """Whether a command asks a language model again and again and tries what it says."""
    if next(consults(situation), None) is None:
        return False
    starts = (call for call in situation.happening if next(situation.flow.started(call), None))
    return plays(situation) is not None or next(starts, None) is not None


def is_plot(situation: Situation) -> bool:
    """Whether a command's own file draws."""
    own = {spot.path for spot in situation.starts}
    return any(
        VOCABULARY.package(origin, "drawing")
        for path in own
        for origin in situation.flow.repository.modules[path].import_lines
    )
