"""Combine the verdicts of two judges of the same episode.

The code judge is precise but measures only its criteria. The vision judge sees the whole
episode but is imprecise. Therefore code has the larger weight where both agree. Where they
disagree, the higher score counts only up to a margin above the lower one:

    code above vision     vision + 0.7 min(code - vision, margin)
    vision above code     code + 0.3 min(vision - code, margin)
    one of them unknown   the other score
    both unknown          unknown

Within the margin, both formulas are 0.7 code + 0.3 vision. The result is continuous: 0.1 more from
one judge raises the score by at most 0.1 and never lowers it. The margin is 0.25, or the range of
repeated vision scores if that is larger, because a difference within the noise of the vision judge
is not evidence against the code.

Criteria are combined first. A criterion that vision doubts counts at most vision's score plus the
margin, and the code score is recomputed from the criteria. Then the same rule is applied to the
overall score. If vision could see all criteria, its overall score is raised to at least the margin
below its lowest criterion, so that it cannot override criteria on which both agree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from statistics import fmean

import numpy as np

from telic.judges.criteria import CriterionScore, total_score
from telic.judges.measured import is_score_of
from telic.judges.verdict import WHOLE, Disagreement, Source, Verdict, unknown

CODE_WEIGHT = 0.7
MARGIN = 0.25
_ROUNDING = 1e-9
_MAX_LENGTH = 300
_PERSISTENT = 0.5
"""fraction of watched episodes that must contradict the code judge before it is doubted"""


def _fused_score(code: float, vision: float, margin: float) -> float:
    """Return the combined score, which lies between both scores and increases with each."""
    if code >= vision:
        return vision + CODE_WEIGHT * min(code - vision, margin)
    return code + (1 - CODE_WEIGHT) * min(vision - code, margin)


def fuse(code: Verdict, vision: Verdict) -> Verdict:
    """Combine the verdicts of two judges on an episode and keep the code judge's recording hash.

    If one verdict is unknown, the other counts.
    """
    by_judge: dict[Source, float | None] = {"code": code.score, "vision": vision.score}
    if code.score is None and vision.score is None:
        both = unknown("fused", f"code: {code.reason}; vision: {vision.reason}")
        return both.model_copy(update={"by_judge": by_judge, "recording": code.recording})
    if code.score is None or vision.score is None:
        judge, other = (code, vision) if vision.score is None else (vision, code)
        return judge.model_copy(
            update={
                "source": "fused",
                "seen": vision.seen,
                "by_judge": by_judge,
                "reason": f"{judge.source} only; {other.source} is unknown: {other.reason}",
                "recording": code.recording,
            }
        )
    margin = max(MARGIN, vision.spread or 0.0)
    doubted = {
        made.title: seen.score
        for seen in vision.seen
        for made in code.criteria
        if seen.score is not None and made.value is not None and is_score_of(made, seen.criterion)
    }
    scores = [_capped(made, doubted.get(made.title, 1.0) + margin) for made in code.criteria]
    change = total_score(scores) - total_score(code.criteria) if scores else 0.0
    measured = code.score + change
    parts = [seen for seen in vision.seen if seen.criterion != WHOLE]
    worst = min(doubted.values()) if parts and len(doubted) >= len(parts) else 0.0
    whole = max(vision.score, min(worst - margin, measured))
    # Lowering several constraints together must not go below every single score.
    lowest = min((code.score, vision.score, *doubted.values()))
    lowered = [new.tag for new, old in zip(scores, code.criteria, strict=True) if new != old]
    return Verdict(
        source="fused",
        score=max(_fused_score(measured, whole, margin), lowest),
        criteria=tuple(scores),
        tags=tuple(dict.fromkeys(tag for tag in (*lowered, *code.tags, *vision.tags) if tag)),
        recording=code.recording,
        seen=vision.seen,
        spread=vision.spread,
        by_judge=by_judge,
        disagreements=_disagreements(code, vision, margin),
    )


def _capped(made: CriterionScore, most: float) -> CriterionScore:
    update = {"counted": most, "credit": most, "passed": made.passed and most >= 1.0}
    return made if made.counted <= most else made.model_copy(update=update)


def _disagreements(code: Verdict, vision: Verdict, margin: float) -> tuple[Disagreement, ...]:
    disputes: list[Disagreement] = []
    for seen in vision.seen:
        made = next((each for each in code.criteria if is_score_of(each, seen.criterion)), None)
        own = None if made is None or made.value is None else made.counted
        own = code.score if seen.criterion == WHOLE else own
        if own is None or seen.score is None or abs(own - seen.score) <= margin + _ROUNDING:
            continue
        measured = [
            f"{each.title}: "
            f"{'not measured' if each.value is None else f'{each.value:g} {each.unit}'} (no "
            f"credit at {each.zero:g}, full at {each.goal:g})"
            for each in (code.criteria if made is None else (made,))
        ]
        disputes.append(
            Disagreement(
                criterion=seen.criterion,
                code=own,
                vision=seen.score,
                margin=margin,
                start_s=seen.start_s,
                end_s=seen.end_s,
                measured="; ".join(measured),
                seen=seen.evidence,
            )
        )
    return tuple(disputes)


def resolve(
    code: Verdict, vision: Verdict, again: Verdict, disputes: Sequence[Disagreement]
) -> Verdict:
    """Return the verdict after the vision model has reviewed the disputed criteria (`again`).

    The new answers replace the first ones where the criterion was visible. Disputes stay on
    record, whether resolved or not.
    """
    newer = {sight.criterion: sight for sight in again.seen if sight.score is not None}
    update: dict[str, object] = {
        "seen": tuple(newer.get(sight.criterion, sight) for sight in vision.seen)
    }
    if again.score is not None:
        update |= {"score": again.score, "tags": again.tags}
    fused = fuse(code, vision.model_copy(update=update))
    still = {dispute.criterion: dispute for dispute in fused.disagreements}
    kept = [
        dispute.model_copy(
            update={
                "asked_again": newer[name].score if name in newer else None,
                "resolved": name not in still,
            }
        )
        for dispute in disputes
        for name in (dispute.criterion,)
    ]
    before = {dispute.criterion for dispute in disputes}
    kept += [dispute for name, dispute in still.items() if name not in before]
    return fused.model_copy(update={"disagreements": tuple(kept)})


def extend(code: Sequence[Verdict], fused: Mapping[int, Verdict]) -> list[Verdict]:
    """Return a verdict for every episode of a policy, although only some were watched.

    The score of an unwatched episode is reduced by the loss that fusion caused in the watched
    episodes nearest in code score, and is never increased. A policy that only satisfies the code
    therefore cannot pass through its unwatched episodes.
    """
    lost = sorted(
        (score, score - verdict.score)
        for index, verdict in fused.items()
        if (score := code[index].score) is not None and verdict.score is not None
    )
    # Average over episodes with the same code score.
    losses = {
        score: fmean(loss for _, loss in group)
        for score, group in groupby(lost, key=lambda pair: pair[0])
    }
    out: list[Verdict] = []
    for index, own in enumerate(code):
        loss = 0.0
        if index not in fused and own.score is not None and losses:
            loss = float(np.interp(own.score, list(losses), list(losses.values())))
        if loss <= _ROUNDING or own.score is None:
            out.append(fused.get(index, own))
            continue
        update = {
            "source": "fused",
            "score": max(0.0, own.score - loss),
            "by_judge": {"code": own.score, "vision": None},
            "reason": f"not watched; lowered by {loss:.2f}, like the nearest watched episodes",
        }
        out.append(own.model_copy(update=update))
    return out


# ---- unresolved results: unknown scores, and a code judge that vision contradicts


def unjudged(verdicts: Sequence[Verdict]) -> tuple[str, ...]:
    """Return the distinct reasons for missing scores, most frequent first."""
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
    """Return the criterion on which vision and code judge disagree in most watched episodes.

    Only disagreements that remain after a second look count. With `only_less`, only those in which
    vision scored lower count, and a lower overall score does not count on its own if vision saw
    every criterion and agreed. Return None if nothing was watched or the judges agree.
    """
    watched = [
        verdict for verdict in verdicts if verdict.seen and verdict.by_judge.get("code") is not None
    ]
    disputes: dict[str, list[Disagreement]] = {}
    for verdict in watched:
        open_ones = [dispute for dispute in verdict.disagreements if not dispute.resolved]
        parts = [seen.score for seen in verdict.seen if seen.criterion != WHOLE]
        sees_all = bool(parts) and None not in parts
        is_only_whole = sees_all and {dispute.criterion for dispute in open_ones} == {WHOLE}
        for dispute in open_ones:
            is_harmless = dispute.last_seen > dispute.code or is_only_whole
            if not (only_less and is_harmless):
                disputes.setdefault(dispute.criterion, []).append(dispute)
    lasting = {name: own for name, own in disputes.items() if len(own) > _PERSISTENT * len(watched)}
    if not lasting:
        return None
    # A criterion is more specific than the whole; among criteria, choose the largest difference.
    criterion, own = max(
        lasting.items(),
        key=lambda item: (item[0] != WHOLE, fmean(abs(d.code - d.last_seen) for d in item[1])),
    )
    what = "the whole" if criterion == WHOLE else f'"{criterion}"'
    code, vision = fmean(each.code for each in own), fmean(each.last_seen for each in own)
    return (
        f"code and vision judge disagree on {what} in {len(own)} of {len(watched)} watched "
        f"episodes, even after a closer look: code {code:.2f} ({_short(own[0].measured)}), "
        f"vision {vision:.2f} ({_short(own[0].seen)})"
    )


def _short(text: str) -> str:
    return text if len(text) <= _MAX_LENGTH else text[: _MAX_LENGTH - 1] + "…"
