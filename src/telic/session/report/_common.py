"""What the parts of a session's report share: the ended session, and short texts about it."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from telic.authors.answers import Analysis
from telic.authors.candidate import MemberScore, RewardCandidate, SessionIteration
from telic.authors.request import SessionConfig
from telic.core.confidence import proven_mean
from telic.core.stats import Interval, bootstrap
from telic.core.text import MISSING, is_dict
from telic.judges.criteria import Composition
from telic.judges.verdict import Judgement
from telic.report import document as doc
from telic.report.charts import Gauge
from telic.session.records import SessionSummary
from telic.storage.files import read_record
from telic.storage.layout import SessionFolder

Blocks = Sequence[doc.Block]
FULL_CREDIT = 0.995
_NO_OPTIONS = frozenset({"schema_version", "intent", "env", "criteria"})


@dataclass(frozen=True, slots=True)
class EndedSession:
    """The records of a session that has ended or was stopped."""

    folder: SessionFolder
    config: SessionConfig
    author: Composition | None
    """what was written first; None if the session ended before that"""
    history: list[SessionIteration]
    summary: SessionSummary
    redraws: bool = True
    """draw pictures again that exist"""
    note: Callable[[str], None] = print
    """called with what is missing from the report"""

    @property
    def best(self) -> SessionIteration | None:
        """Return the iteration whose best policy is handed out."""
        number = self.summary.best_iteration
        return next((each for each in self.history if each.number == number), None)

    @property
    def member(self) -> MemberScore | None:
        """Return the best policy."""
        return self.best.best_member if self.best else None

    def candidate(self, number: int) -> RewardCandidate:
        """Return what an iteration tried."""
        return read_record(self.folder.iteration(number).candidate, RewardCandidate)


def analysis_of(folder: SessionFolder) -> Analysis | None:
    """Return what a model says of the whole session, if one was asked."""
    return read_record(folder.analysis, Analysis) if folder.analysis.exists() else None


def listed(lines: Sequence[str]) -> list[doc.Block]:
    """Return a list, or nothing when there is nothing in it."""
    return [doc.Items(tuple(lines))] if lines else []


def score_text(value: float | None) -> str:
    """Return a score; "unknown" when it is None."""
    return "unknown" if value is None else f"{value:.2f}"


def step_count(value: int | None) -> str:
    """Return a number of environment steps."""
    return f"{value:,}" if value else MISSING


def text_digest(source: str) -> str:
    """Return the SHA-256 of a text."""
    return hashlib.sha256(source.encode()).hexdigest()


def author_name(config: SessionConfig) -> str:
    """Return who wrote criteria, reward and judge."""
    if config.model is None:
        return "the composer, without a model"
    others = ", ".join(f"{role}: {model}" for role, model in config.model_for.items())
    return f"{config.model} ({others})" if others else config.model


def command(config: SessionConfig, request: Path) -> str:
    """Return the command that repeats a request; `request` is the file that holds it."""
    words = ["telic", "run", config.intent, "--env", config.env]
    if config.criteria is not None:
        words += ["--criteria", str(request)]
    for name, field in SessionConfig.model_fields.items():
        value: object = getattr(config, name)
        if name in _NO_OPTIONS or value == field.default:
            continue
        option = "--" + name.replace("_", "-")
        if isinstance(value, bool):
            words.append(option if value else option.replace("--", "--no-", 1))
        elif is_dict(value):
            for role, word in value.items():
                words += [option, f"{role}={word}"]
        else:
            many = cast("tuple[object, ...]", value) if isinstance(value, tuple) else (value,)
            words += [option, ",".join(map(str, many))]
    return shlex.join(words)


def gauge(config: SessionConfig, member: MemberScore) -> doc.Inline:
    """Return a policy's score as a picture and in numbers."""
    value, interval = member.judgement.score, interval_of(member.judgement)
    if value is None:
        return "unknown"
    if interval is None:
        return Gauge(value, value, value, config.threshold, f"{value:.2f}")
    text = f"{value:.2f} ({interval.low:.2f} to {interval.high:.2f})"
    return Gauge(interval.low, value, interval.high, config.threshold, text)


def interval_of(judgement: Judgement) -> Interval | None:
    """Return the interval of a policy's score, at the confidence of its proof; None: unknown."""
    scores = [verdict.score for verdict in judgement.verdicts]
    known = [score for score in scores if score is not None]
    if judgement.alpha is None or judgement.low is None:  # of an earlier version
        return bootstrap(known)
    # Unknown episodes may be worth anything: nothing below, everything above.
    missing = [*(1.0 - score for score in known), *[0.0] * judgement.unknown]
    return Interval(judgement.low, 1.0 - proven_mean(missing, judgement.alpha))
