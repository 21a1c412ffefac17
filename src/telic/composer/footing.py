"""Going on one's feet: in steps that make way, neither sliding along nor trembling.

Optimisers find out that feet which vibrate carry a body along, and that a pose which glides is as
fast as a gait. Both cover ground without a step. Two things tell them apart on any robot: a foot
that carries weight stays where it is while the body passes over it, and a step is a fair part of
the length of a leg.
"""

from __future__ import annotations

import math

from telic.composer.draft import Draft
from telic.composer.scene import Scene

_SLOW = 0.03
"""speed from which it is going, in parts of sqrt(g L)"""
_TREMBLES, _STEPS = 0.05, 0.12
"""way made per touch of the ground, in lengths of the leg"""
_GLIDES, _LONGEST = 3.5, 2.2
"""way made per step of a foot that swings: longer than any leg steps without flying"""
_ON_GROUND = ("walk", "march", "crawl", "trot", "pace")
_SLIDES, _STANDS = 0.8, 0.5
"""share of the way in which no foot stood still"""


def can_step(scene: Scene) -> bool:
    """Say whether a robot has legs with feet, which steps can be measured of."""
    return scene.leg is not None and scene.has("slide_share", "x_position")


def go_in_steps(gait: str | None, scene: Scene, draft: Draft, weight: float) -> None:
    """Guard against sliding and trembling, and let feet that slip cost."""
    leg = scene.leg
    if leg is None or not can_step(scene):
        return
    draft.need("slip = quantities.foot_slip(info).mean(-1)")
    meaning = "feet slipping over the ground, as a cost"
    draft.add("grip", "-slip.clamp(max=2.0)", weight, meaning, r"-\overline{c_i v_i}")
    meaning = "share of the way that every foot on the ground made with the body"
    value = 'float(episode["slide_share"][-1])'
    draft.guard("does not slide along", meaning, value, _SLIDES, _STANDS, tag="drags")
    axes = [axis for axis in ("x_position", "y_position") if scene.has(axis)]
    paces = ", ".join(f'episode.pace(episode["{axis}"])' for axis in axes)
    draft.measure(
        'touches = episode["foot_contact"] > 0',
        f"gait_pace = np.hypot({paces})" if len(axes) > 1 else f"gait_pace = np.abs({paces})",
        f"under_way = gait_pace > {_SLOW * math.sqrt(scene.gravity * leg):.4g}",
        "treads = (touches[1:] & ~touches[:-1]) & under_way[1:, None]",
        f"way_made = float(gait_pace[under_way].sum()) * episode.dt / {leg:.4g}",
    )
    meaning = "way made per touch of the foot that touches most often, in lengths of the leg"
    value = "way_made / max(float(treads.sum(0).max()), 1.0) if way_made > 1.0 else 1.0"
    draft.guard("does not tremble along", meaning, value, _TREMBLES, _STEPS, tag="jitters")
    if gait in _ON_GROUND:
        # A foot that only drags along touches the ground once, whatever the others do.
        draft.measure(
            'swings = float(episode["stride_frequency"][-1]) * episode.seconds',
            "steps_made = max(min(swings, float(treads.sum(0).min())), 1.0)",
        )
        meaning = "way made per step of the foot that steps least, in lengths of the leg"
        value = "way_made / steps_made if way_made > 2.0 else 1.0"
        draft.guard("takes steps", meaning, value, _GLIDES, _LONGEST, tag="drags")
