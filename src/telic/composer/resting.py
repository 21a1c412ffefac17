"""Being somewhere: standing, balancing, sitting, lying, and getting up again."""

from __future__ import annotations

from collections.abc import Sequence

from telic.composer.draft import Draft
from telic.composer.frames import Act, Frame, Posture
from telic.composer.manners import (
    do_it_on_purpose,
    do_not_shake,
    hold_still,
    rest_height,
    stay_on_feet,
    stay_there,
)
from telic.composer.scene import Scene
from telic.composer.travel import SETTLED

_GET_UP_S = 5.0
_TALL, _UPRIGHT = 0.8, 0.85
"""of the standing height, and of the vertical, from which a robot is on its feet"""
_SEQUEL_S = 1.0
"""how long to rest before what comes next, where it was not said"""
_SLOWS_S, _LATE = 1.2, 0.2
"""how long one may take to come to rest: so long, or so much of what was to last so long"""
_OTHER_POSES = set(Posture) - {Posture.UPRIGHT, Posture.LEVEL, Posture.STRAIGHT_LINE}


def stand(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Stay where it is, at rest; on its feet unless another posture is asked for."""
    scene.require("speed", "stand still")
    hold_still(scene, draft)
    if not _OTHER_POSES & set(frame.postures):
        rest_height(scene, draft)
        stay_on_feet(scene, draft)
        stay_there(scene, draft, is_first=frame.phase == 0)
    elif scene.ends_fallen:
        stay_on_feet(scene, draft)
    draft.ends_when("moving < 0.3", "moving < 0.3", frame.duration_s or _SEQUEL_S)
    _last(frame, draft)


def rest_in_time(before: Sequence[Frame], now: Sequence[Frame], draft: Draft) -> None:
    """Judge that what was to last so long is over then, where rest comes after it."""
    timed = [each for each in before if each.duration_s is not None]
    is_open = any(each.amount and each.amount.rule == "at_least" for each in timed)
    if not timed or is_open or not {each.verb for each in now} <= {Act.STAND, Act.STOP}:
        return
    seconds = max(each.duration_s or 0.0 for each in timed)
    late = (1.0 - SETTLED) * seconds + max(_SLOWS_S, _LATE * seconds)
    draft.measure('moving = episode["speed"]')
    meaning = f"time that it still moves after the {seconds:g} s"
    value = "float(np.sum(moving > 0.3)) * episode.dt"  # all of it: a pause is no rest
    draft.guard("comes to rest in time", meaning, value, 1.7 * late, late, unit="s", tag="drifts")


def _last(frame: Frame, draft: Draft) -> None:
    if frame.duration_s:
        draft.seconds = max(frame.duration_s + 1.0, draft.seconds)


def balance(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Keep poles upright, or oneself."""
    if not scene.has("pole_angle"):
        stand(frame, scene, draft)
        return
    draft.need("angle = quantities.pole_angles(info).abs().amax(-1)")
    draft.add("upright", "torch.exp(-20.0 * angle**2)", 1.0, "poles upright", r"e^{-20\theta^2}")
    draft.measure('angle = np.abs(episode["pole_angles"]).max(-1)')
    meaning = "share of the time within 0.15 rad of upright"
    value = "episode.share(angle < 0.15)"
    draft.leaf("keeps the pole up", meaning, value, 0.2, 0.95, weight=3.0, tag="falls")
    draft.ends_when("angle < 0.15", "angle < 0.15", frame.duration_s or _SEQUEL_S)
    _last(frame, draft)


def sit(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Lower the torso, upright, and hold it there; or do so a number of times."""
    scene.require("height", "sit")
    scene.require("uprightness", "sit")
    reach = scene.stands - scene.lies
    target = scene.lies + (0.6 if Posture.LOW in frame.postures else 0.45) * reach
    width = 0.25 * reach
    low, high = target - 0.6 * width, target + 0.6 * width
    draft.need("up = quantities.height(info)", "upright = quantities.uprightness(info)")
    draft.measure('up, upright = episode["height"], episode["uprightness"]')
    meaning = "share of the time with uprightness over 0.6"
    value = "episode.share(upright > 0.6)"
    draft.guard("keeps its torso upright", meaning, value, 0.2, 0.7, tag="falls")
    draft.add("upright", "upright.clamp(-1.0, 1.0)", 0.4, "the right way up", r"\cos\theta")
    if frame.count:
        _squat(frame, frame.count, scene, draft, high)
        return
    code = f"torch.exp(-((up - {target:.4g}) / {width:.4g}) ** 2)"
    draft.add("low", code, 1.0, f"torso {target:.2g} m high", r"e^{-((h - h^*)/w)^2}")
    title = f"holds its torso {target:.2g} m high"
    meaning = f"share of the time between {low:.2g} and {high:.2g} m"
    value = f"episode.share((up > {low:.4g}) & (up < {high:.4g}))"
    draft.leaf(title, meaning, value, 0.2, 0.7, weight=5.0, tag="too_high")
    hold_still(scene, draft, weight=0.5)
    held = f"(up > {low:.4g}) & (up < {high:.4g})"
    draft.ends_when(held, held, frame.duration_s or _SEQUEL_S)
    _last(frame, draft)


def _squat(frame: Frame, count: int, scene: Scene, draft: Draft, low: float) -> None:
    """Go down and up again, several times."""
    high = scene.stands - 0.15 * (scene.stands - scene.lies)
    draft.remember("is_low")
    draft.remember("squats")
    draft.need(
        f'down = torch.maximum(self.memory["is_low"], (up < {low:.4g}).float())',
        f"risen = down * (up > {high:.4g}).float()",
        'self.memory["is_low"] = down - risen',
        'self.memory["squats"] = self.memory["squats"] + risen',
        f'left = (self.memory["squats"] < {count - 0.5:g}).float()',
    )
    draft.add("squat", "5.0 * risen * left", 1.0, "once per squat: up again", r"[\text{up}]")
    code = f"left * torch.where(down > 0.5, up - {low:.4g}, {high:.4g} - up)"
    draft.add("next", code, 2.0, "on the way down, then up", r"\pm\Delta h")
    draft.measure(f"squats = episode.count(up < {low:.4g}, up > {high:.4g})")
    meaning = f"times below {low:.2g} m and then above {high:.2g} m"
    value = "float(squats[-1])"
    draft.counted("goes down and up", meaning, value, frame, weight=3.0, tag="too_high")
    do_it_on_purpose(scene, draft)
    draft.ends_when(f'self.memory["squats"] > {count - 0.5:g}', f"squats > {count - 0.5:g}")
    draft.seconds = max(4.0, 2.0 * count + 1.0)


def lie(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Lie on the ground, at rest."""
    scene.require("height", "lie down")
    scene.require("uprightness", "lie down")
    top = scene.lies + 0.25 * (scene.stands - scene.lies)
    draft.need("up = quantities.height(info)", "upright = quantities.uprightness(info)")
    draft.measure('up, upright = episode["height"], episode["uprightness"]')
    reward = judge = f"(up < {top:.4g})"
    if scene.is_tall:
        reward += " & (upright.abs() < 0.6)"
        judge += " & (np.abs(upright) < 0.6)"
        draft.add("flat", "1.0 - upright.abs()", 0.5, "torso level with the ground", r"1-|\cos|")
    code = f"(({scene.stands:.4g} - up) / {scene.stands - scene.lies:.4g}).clamp(0.0, 1.0)"
    draft.add("low", code, 1.0, "torso close to the ground", r"1 - h / h^*")
    meaning = f"share of the time with the torso below {top:.2g} m"
    value = f"episode.share({judge})"
    draft.leaf("lies on the ground", meaning, value, 0.2, 0.7, weight=5.0, tag="too_high")
    hold_still(scene, draft, weight=0.5)
    draft.ends_when(reward, judge, frame.duration_s or _SEQUEL_S)
    _last(frame, draft)


def stand_up(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Get the torso up from lying, and keep it up."""
    scene.require("height", "stand up")
    rest = scene.spec.robot.rest_height if scene.spec.robot else None
    if frame.phase == 0 and rest is not None and "starts" in scene.spec.arguments:
        _get_up(rest, frame, scene, draft)
        return
    if frame.phase == 0 and rest is not None and rest > 0.8 * scene.stands:
        draft.doubt("it stands when an episode starts: standing up is taken as staying up")
        stand(frame, scene, draft)
        return
    goal = scene.stands / 1.3
    draft.need("up = quantities.height(info)")
    draft.add("height", f"up / {goal:.4g}", 1.0, "height of the torso", r"h / h^*")
    draft.measure('up = episode["height"]')
    title = f"gets its torso {goal:.2g} m up"
    meaning = "highest point of the torso"
    value = "float(np.max(up))"
    draft.total(title, meaning, value, 0.3 * goal, 0.95 * goal, weight=2.0, unit="m", tag="too_low")
    meaning = f"share of the time above {0.8 * goal:.2g} m"
    value = f"episode.share(up > {0.8 * goal:.4g})"
    draft.leaf("stays up", meaning, value, 0.05, 0.4, weight=1.0, tag="falls")
    draft.ends_when(f"up > {0.9 * goal:.4g}", f"up > {0.9 * goal:.4g}", frame.duration_s or 0.3)
    _last(frame, draft)


def _get_up(rest: float, frame: Frame, scene: Scene, draft: Draft) -> None:
    """Get on its feet from where it was dropped, in whatever attitude, and stay there."""
    scene.require("uprightness", "get up")
    draft.env_args["starts"] = "fallen"
    draft.doubt(f'"{frame.word}": every episode begins with a fall, in any attitude')
    draft.seconds = max(draft.seconds, _GET_UP_S, (frame.duration_s or 0.0) + _GET_UP_S)
    draft.need(
        "up = quantities.height(info)",
        "upright = quantities.uprightness(info)",
        f"tall = (up / {rest:.4g}).clamp(0.0, 1.0)",
    )
    draft.add("upright", "upright.clamp(-1.0, 1.0)", 1.0, "the right way up", r"\cos\theta")
    code = "tall * upright.clamp(0.0, 1.0)"
    draft.add(
        "height", code, 1.5, "height of the torso while the right way up", r"h / h^* \cos\theta"
    )
    draft.measure('up, upright = episode["height"], episode["uprightness"]')
    draft.measure(f"stands = (up > {_TALL * rest:.4g}) & (upright > {_UPRIGHT:g})")
    meaning = f"share of the last half with the torso over {_TALL * rest:.2g} m and upright"
    value = "float(np.mean(stands[len(stands) // 2 :]))"
    draft.leaf("gets on its feet", meaning, value, 0.1, 0.9, weight=3.0, tag="stays_down")
    meaning = "share of the last tenth in which it stands"
    value = "float(np.mean(stands[-max(1, len(stands) // 10) :]))"
    draft.leaf("ends on its feet", meaning, value, 0.2, 0.9, weight=1.0, tag="falls")
    do_not_shake(scene, draft)
