"""From a model name to somebody who answers."""

from __future__ import annotations

from pathlib import Path

from telic.core.events import Listener, ignore
from telic.errors import UsageError
from telic.llm.budget import Budget
from telic.llm.models import Models
from telic.llm.names import HOST, REPLAY, parse_name
from telic.llm.orders import ORDERS
from telic.llm.provider import Provider
from telic.llm.providers.host import HOST_DEADLINE_S, Host
from telic.llm.providers.hosted import Hosted
from telic.llm.providers.replay import Replay
from telic.llm.waiting import Limits, StopCheck, never


def choose(name: str | None, folder: Path | None = None) -> Provider:
    """Return the provider that a name means; `folder` is the session's, needed for "host".

    Without a name nothing is chosen: a key that happens to be set is no wish to spend money. Raises
    UsageError, UnknownName with the closest names, or MissingExtra.
    """
    if not name:
        raise UsageError(
            "No model was named.",
            hint="Name one, e.g. --model anthropic:claude-sonnet-5-5, or --model host.",
        )
    if name == HOST:
        if folder is None:
            raise UsageError("The host agent needs a session folder for its work orders.")
        return Host(folder / ORDERS)
    if name.startswith(f"{REPLAY}:"):
        return Replay(Path(name.partition(":")[2]).expanduser())
    return Hosted(parse_name(name))


def connect(
    name: str | None,
    folder: Path,
    *,
    budget: Budget | None = None,
    limits: Limits | None = None,
    on_event: Listener = ignore,
    should_stop: StopCheck = never,
) -> Models:
    """Return the call path to the model that a name means, for the session in `folder`.

    Without `limits` a person or agent who answers work orders gets days, a model minutes.
    """
    if limits is None and name == HOST:
        limits = Limits(deadline_s=HOST_DEADLINE_S, attempt_s=HOST_DEADLINE_S)
    provider = choose(name, folder)
    return Models(
        provider, folder, budget=budget, limits=limits, on_event=on_event, should_stop=should_stop
    )
