"""Going on one's feet: in steps that make way, neither sliding along nor trembling.

Optimisers find out that feet which vibrate carry a body along, and that a pose which glides is as
fast as a gait. Both cover ground without a step. Two things tell them apart on any robot: a foot
that carries weight stays where it is while the body passes over it, and a step is a fair part of
the length of a leg.
"""

from __future__ import annotations

import math

from telic.composer.draft import Draft, measure
from telic.composer.scene import Scene
from telic.judges import metrics, tracks
from telic.rewards.signals import Slip
from telic.rewards.terms import Cost

_SLOW = 0.03
"""speed from which it is going, in parts of sqrt(g L)"""
_TREMBLES, _STEPS = 0.05, 0.12
"""way made per touch of the ground, in lengths of the leg"""
_GLIDES, _LONGEST = 3.5, 2.2
"""way made per step of a foot that swings: longer than any leg steps without flying"""
_ON_GROUND = ("walk", "march", "crawl", "trot", "pace")
_SLIDES, _STANDS = 0.8, 0.5
"""share of the way in which no foot stood still"""


def go_in_steps(gait: str | None, scene: Scene, draft: Draft, weight: float) -> None:
    """Guard against sliding and trembling, and let feet that slip cost."""
    leg = scene.leg
    if leg is None or not scene.has("slide_share", "x_position"):
        return
    draft.pay("grip", weight, Cost(Slip(), most=2.0), "feet slipping over the ground, as a cost")
    meaning = "share of the way that every foot on the ground made with the body"
    value = measure(tracks.last, "slide_share")
    draft.guard("does not slide along", meaning, value, _SLIDES, _STANDS, tag="drags")
    slow = _SLOW * math.sqrt(scene.gravity * leg)
    axes = tuple(f"{axis}_position" for axis in scene.axes)
    meaning = "way made per touch of the foot that touches most often, in lengths of the leg"
    value = measure(metrics.way_per_touch, slow, leg, axes)
    draft.guard("does not tremble along", meaning, value, _TREMBLES, _STEPS, tag="jitters")
    if gait in _ON_GROUND:
        # A foot that only drags along touches the ground once, whatever the others do.
        meaning = "way made per step of the foot that steps least, in lengths of the leg"
        value = measure(metrics.way_per_step, slow, leg, axes)
        draft.guard("takes steps", meaning, value, _GLIDES, _LONGEST, tag="drags")
