"""Doing something with a hand, a foot or a pole: reaching, lifting, kicking, waving, swinging."""

from __future__ import annotations

from telic.composer.draft import Draft
from telic.composer.frames import Degree, Direction, Frame, Posture
from telic.composer.manners import do_it_on_purpose, do_not_shake, stay_on_feet
from telic.composer.scene import Scene
from telic.composer.sizes import QUICK

_RAISE_M = 0.3
_REACH_S = 3.0
"""time to get to a target and stay there, at the most"""
_WAVE_M = 0.15
_KICK_MPS = 2.0
_SIDES = ("left", "right")


def reach(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Bring the hand to the target and keep it there."""
    scene.require("distance_to_target", "reach for a target")
    draft.need("away = quantities.distance_to_target(info)")
    draft.add(
        "near", "torch.exp(-10.0 * away) - away", 1.0, "close to the target", r"(e^{-10 d}-d)"
    )
    draft.measure('away = episode["distance_to_target"]')
    title = "gets to the target"
    meaning = "least distance to the target"
    value = "float(np.min(away))"
    draft.total(title, meaning, value, 0.12, 0.03, weight=2.0, unit="m", tag="too_far")
    meaning = "share of the time within 0.04 m"
    value = "episode.share(away < 0.04)"
    draft.leaf("stays there", meaning, value, 0.1, 0.5, weight=1.0, tag="drifts")
    if frame.degree in QUICK:
        meaning = "share of the time until it is first within 0.06 m"
        value = "float(np.argmax(away < 0.06)) / len(away) if np.any(away < 0.06) else 1.0"
        draft.leaf("gets there quickly", meaning, value, 0.7, 0.35, weight=1.0, tag="too_slow")
    draft.ends_when("away < 0.04", "away < 0.04")
    spec = scene.spec
    lasts = spec.max_episode_steps * spec.dt_s if spec.max_episode_steps and spec.dt_s else 1.0
    draft.seconds = min(max(lasts, 1.0), _REACH_S)


def lift(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Hold a foot off the ground, or a hand up."""
    ends = _ends(frame, scene, "lift")
    if all(end in scene.spec.feet for end in ends):
        _lift_feet(frame, scene, draft, ends)
    else:
        _raise(frame, scene, draft, ends)
    do_it_on_purpose(scene, draft)
    _keep_posture(frame, scene, draft)
    if frame.duration_s:
        draft.seconds = max(frame.duration_s + 2.0, 4.0)


def _lift_feet(frame: Frame, scene: Scene, draft: Draft, feet: tuple[str, ...]) -> None:
    mine = scene.foot_places(feet)
    others = [index for index in range(len(scene.spec.feet)) if index not in mine]
    name = frame.part or "foot"
    if not others:
        raise scene.cannot(f"lift its {name}", "it has no other foot to stand on")
    draft.need(
        "contact = quantities.foot_contact(info)",
        f"off = 1.0 - contact[:, {mine}].amax(-1)",
        f"rests = contact[:, {others}].amax(-1)",
        "moving = quantities.speed(info)",
    )
    draft.add("off", "off * rests", 1.0, f"{name} off the ground, on the others", r"[o][r]")
    if not scene.is_going:
        draft.add("still", "torch.exp(-2.0 * moving)", 0.5, "not going anywhere", r"e^{-2 v}")
    draft.measure(
        'contact = episode["foot_contact"] > 0',
        f"held = ~contact[:, {mine}].any(-1) & contact[:, {others}].any(-1)",
    )
    meaning = "share of the time it is off the ground and another foot is not"
    value = "episode.share(held)"
    draft.leaf(f"holds its {name} up", meaning, value, 0.3, 0.8, weight=4.0, tag="too_low")
    title = f"keeps its {name} up"
    meaning = "longest time off the ground, standing on another foot"
    value = "episode.longest(held)"
    draft.leaf(
        title, meaning, value, 0.3, frame.duration_s or 1.5, weight=2.0, unit="s", tag="jitters"
    )
    _stay(scene, draft)
    draft.ends_when("off * rests > 0.5", "held", frame.duration_s or 0.5)


def _stay(scene: Scene, draft: Draft) -> None:
    """Judge that it does not wander off, unless it is to go somewhere meanwhile."""
    if not scene.is_going:
        meaning = "share of the time slower than 0.5 m/s"
        value = 'episode.share(episode["speed"] < 0.5)'
        draft.leaf("stays where it is", meaning, value, 0.3, 0.8, weight=1.0, tag="drifts")


def _keep_posture(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Guard against falling; who lies has nothing to fall from."""
    if Posture.LYING in frame.postures:
        do_not_shake(scene, draft)
    else:
        stay_on_feet(scene, draft)


def _rise(scene: Scene, draft: Draft, ends: tuple[str, ...], far: str) -> None:
    """Define `rise`: how far the lowest (or highest) of the ends is above where it began."""
    rewarded = ", ".join(f'quantities.body_height(info, "{end}")' for end in ends)
    judged = ", ".join(f'episode.quantity("body_height", "{end}")' for end in ends)
    torso = scene.has("height")
    width = 1 + len(ends)
    draft.remember("began", width)
    draft.need(
        f"ends = torch.stack(({rewarded},), -1)"
        + (" - quantities.height(info).unsqueeze(-1)" if torso else ""),
        'seen = self.memory["began"][:, :1]',
        'began = torch.where(seen > 0, self.memory["began"][:, 1:], ends)',
        'self.memory["began"] = torch.cat((torch.ones_like(seen), began), -1)',
        f"rise = (ends - began).{far}(-1)",
    )
    draft.measure(
        f"ends = np.stack(({judged},), -1)" + (' - episode["height"][:, None]' if torso else ""),
        f"rise = (ends - ends[0]).{'min' if far == 'amin' else 'max'}(-1)",
    )


def _raise(frame: Frame, scene: Scene, draft: Draft, ends: tuple[str, ...]) -> None:
    amount, name = frame.amount, frame.part or "limb"
    is_said = amount is not None and amount.unit == "m" and amount.value > 0.0
    target = amount.value if amount and is_said else _RAISE_M
    if not is_said:
        draft.doubt(f'"{frame.word}" is taken as {target:g} m above where the {name} began')
    _rise(scene, draft, ends, "amin")
    code = f"(rise / {target:.4g}).clamp(-0.5, 1.0)"
    meaning = f"{name} above where it began, in parts of {target:.2g} m"
    draft.add("raise", code, 1.0, meaning, r"\min(\Delta z / z^*, 1)")
    title = f"raises its {name} {target:.2g} m"
    meaning = "highest point, seen from the torso"
    value = "float(np.max(rise))"
    draft.total(
        title, meaning, value, 0.2 * target, 0.9 * target, weight=1.5, unit="m", tag="too_low"
    )
    meaning = f"share of the time {0.7 * target:.2g} m or more up"
    value = f"episode.share(rise > {0.7 * target:.4g})"
    draft.leaf(f"keeps its {name} up", meaning, value, 0.2, 0.7, weight=3.0, tag="too_low")
    up = f"rise > {0.8 * target:.4g}"
    draft.ends_when(up, up, frame.duration_s or 0.3)


def swing(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Swing up a pole, or wave a limb up and down."""
    if scene.has("pole_angle") and (frame.direction is Direction.UP or frame.part is not None):
        swing_up(frame, scene, draft)
        return
    ends = _ends(frame, scene, "swing")
    name, amount = frame.part or "limb", frame.amount
    reach_m = amount.value if amount and amount.unit == "m" and amount.value > 0.0 else _WAVE_M
    _rise(scene, draft, ends, "amax")
    draft.remember("is_up")
    draft.remember("waves")
    draft.need(
        f'up = torch.maximum(self.memory["is_up"], (rise > {reach_m:.4g}).float())',
        f"down = up * (rise < {0.3 * reach_m:.4g}).float()",
        'self.memory["is_up"] = up - down',
        'self.memory["waves"] = self.memory["waves"] + down',
    )
    draft.add("wave", "5.0 * down", 1.0, f"once per wave of the {name}", r"[\text{down}]")
    code = f"(torch.where(up > 0.5, -rise, rise) / {reach_m:.4g}).clamp(-1.0, 1.0)"
    draft.add("next", code, 0.5, "on the way up, then down", r"\pm\Delta z")
    draft.measure(f"waves = episode.count(rise > {reach_m:.4g}, rise < {0.3 * reach_m:.4g})")
    if frame.count:
        meaning = f"times up {reach_m:.2g} m and down again"
        value = "float(waves[-1])"
        draft.counted(f"waves its {name}", meaning, value, frame, weight=3.0, tag="too_low")
    else:
        title = f"waves its {name}"
        meaning = f"times up {reach_m:.2g} m and down again, per second"
        value = "float(waves[-1]) / episode.full_seconds"
        draft.total(title, meaning, value, 0.1, 0.7, weight=3.0, unit="1/s", tag="too_low")
    _stay(scene, draft)
    do_it_on_purpose(scene, draft)
    _keep_posture(frame, scene, draft)
    done = f"{(frame.count or 2) - 0.5:g}"
    draft.ends_when(f'self.memory["waves"] > {done}', f"waves > {done}")


def kick(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Throw a foot forward while standing on another, or lying."""
    scene.require("forward_velocity", "kick")
    (foot, *_) = _ends(frame, scene, "kick with")
    if foot not in scene.spec.feet:
        raise scene.cannot(f"kick with its {frame.part}", "that is not a foot")
    mine = scene.foot_places((foot,))[0]
    others = [index for index in range(len(scene.spec.feet)) if index != mine]
    if not others:
        raise scene.cannot("kick", "it has no other foot to stand on")
    back = "-" if frame.direction is Direction.BACKWARD else ""
    is_lying = Posture.LYING in frame.postures
    rests = "" if is_lying else f" * contact[:, {others}].amax(-1)"
    stood = "" if is_lying else f" & contact[:, {others}].any(-1)"
    speed = _KICK_MPS * (0.5 if frame.degree in (Degree.SLOW, Degree.LITTLE) else 1.0)
    draft.need(
        "contact = quantities.foot_contact(info)",
        f'swing = {back}(quantities.body_velocity(info, "{foot}")[:, 0]'
        " - quantities.forward_velocity(info))",
        f"free = (1.0 - contact[:, {mine}]){rests}",
    )
    code = f"free * (swing / {speed:.4g}).clamp(0.0, 1.5)"
    meaning = "speed of the free foot, seen from the torso"
    draft.add("kick", code, 2.0, meaning, r"[f]\, v_\text{foot}")
    draft.measure(
        f'ahead = {back}(episode.quantity("body_position", "{foot}")[:, 0]'
        ' - episode["x_position"])',
        "swing = np.gradient(ahead) / episode.dt if len(ahead) > 1 else np.zeros(1)",
        'contact = episode["foot_contact"] > 0',
        f"free = ~contact[:, {mine}]{stood}",
        f"kicks = episode.count(free & (swing > {0.6 * speed:.4g}), swing < 0.0)",
    )
    name = frame.part or "foot"
    title = f"swings its {name} at {speed:.2g} m/s"
    meaning = "fastest of the free foot, from the torso"
    value = "float(np.max(np.where(free, swing, 0.0)))"
    draft.total(title, meaning, value, 0.2 * speed, speed, weight=3.0, unit="m/s", tag="too_slow")
    wanted = frame.count or 1
    title = f"kicks {wanted} times" if frame.count else "kicks and takes the foot back"
    meaning = f"swings faster than {0.6 * speed:.2g} m/s that come back"
    draft.total(title, meaning, "float(kicks[-1])", 0.0, float(wanted), weight=1.5, tag="too_slow")
    do_it_on_purpose(scene, draft)
    _keep_posture(frame, scene, draft)
    draft.ends_when(f"free * swing > {0.6 * speed:.4g}", f"free & (swing > {0.6 * speed:.4g})")
    draft.seconds = max(3.0, 1.5 * wanted + 1.5)


def _ends(frame: Frame, scene: Scene, what: str) -> tuple[str, ...]:
    """Return the outermost bodies of the part that is meant: feet and hands."""
    if scene.spec.robot is None or not scene.spec.body_names:
        raise scene.cannot(f"{what} anything", "it has no body parts")
    scene.require("height", f"{what} a limb")
    if frame.part and not frame.bodies:
        names = ", ".join(name for name in scene.spec.body_names if name != "world")
        raise scene.cannot(f"{what} its {frame.part}", f"its bodies are {names}")
    if not frame.bodies:
        return _usual(frame, scene, what)
    if scene.spec.torso in frame.bodies:
        raise scene.cannot(f"{what} its {frame.part}", "that is what all else hangs on")
    feet = tuple(body for body in frame.bodies if body in scene.spec.feet)
    if feet:
        # "a foot" may be any: of a name that all feet share, one is meant
        return feet[:1] if frame.part in ("foot", "leg") else feet
    sides = [[body for body in frame.bodies if side in body] for side in _SIDES]
    found = tuple(side[-1] for side in sides if side)
    return found or frame.bodies[-1:]


def _usual(frame: Frame, scene: Scene, what: str) -> tuple[str, ...]:
    """Return the limb that is meant where none was named: a hand to wave, a foot to kick."""
    hands = tuple(name for name in scene.spec.body_names if "lower_arm" in name or "hand" in name)
    if what == "swing" and hands:
        return hands[:1]
    feet = scene.feet("front") or scene.feet("right") or scene.spec.feet
    if not feet:
        raise scene.cannot(f"{what} a limb", "it has neither feet nor hands")
    return feet[:1]


def swing_up(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Bring poles from hanging to upright."""
    draft.need("angle = quantities.pole_angles(info).abs().amax(-1)")
    draft.add("raise", "torch.cos(angle)", 1.0, "how far up the poles point", r"\cos\theta")
    draft.measure('angle = np.abs(episode["pole_angles"]).max(-1)')
    title = "gets the pole up and keeps it there"
    meaning = "share of the time within 0.3 rad of upright"
    draft.leaf(title, meaning, "episode.share(angle < 0.3)", 0.15, 0.5, weight=3.0, tag="too_low")
    title = "it is up at the end"
    meaning = "mean angle over the last second"
    value = "float(np.mean(angle[-max(1, int(1.0 / episode.dt)):]))"
    draft.leaf(title, meaning, value, 1.0, 0.3, weight=2.0, unit="rad", tag="falls")
    if scene.on_rail:
        draft.doubt("episodes start with the pole up: it must be caught again when it has fallen")
    draft.ends_when("angle < 0.3", "angle < 0.3")
