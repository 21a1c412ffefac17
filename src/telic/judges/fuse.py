"""One verdict from two judges, by a fixed rule.

Code is exact about what it measures and blind to the rest; vision sees the whole and is imprecise.
So code weighs more where they agree, and where they do not, nothing passes that either one doubts:

    agree (within the margin)     0.7 code + 0.3 vision
    disagree                      the lower of the two, and a Disagreement that says why
    one of them unknown           the other one's
    both unknown                  unknown

The margin is 0.25, or the spread of vision's own repeated answers where that is larger: a
difference that vision has with itself is no evidence against the code. The score is the rule
applied to the whole. Where they agree on the whole but not on a criterion, it is capped at what the
criteria add up to when that one counts the lower score.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from telic.judges.evidence import WHOLE, Disagreement
from telic.judges.leaf import Leaf, total
from telic.judges.verdict import Source, Verdict, unknown

CODE_WEIGHT = 0.7
MARGIN = 0.25
_ROUNDING = 1e-9


def fuse(code: Verdict, vision: Verdict) -> Verdict:
    """Return the verdict that two judges of the same episode amount to."""
    if code.score is None or vision.score is None:
        return _one_alone(code, vision)
    margin = max(MARGIN, vision.spread or 0.0)
    disagreements = _disagreements(code, vision, margin)
    leaves = _lowered(code.leaves, disagreements)
    score = CODE_WEIGHT * code.score + (1 - CODE_WEIGHT) * vision.score
    if any(each.criterion == WHOLE for each in disagreements):
        score = min(code.score, vision.score)
    elif disagreements:
        score = min(score, total(leaves))
    lowered = [new.tag for new, old in zip(leaves, code.leaves, strict=True) if new != old]
    return Verdict(
        source="fused",
        score=score,
        leaves=leaves,
        tags=tuple(dict.fromkeys(tag for tag in (*lowered, *code.tags, *vision.tags) if tag)),
        seen=vision.seen,
        spread=vision.spread,
        by_judge=_by_judge(code, vision),
        disagreements=disagreements,
    )


def resolve(
    code: Verdict, vision: Verdict, again: Verdict, disputes: Sequence[Disagreement]
) -> Verdict:
    """Return the verdict after vision has looked `again` at what was in dispute.

    What it saw the second time replaces what it saw first; what it could not see does not. The
    disputes stay on record, resolved or not.
    """
    newer = {each.criterion: each for each in again.seen if each.score is not None}
    seen = tuple(newer.get(each.criterion, each) for each in vision.seen)
    score = vision.score if again.score is None else again.score
    tags = vision.tags if again.score is None else again.tags
    amended = vision.model_copy(update={"seen": seen, "score": score, "tags": tags})
    fused = fuse(code, amended)
    still = {each.criterion: each for each in fused.disagreements}
    kept = [
        each.model_copy(
            update={
                "asked_again": newer[each.criterion].score if each.criterion in newer else None,
                "resolved": each.criterion not in still,
            }
        )
        for each in disputes
    ]
    before = {each.criterion for each in disputes}
    kept += [each for each in still.values() if each.criterion not in before]
    return fused.model_copy(update={"disagreements": tuple(kept)})


def extend(code: Sequence[Verdict], fused: Mapping[int, Verdict]) -> list[Verdict]:
    """Return a verdict for every episode of a policy of which only some were watched.

    An episode that was not watched loses what the watched ones nearest to it in code score have
    lost by fusing, on average; nothing is gained that way. So a policy that only looks right to the
    code cannot pass on the episodes nobody watched.
    """
    losses = [
        (own.score, own.score - each.score)
        for index, each in fused.items()
        if (own := code[index]).score is not None and each.score is not None
    ]
    return [fused[i] if i in fused else _less(own, losses) for i, own in enumerate(code)]


def _less(own: Verdict, losses: Sequence[tuple[float, float]]) -> Verdict:
    """Lower an episode that was not watched; `losses` holds code score and loss of the others."""
    score = own.score
    if score is None or not losses:
        return own
    nearest = min(abs(each - score) for each, _ in losses) + _ROUNDING
    loss = fmean(loss for each, loss in losses if abs(each - score) <= nearest)
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
    known, other = (code, vision) if vision.score is None else (vision, code)
    return known.model_copy(
        update={
            "source": "fused",
            "seen": vision.seen,
            "by_judge": _by_judge(code, vision),
            "reason": f"{known.source} alone; {other.source} is unknown: {other.reason}",
        }
    )


def _by_judge(code: Verdict, vision: Verdict | None) -> dict[Source, float | None]:
    return {"code": code.score, "vision": None if vision is None else vision.score}


def _disagreements(code: Verdict, vision: Verdict, margin: float) -> tuple[Disagreement, ...]:
    found: list[Disagreement] = []
    for seen in vision.seen:
        leaf = next((each for each in code.leaves if _is_about(each, seen.criterion)), None)
        own = code.score if seen.criterion == WHOLE else _measured_score(leaf)
        if own is None or seen.score is None or abs(own - seen.score) <= margin + _ROUNDING:
            continue
        found.append(
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
    return tuple(found)


def _measured_score(leaf: Leaf | None) -> float | None:
    return None if leaf is None or leaf.value is None else leaf.counted


def _is_about(leaf: Leaf, criterion: str) -> bool:
    """Say whether a leaf measures a criterion; `near` adds its tolerance to the title."""
    own, title = leaf.title.casefold(), criterion.casefold()
    return own == title or own.startswith(f"{title} (within ")


def _words(leaf: Leaf | None, code: Verdict) -> str:
    leaves = code.leaves if leaf is None else (leaf,)
    return "; ".join(
        f"{each.title}: {'not measured' if each.value is None else f'{each.value:g} {each.unit}'}"
        f" (nothing at {each.zero:g}, all at {each.goal:g})"
        for each in leaves
    )


def _lowered(leaves: Sequence[Leaf], disagreements: Sequence[Disagreement]) -> tuple[Leaf, ...]:
    """Return the leaves with the lower score for those in dispute."""
    lower = {
        leaf.title: each.vision
        for each in disagreements
        for leaf in leaves
        if each.vision < each.code and _is_about(leaf, each.criterion)
    }
    return tuple(
        each.model_copy(
            update={"counted": lower[each.title], "credit": lower[each.title], "passed": False}
        )
        if each.title in lower
        else each
        for each in leaves
    )
