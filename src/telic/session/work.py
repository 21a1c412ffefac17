"""What every step of a session works with, and how a step is taken only once."""

from __future__ import annotations

from dataclasses import dataclass

from telic.authors.author import Author
from telic.core.events import Listener
from telic.envs.spec import EnvSpec
from telic.session.control import Steering
from telic.session.records import SessionConfig
from telic.storage.layout import SessionFolder


@dataclass(frozen=True, slots=True)
class Work:
    """One session under way."""

    config: SessionConfig
    folder: SessionFolder
    spec: EnvSpec
    author: Author
    steering: Steering
    tell: Listener
