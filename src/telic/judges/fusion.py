"""One verdict from two judges of the same episode.

Code is exact about what it measures and blind to the rest; vision sees the whole and is imprecise.
So code weighs more where they agree, and where they do not, the higher score counts only as far as
the margin goes beyond the lower one:

    code above vision     vision + 0.7 min(code - vision, margin)
    vision above code     code + 0.3 min(vision - code, margin)
    one of them unknown   the other one's
    both unknown          unknown

Within the margin both lines are 0.7 code + 0.3 vision. The rule has no jump: a tenth more on one
look changes the score by a tenth at most, and never downwards. The margin is 0.25, or the spread
of vision's own repeated answers where that is larger: a difference that vision has with itself is
no evidence against the code.

Criteria come first: one that vision doubts counts at most what vision gave it plus the margin, and
the code's score is what the criteria then add up to. The rule is applied to the whole after that.
The whole does not override criteria that agree: where vision could see them all, its word on the
whole is taken as no more than the margin below the lowest of its own criteria. Who finds fault with
nothing in particular has found no fault.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from statistics import fmean

import numpy as np

from telic.judges.criteria import Leaf, total
from telic.judges.verdict import WHOLE, Disagreement, Source, Verdict, unknown

CODE_WEIGHT = 0.7
MARGIN = 0.25
_ROUNDING = 1e-9
_LONGEST = 300
_PERSISTENT = 0.5
"""share of the watched episodes that must contradict the code for its judge to be doubted"""


def fused_score(code: float, vision: float, margin: float) -> float:
    """Return what two scores amount to: between them, continuous, and rising with each."""
    if code >= vision:
        return vision + CODE_WEIGHT * min(code - vision, margin)
    return code + (1 - CODE_WEIGHT) * min(vision - code, margin)


def fuse(code: Verdict, vision: Verdict) -> Verdict:
    """Return the verdict that two judges of the same episode amount to.

    It is about the very recording that the code judge read; without that it would prove nothing.
    """
    return _fused(code, vision).model_copy(update={"recording": code.recording})


def _fused(code: Verdict, vision: Verdict) -> Verdict:
    if code.score is None or vision.score is None:
        return _one_alone(code, vision)
    margin = max(MARGIN, vision.spread or 0.0)
    pairs = _compared(code, vision)
    leaves = _with_credit(
        code.leaves, {title: min(own, seen + margin) for title, (own, seen) in pairs.items()}
    )
    measured = code.score - _sum(code.leaves) + _sum(leaves)
    whole = max(vision.score, min(_worst_part(vision, pairs) - margin, measured))
    # What lowers several guards at once must not lower the score below all that anybody said.
    lowest = min((code.score, vision.score, *(seen for _, seen in pairs.values())))
    lowered = [new.tag for new, old in zip(leaves, code.leaves, strict=True) if new != old]
    return Verdict(
        source="fused",
        score=max(fused_score(measured, whole, margin), lowest),
        leaves=leaves,
        tags=tuple(dict.fromkeys(tag for tag in (*lowered, *code.tags, *vision.tags) if tag)),
        seen=vision.seen,
        spread=vision.spread,
        by_judge=_by_judge(code, vision),
        disagreements=_disagreements(code, vision, margin),
    )


def _compared(code: Verdict, vision: Verdict) -> dict[str, tuple[float, float]]:
    """Return what code and vision gave each leaf that both judged, by the leaf's title."""
    return {
        leaf.title: (leaf.counted, seen.score)
        for seen in vision.seen
        for leaf in code.leaves
        if seen.score is not None and leaf.value is not None and _is_about(leaf, seen.criterion)
    }


def _worst_part(vision: Verdict, pairs: Mapping[str, tuple[float, float]]) -> float:
    """Return the lowest score of vision's criteria; 0 where it did not see one of them."""
    criteria = [seen for seen in vision.seen if seen.criterion != WHOLE]
    if not criteria or len(pairs) < len(criteria):
        return 0.0
    return min(seen for _, seen in pairs.values())


def _with_credit(leaves: Sequence[Leaf], credit: Mapping[str, float]) -> tuple[Leaf, ...]:
    """Return the leaves with other shares earned, by title."""
    return tuple(
        leaf
        if credit.get(leaf.title, leaf.counted) == leaf.counted
        else leaf.model_copy(
            update={
                "counted": credit[leaf.title],
                "credit": credit[leaf.title],
                "passed": leaf.passed and credit[leaf.title] >= 1.0,
            }
        )
        for leaf in leaves
    )


def _sum(leaves: Sequence[Leaf]) -> float:
    return total(leaves) if leaves else 0.0


def resolve(
    code: Verdict, vision: Verdict, again: Verdict, disputes: Sequence[Disagreement]
) -> Verdict:
    """Return the verdict after vision has looked `again` at what was in dispute.

    What it saw the second time replaces what it saw first; what it could not see does not. The
    disputes stay on record, resolved or not.
    """
    newer = {sight.criterion: sight for sight in again.seen if sight.score is not None}
    seen = tuple(newer.get(sight.criterion, sight) for sight in vision.seen)
    score = vision.score if again.score is None else again.score
    tags = vision.tags if again.score is None else again.tags
    amended = vision.model_copy(update={"seen": seen, "score": score, "tags": tags})
    fused = fuse(code, amended)
    still = {dispute.criterion: dispute for dispute in fused.disagreements}
    kept = [
        dispute.model_copy(
            update={
                "asked_again": newer[dispute.criterion].score
                if dispute.criterion in newer
                else None,
                "resolved": dispute.criterion not in still,
            }
        )
        for dispute in disputes
    ]
    before = {dispute.criterion for dispute in disputes}
    kept += [dispute for dispute in still.values() if dispute.criterion not in before]
    return fused.model_copy(update={"disagreements": tuple(kept)})


def extend(code: Sequence[Verdict], fused: Mapping[int, Verdict]) -> list[Verdict]:
    """Return a verdict for every episode of a policy of which only some were watched.

    An episode that was not watched loses what the watched ones beside it in code score have lost by
    fusing, in proportion to how near they are; nothing is gained that way. So a policy that only
    looks right to the code cannot pass on the episodes nobody watched.
    """
    lost = sorted(
        (score, score - verdict.score)
        for index, verdict in fused.items()
        if (score := code[index].score) is not None and verdict.score is not None
    )
    # Of episodes with one and the same code score, the mean.
    losses = [
        (score, fmean(loss for _, loss in group))
        for score, group in groupby(lost, key=lambda pair: pair[0])
    ]
    return [fused[i] if i in fused else _less(own, losses) for i, own in enumerate(code)]


def _less(own: Verdict, losses: Sequence[tuple[float, float]]) -> Verdict:
    """Lower an episode that was not watched; `losses` holds code score and loss, ascending."""
    score = own.score
    if score is None or not losses:
        return own
    loss = float(np.interp(score, [at for at, _ in losses], [lost for _, lost in losses]))
    if loss <= _ROUNDING:
        return own
    return own.model_copy(
        update={
            "source": "fused",
            "score": max(0.0, score - loss),
            "by_judge": _by_judge(own, None),
            "reason": f"not watched; lowered by {loss:.2f} as the nearest episodes that were",
        }
    )


def _one_alone(code: Verdict, vision: Verdict) -> Verdict:
    if code.score is None and vision.score is None:
        why = f"code: {code.reason}; vision: {vision.reason}"
        return unknown("fused", why).model_copy(update={"by_judge": _by_judge(code, vision)})
    judge, other = (code, vision) if vision.score is None else (vision, code)
    return judge.model_copy(
        update={
            "source": "fused",
            "seen": vision.seen,
            "by_judge": _by_judge(code, vision),
            "reason": f"{judge.source} alone; {other.source} is unknown: {other.reason}",
        }
    )


def _by_judge(code: Verdict, vision: Verdict | None) -> dict[Source, float | None]:
    return {"code": code.score, "vision": None if vision is None else vision.score}


def _disagreements(code: Verdict, vision: Verdict, margin: float) -> tuple[Disagreement, ...]:
    disputes: list[Disagreement] = []
    for seen in vision.seen:
        leaf = next((part for part in code.leaves if _is_about(part, seen.criterion)), None)
        own = code.score if seen.criterion == WHOLE else _measured_score(leaf)
        if own is None or seen.score is None or abs(own - seen.score) <= margin + _ROUNDING:
            continue
        disputes.append(
            Disagreement(
                criterion=seen.criterion,
                code=own,
                vision=seen.score,
                margin=margin,
                start_s=seen.start_s,
                end_s=seen.end_s,
                measured=_words(leaf, code),
                seen=seen.evidence,
            )
        )
    return tuple(disputes)


def _measured_score(leaf: Leaf | None) -> float | None:
    return None if leaf is None or leaf.value is None else leaf.counted


def _is_about(leaf: Leaf, criterion: str) -> bool:
    """Return whether a leaf measures a criterion; `score_near` adds its tolerance to the title."""
    own, title = leaf.title.casefold(), criterion.casefold()
    return own == title or own.startswith(f"{title} (within ")


def _words(leaf: Leaf | None, code: Verdict) -> str:
    leaves = code.leaves if leaf is None else (leaf,)
    return "; ".join(
        f"{part.title}: {'not measured' if part.value is None else f'{part.value:g} {part.unit}'}"
        f" (nothing at {part.zero:g}, all at {part.goal:g})"
        for part in leaves
    )


# ---- what verdicts leave open: unknown scores, and a code judge that vision contradicts


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
    return _dispute_words(criterion, lasting[criterion], len(watched))


def _is_harmless(dispute: Disagreement, verdict: Verdict) -> bool:
    """Return whether a dispute leaves a pass as it is."""
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


def _dispute_words(criterion: str, disputes: Sequence[Disagreement], watched: int) -> str:
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
