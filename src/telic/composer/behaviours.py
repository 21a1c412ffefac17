"""What each verb means: terms that teach it, and leaves that recognise it.

Terms are about 1 in size when the behaviour is right, so that weights near 1 are sensible. Every
behaviour brings guards against its look-alikes: falling forward is not running.
"""

from __future__ import annotations

from collections.abc import Callable

from telic.composer.draft import Draft
from telic.composer.frames import Degree, Direction, Frame, Verb
from telic.composer.manners import rest_height, stay_on_feet, stay_straight
from telic.composer.scene import Scene

_SHARE_OF_TOP = {
    Degree.VERY_SLOW: 0.08, Degree.SLOW: 0.2, Degree.LITTLE: 0.2, Degree.MODERATE: 0.4,
    Degree.MUCH: 0.6, Degree.FAST: 0.6, Degree.VERY_FAST: 0.8, Degree.MOST: 0.8,
}  # fmt: skip
_GAIT = {"walk": Degree.MODERATE, "crawl": Degree.SLOW, "sprint": Degree.VERY_FAST}
_QUICK = (Degree.FAST, Degree.VERY_FAST, Degree.MOST, Degree.MUCH)
_GENTLE = (Degree.VERY_SLOW, Degree.SLOW, Degree.LITTLE)
_ALONG = {
    Direction.FORWARD: ("forward_velocity", ""), Direction.BACKWARD: ("forward_velocity", "-"),
    Direction.LEFT: ("lateral_velocity", ""), Direction.RIGHT: ("lateral_velocity", "-"),
    Direction.SIDEWAYS: ("lateral_velocity", ""),
}  # fmt: skip


def go(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Travel in a direction at a speed."""
    direction = frame.direction if frame.direction in _ALONG else Direction.FORWARD
    assert direction is not None
    quantity, sign = _ALONG[direction]
    scene.require(quantity, f"go {direction.value}")
    target, is_exact = _speed(frame, scene, draft)
    draft.need(f"along = {sign}quantities.{quantity}(info)")
    draft.measure(f'along = {sign}episode["{quantity}"]')
    title = f"moves {direction.value} at {target:.2g} m/s"
    if is_exact:
        draft.add(
            "speed",
            f"torch.exp(-((along - {target:.4g}) / {0.5 * target:.4g}) ** 2)"
            f" + 0.3 * (along / {target:.4g}).clamp(-1.0, 1.0)",
            1.0, f"speed {direction.value}, best at {target:.2g} m/s", r"e^{-((v - v^*)/w)^2}",
        )  # fmt: skip
        tolerance = max(0.25 * target, 0.02)
        code = f"near(float(np.mean(along)), {target:.4g}, {tolerance:.4g}, weight=3.0, "
        draft.judge(title, code + 'unit="m/s", tag="wrong_speed")')
    else:
        draft.add(
            "speed", f"(along / {target:.4g}).clamp(-1.0, 1.5)", 1.0,
            f"speed {direction.value}, in parts of {target:.2g} m/s", r"\min(v / v^*, 1.5)",
        )  # fmt: skip
        code = f"leaf(float(np.mean(along)), zero={0.1 * target:.4g}, goal={target:.4g}, "
        draft.judge(title, code + 'weight=3.0, unit="m/s", tag="too_slow")')
    code = f"leaf(episode.share(along > {0.3 * target:.4g}), zero=0.3, goal=0.75, weight=1.0, "
    draft.judge("keeps going", code + 'tag="stops")')
    stay_straight(scene, draft, quantity)
    stay_on_feet(scene, draft)


def _speed(frame: Frame, scene: Scene, draft: Draft) -> tuple[float, bool]:
    """Return the speed that is meant, and whether more would be wrong."""
    amount, top = frame.amount, float(scene.known["top_speed"])
    if amount and amount.unit in ("m/s", "share"):
        value = amount.value * (top if amount.unit == "share" else 1.0)
        return value, amount.rule != "at_least"
    usual = _GAIT.get(frame.gait or "", Degree.MODERATE)
    degree = frame.degree if frame.degree and frame.dimension in (None, "speed") else usual
    if frame.dimension == "distance" and frame.degree is Degree.MOST:
        degree = Degree.MOST  # the farthest in a given time is the fastest
    target = _SHARE_OF_TOP[degree] * top
    draft.doubts.append(f'"{frame.word}" is taken as {target:.2g} m/s for this robot')
    return target, degree in _GENTLE


def stand(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Stay where it is, at rest."""
    scene.require("speed", "stand still")
    draft.need("moving = quantities.speed(info)")
    draft.add("still", "torch.exp(-4.0 * moving)", 1.0, "not moving", r"e^{-4 v}")
    draft.measure('moving = episode["speed"]')
    code = "leaf(episode.share(moving < 0.25), zero=0.3, goal=0.8, weight=2.0, "
    draft.judge("stands still", code + 'tag="drifts")')
    rest_height(scene, draft)
    stay_on_feet(scene, draft)
    draft.seconds = max(draft.seconds, frame.duration_s or 0.0)


def jump(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Get the torso high above its resting height."""
    scene.require("height_above_start", "jump")
    amount = frame.amount
    target = amount.value if amount and amount.unit == "m" else float(scene.known["jump"])
    if frame.degree in _GENTLE:
        target *= 0.5
    draft.need("lift = quantities.height_above_start(info)")
    draft.need("rising = quantities.vertical_velocity(info)")
    draft.add(
        "height", f"(lift / {target:.4g}).clamp(0.0, 2.0)", 1.0,
        f"height above rest, in parts of {target:.2g} m", r"\max(h, 0) / h^*",
    )  # fmt: skip
    draft.add("rise", "rising.clamp(0.0, 3.0)", 0.3, "upward velocity", r"\max(v_z, 0)")
    draft.measure('lift = episode["height_above_start"]')
    code = f"leaf(float(np.max(lift)), zero={0.15 * target:.4g}, goal={target:.4g}, "
    draft.judge(f"gets {target:.2g} m above rest", code + 'weight=3.0, unit="m", tag="too_low")')
    if scene.has("air_time"):
        code = 'leaf(float(np.max(episode["air_time"])), zero=0.03, goal=0.15, weight=1.0, '
        draft.judge("leaves the ground", code + 'unit="s", tag="too_low")')
    draft.seconds = 5.0


def flip(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Turn over backward or forward in the air, and land on the feet."""
    scene.require("pitch_turns", "flip")
    is_forward = frame.direction is Direction.FORWARD
    sign, which = ("", "forward") if is_forward else ("-", "backward")
    count = frame.count or 1
    draft.memory |= {"turned": "(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)", "best": "0.0", "landed": "0.0"}
    draft.need(
        'self.memory["turned"], turns = quantities.pitch_turns.update(self.memory["turned"], info)',
        f'best = torch.maximum(self.memory["best"], ({sign}turns).clamp(0.0, {count:.1f}))',
        'progress = best - self.memory["best"]',
        'self.memory["best"] = best',
        "upright = quantities.uprightness(info)",
        f"done = best > {count - 0.1:.2f}",
        "down = done & (upright > 0.8) & (quantities.feet_in_contact(info) > 0)",
        'landed = torch.maximum(self.memory["landed"], down.float())',
        'landing = landed - self.memory["landed"]',
        'self.memory["landed"] = landed',
        f"spin = {sign}quantities.pitch_rate(info)",
    )
    draft.add("turn", "20.0 * progress", 1.0, f"new progress of the {which} turn", r"\Delta b")
    draft.add("land", "20.0 * landing", 1.0, "once: on its feet after the turn", r"[\text{land}]")
    draft.add(
        "spin", "torch.where(done, -spin.abs(), spin.clamp(-5.0, 5.0)) / 5.0", 3.0,
        "turning the right way before the turn is complete, calm after it", r"\omega / 5",
    )  # fmt: skip
    draft.add(
        "rest", "landed * upright * torch.exp(-quantities.speed(info))", 1.0,
        "upright and slow after landing", r"\text{landed}\cos\theta e^{-v}",
    )  # fmt: skip
    draft.measure(
        f'turns = {sign}episode["pitch_turns"]',
        f"over = turns > {count - 0.15:.2f}",
        'stands = over & (episode["uprightness"] > 0.7) & (episode["feet_in_contact"] > 0)',
    )
    times = "once" if count == 1 else f"{count} times"
    most = "float(np.max(turns))"
    code = f"leaf({most}, zero={0.2 * count:.2f}, goal={count - 0.15:.2f}, weight=3.0, "
    draft.judge(f"turns {which} {times}", code + 'unit="turns", tag="under_rotates")')
    code = "leaf(episode.longest(stands), zero=0.02, goal=0.25, weight=1.5, "
    draft.judge("lands on its feet", code + 'unit="s", tag="no_landing")')
    code = f"leaf({most}, zero={count + 0.9:.2f}, goal={count + 0.4:.2f}, weight=0.5, "
    draft.judge("does not turn on and on", code + 'unit="turns", tag="over_rotates")')
    draft.seconds = 3.0 + 1.5 * (count - 1)
    draft.settings["log_std"] = 0.0  # nobody turns over by small random motions


def balance(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Keep poles upright, or oneself."""
    if not scene.has("pole_angle"):
        stand(frame, scene, draft)
        return
    draft.need("angle = quantities.pole_angles(info).abs().amax(-1)")
    draft.add("upright", "torch.exp(-20.0 * angle**2)", 1.0, "poles upright", r"e^{-20\theta^2}")
    draft.measure('angle = np.abs(episode["pole_angles"]).max(-1)')
    code = "leaf(episode.share(angle < 0.15), zero=0.2, goal=0.95, weight=3.0, "
    draft.judge("keeps the pole up", code + 'tag="falls")')


def reach(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Bring the hand to the target and keep it there."""
    scene.require("distance_to_target", "reach for a target")
    draft.need("away = quantities.distance_to_target(info)")
    draft.add("near", "torch.exp(-10.0 * away) - away", 1.0, "close to the target", r"e^{-10 d}-d")
    draft.measure('away = episode["distance_to_target"]')
    code = 'leaf(float(np.min(away)), zero=0.12, goal=0.03, weight=2.0, unit="m", '
    draft.judge("gets to the target", code + 'tag="too_far")')
    code = "leaf(episode.share(away < 0.04), zero=0.1, goal=0.5, weight=1.0, "
    draft.judge("stays there", code + 'tag="drifts")')
    draft.seconds = 1.0


def turn(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Turn about the vertical."""
    scene.require("heading_rate", "turn about the vertical")
    is_right = frame.direction in (Direction.RIGHT, Direction.CLOCKWISE)
    sign, which = ("-", "right") if is_right else ("", "left")
    rate = 2.0 if frame.degree in _QUICK else 1.0
    goal = 0.7 * rate * draft.seconds / 6.2832
    draft.need(f"turning = {sign}quantities.heading_rate(info)")
    draft.add(
        "turn", f"(turning / {rate:.4g}).clamp(-1.0, 1.5)", 1.0, f"turning to the {which}",
        r"\min(\omega/\omega^*, 1.5)",
    )  # fmt: skip
    draft.measure(f'turned = {sign}episode["heading_turns"]')
    code = f"leaf(float(turned[-1]), zero={0.1 * goal:.3g}, goal={goal:.3g}, weight=3.0, "
    draft.judge(f"turns to the {which}", code + 'unit="turns", tag="under_rotates")')
    stay_on_feet(scene, draft)


def stand_up(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Get the torso up from lying, and keep it up."""
    scene.require("height", "stand up")
    robot = scene.spec.robot
    rest = robot.rest_height if robot and robot.rest_height else 0.0
    goal = max(1.0, rest)
    draft.need("up = quantities.height(info)")
    draft.add("height", f"up / {goal:.4g}", 1.0, "height of the torso", r"h / h^*")
    draft.measure('up = episode["height"]')
    code = f"leaf(float(np.max(up)), zero={0.3 * goal:.3g}, goal={0.95 * goal:.3g}, weight=2.0, "
    draft.judge(f"gets its torso {goal:.2g} m up", code + 'unit="m", tag="too_low")')
    code = f"leaf(episode.share(up > {0.8 * goal:.3g}), zero=0.05, goal=0.4, weight=1.0, "
    draft.judge("stays up", code + 'tag="falls")')


BEHAVIOURS: dict[Verb, Callable[[Frame, Scene, Draft], None]] = {
    Verb.GO: go, Verb.HOP: go, Verb.STAND: stand, Verb.STOP: stand, Verb.JUMP: jump,
    Verb.FLIP: flip, Verb.BALANCE: balance, Verb.REACH: reach, Verb.TURN: turn,
    Verb.STAND_UP: stand_up,
}  # fmt: skip
