"""What verdicts leave open: why a score is unknown, and a code judge that vision contradicts.

Both are said once with a count, on the screen, in the report and to whoever revises: a score that
nobody could give says nothing about the reward, and neither does one that a wrong judge gave.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import fmean

from telic.judges.verdict import WHOLE, Disagreement, Verdict

_LONGEST = 300
_PERSISTENT = 0.5
"""share of the watched episodes that must contradict the code for its judge to be doubted"""


def unjudged(verdicts: Sequence[Verdict]) -> tuple[str, ...]:
    """Return why episodes have no score, each reason once, the most frequent first."""
    reasons = Counter(
        (verdict.reason or "the judge gave no reason").strip()
        for verdict in verdicts
        if verdict.score is None
    )
    return tuple(
        f"{count} of {len(verdicts)} episodes could not be judged: {_short(reason)}"
        for reason, count in reasons.most_common()
    )


def judge_doubted(verdicts: Sequence[Verdict], *, only_less: bool = False) -> str | None:
    """Say on what vision contradicts the code judge in most of the episodes that were watched.

    Only what a second, closer look has not resolved counts; with `only_less`, only what was seen to
    be worse than it was measured, which is a doubt about a pass, and not the whole alone where
    every criterion was seen and agrees. None: nothing was watched, or they agree.
    """
    watched = [
        verdict for verdict in verdicts if verdict.seen and verdict.by_judge.get("code") is not None
    ]
    disputes: dict[str, list[Disagreement]] = {}
    for verdict in watched:
        for dispute in verdict.disagreements:
            if not dispute.resolved and not (only_less and _is_harmless(dispute, verdict)):
                disputes.setdefault(dispute.criterion, []).append(dispute)
    lasting = {
        criterion: own
        for criterion, own in disputes.items()
        if len(own) > _PERSISTENT * len(watched)
    }
    if not lasting:
        return None
    # A criterion says more than the whole; among criteria, what is furthest apart.
    criterion = max(lasting, key=lambda name: (name != WHOLE, _apart(lasting[name])))
    return _words(criterion, lasting[criterion], len(watched))


def _is_harmless(dispute: Disagreement, verdict: Verdict) -> bool:
    """Say whether a dispute leaves a pass as it is."""
    if _seen(dispute) > dispute.code:
        return True
    parts = [seen for seen in verdict.seen if seen.criterion != WHOLE]
    disputed = {other.criterion for other in verdict.disagreements if not other.resolved}
    sees_all = bool(parts) and all(part.score is not None for part in parts)
    return dispute.criterion == WHOLE and sees_all and disputed == {WHOLE}


def _apart(disputes: Sequence[Disagreement]) -> float:
    return fmean(abs(dispute.code - _seen(dispute)) for dispute in disputes)


def _seen(dispute: Disagreement) -> float:
    return dispute.vision if dispute.asked_again is None else dispute.asked_again


def _words(criterion: str, disputes: Sequence[Disagreement], watched: int) -> str:
    what = "the whole" if criterion == WHOLE else f'"{criterion}"'
    code = fmean(dispute.code for dispute in disputes)
    vision = fmean(_seen(dispute) for dispute in disputes)
    measured, seen = _short(disputes[0].measured), _short(disputes[0].seen)
    return (
        f"the judge's code and the pictures disagree on {what} in {len(disputes)} of {watched} "
        f"watched episodes, also after a closer look: code {code:.2f} ({measured}), seen "
        f"{vision:.2f} ({seen})"
    )


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
