"""The reward of the best policy: its formula, its code, and what each term contributed."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from telic.rewards.contract import RewardSpec
from telic.storage.files import read_json, read_record
from telic.storage.layout import MemberFolder
from telic.storage.scalars import read_rows


class TermShare(NamedTuple):
    """What a term of the reward gave over an episode."""

    name: str
    words: str
    weight: float | None
    total: float | None
    """mean sum over an evaluation episode"""
    share: float | None
    """of all terms, by size without sign"""


class RewardFacts(NamedTuple):
    """A reward as it was trained."""

    latex: str
    code: str
    terms: tuple[TermShare, ...]
    findings: tuple[str, ...]
    """what the trainer noticed"""


def read_reward(member: Path, step: int) -> RewardFacts:
    """Read the reward of a trained policy, and its terms in the evaluation at `step`."""
    files = MemberFolder(member)
    spec = read_record(files.reward_spec, RewardSpec) if files.reward_spec.exists() else None
    summary = read_json(files.summary) if files.summary.exists() else {}
    return RewardFacts(
        latex=spec.latex if spec else "",
        code=files.reward_code.read_text(),
        terms=_shares(spec or RewardSpec(), _totals(files, step)),
        findings=tuple(each["message"] for each in summary.get("findings", ())),
    )


def _totals(files: MemberFolder, step: int) -> dict[str, float]:
    """Return the sums of the terms at the evaluation of this step, or at the last before it."""
    rows = [row for row in read_rows(files.scalars, "eval") if row["global_step"] <= step]
    return rows[-1].get("reward_terms", {}) if rows else {}


def _shares(spec: RewardSpec, totals: dict[str, float]) -> tuple[TermShare, ...]:
    described = {each.name: each for each in spec.terms}
    size = sum(abs(each) for each in totals.values())
    found: list[TermShare] = []
    for name in dict.fromkeys([*totals, *described]):
        term, total = described.get(name), totals.get(name)
        share = abs(total) / size if total is not None and size > 0.0 else None
        words = term.description if term else ""
        found.append(TermShare(name, words, term.weight if term else None, total, share))
    return tuple(sorted(found, key=lambda each: -(each.share or 0.0)))
