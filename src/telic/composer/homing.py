"""Coming back: to end where the episode began, whatever way was made before.

The place of the start is not observed, and a phase forgets what was before it. So it is remembered
throughout, where the policy sees it, and pays only while the way back is on.
"""

from __future__ import annotations

from collections.abc import Sequence

from telic.composer.draft import Draft
from telic.composer.frames import Act, Frame
from telic.composer.manners import know_the_way_back, stay_on_feet
from telic.composer.scene import Scene
from telic.judges.criteria import Motion

_NEAR_M, _FAR_M, _LOST_M = 0.5, 1.5, 2.0
_SETTLES_S = 2.0


def comes_home(frame: Frame) -> bool:
    """Say whether a frame asks to come back, and not how far that is."""
    is_way = frame.amount is not None and frame.amount.unit == "m"
    return frame.verb is Act.GO and frame.gait == "return" and frame.phase > 0 and not is_way


def rest_at_home(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Judge the rest at the end of the way back; the way itself is judged throughout."""
    scene.require("displacement", "come back")
    draft.need("moving = quantities.speed(info)")
    code = "torch.exp(-2.0 * moving)"
    draft.add("still", code, 0.2, "at rest in the end", r"e^{-2 v}")
    meaning = "mean speed over the last second"
    value = 'float(np.mean(episode["speed"][-max(1, int(1.0 / episode.dt)):]))'
    draft.leaf("stops there", meaning, value, 1.0, 0.4, weight=1.0, unit="m/s", tag="drifts")
    stay_on_feet(scene, draft)
    held = "moving < 0.3"
    draft.measure('moving = episode["speed"]')
    draft.ends_when(held, held, frame.duration_s or 1.0)
    draft.seconds = max(draft.seconds, (frame.duration_s or 0.0) + _SETTLES_S)


def come_home(scene: Scene, always: Draft, phase: int) -> None:
    """Pay for being near the start while a phase is on, and judge where the episode ends."""
    know_the_way_back(scene, always)
    code = (
        f"(phase == {phase}).float() * (torch.exp(-(strayed / {_NEAR_M:g}) ** 2)"
        f" - (strayed / {_LOST_M:g}).clamp(max=3.0))"
    )
    always.add("home", code, 2.0, "near the start, on the way back", r"e^{-d^2} - d")
    value = 'abs(float(episode["displacement"][-1]))'
    if scene.has("y_position"):
        always.measure(
            'x, y = episode["x_position"], episode["y_position"]',
            "strayed = np.hypot(x - x[0], y - y[0])",
        )
        value = "float(strayed[-1])"
    meaning = "distance from the start at the end"
    title = "ends where it began"  # a guard: to stop where the way out ended is no way back
    always.guard(title, meaning, value, _FAR_M, _NEAR_M, unit="m", tag="too_far")


def way_back(before: Sequence[Motion], seconds: float) -> list[Motion]:
    """Return the motions that undo the last one, and rest."""
    last = before[-1]
    back = last.model_copy(
        update={"forward_mps": -last.forward_mps, "left_mps": -last.left_mps, "jumps": 0}
    )
    return [back, Motion(seconds=max(seconds, 1.0))]
