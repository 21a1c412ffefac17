"""How the body is held, and in what manner something is done."""

from __future__ import annotations

from collections.abc import Sequence

from telic.composer.draft import Draft
from telic.composer.frames import Act, Frame, Posture, Style
from telic.composer.manners import (
    be_quieter,
    change_slowly,
    on_hands,
)
from telic.composer.parts import bodies_of
from telic.composer.scene import Scene

_REARED = 0.7
"""rad, 40 degrees: from there on a torso counts as reared up"""
_CLEAR_LEGS, _SEEN_UP = 0.12, 0.75
"""how high a foot is held that shall be up, in lengths of the leg, and the part that counts"""
_WEIGHT = 2.0
OWN = {
    Act.SIT: {Posture.LOW, Posture.UPRIGHT},
    Act.LIE: {Posture.LYING, Posture.LOW},
    Act.STAND_UP: {Posture.UPRIGHT},
}
"""postures a verb has by itself"""


def hold(posture: Posture, frame: Frame, scene: Scene, draft: Draft) -> None:
    """Reward and judge one posture; refuse it where the robot cannot take it."""
    if posture in OWN.get(frame.verb, ()) or (
        posture is Posture.UPRIGHT and scene.has("pole_angle")
    ):
        return
    match posture:
        case Posture.UPRIGHT | Posture.LEVEL:
            _tilt(scene, draft, posture)
        case Posture.UPSIDE_DOWN:
            _upside_down(scene, draft)
        case Posture.LOW | Posture.HIGH | Posture.LYING:
            _height(scene, draft, posture)
        case Posture.STRAIGHT_LINE:
            _straight(scene, draft)
        case _:
            _legs(posture, frame, scene, draft)


def do_it(style: Style, frame: Frame, scene: Scene, draft: Draft) -> None:
    """Reward and judge one style."""
    match style:
        case Style.EFFICIENT:
            be_quieter(scene, draft)
        case Style.SMOOTH | Style.GENTLE:
            be_quieter(scene, draft)
            change_slowly(scene, draft)
        case Style.ALTERNATING:
            _alternate(scene, draft)
        case Style.SYMMETRIC:
            _symmetric(scene, draft)
        case Style.STEADY:
            _steady(frame, scene, draft)
        case Style.EXPLOSIVE:
            _explosive(scene, draft)
        case Style.NATURAL:
            _natural(frame, scene, draft)


def _tilt(scene: Scene, draft: Draft, posture: Posture) -> None:
    is_level = posture is Posture.LEVEL
    scene.require("uprightness", "keep its torso level" if is_level else "be upright")
    draft.need("upright = quantities.uprightness(info)")
    draft.add("upright", "upright.clamp(-1.0, 1.0)", 0.5, "the right way up", r"\cos\theta")
    least, title = (0.95, "keeps its torso level") if is_level else (0.85, "is upright")
    meaning = f"share of the time with uprightness over {least:g}"
    value = f'episode.share(episode["uprightness"] > {least:g})'
    draft.leaf(title, meaning, value, 0.3, 0.8, weight=_WEIGHT, tag="falls")


def _upside_down(scene: Scene, draft: Draft) -> None:
    scene.require("uprightness", "be upside down")
    draft.need("upright = quantities.uprightness(info)")
    draft.add("upside", "-upright", 1.5, "upside down", r"-\cos\theta")
    meaning = "share of the time with uprightness below -0.7"
    value = 'episode.share(episode["uprightness"] < -0.7)'
    draft.leaf("is upside down", meaning, value, 0.1, 0.6, weight=2 * _WEIGHT, tag="under_rotates")


def _height(scene: Scene, draft: Draft, posture: Posture) -> None:
    scene.require("height", f"be {posture.value}")
    span = scene.stands - scene.lies
    if posture is Posture.HIGH:
        limit, sign, title, tag = scene.stands - 0.1 * span, "", "holds its torso high", "too_low"
    else:
        share = 0.6 if posture is Posture.LOW else 0.25
        limit, sign, tag = scene.lies + share * span, "-", "too_high"
        title = "keeps its torso low" if posture is Posture.LOW else "lies on the ground"
    draft.need("up = quantities.height(info)")
    code = f"torch.sigmoid({sign}(up - {limit:.4g}) / {0.1 * span:.4g})"
    meaning = f"torso {'above' if not sign else 'below'} {limit:.2g} m"
    draft.add(posture.value, code, 1.0, meaning, r"\sigma(\Delta h)")
    draft.measure('up = episode["height"]')
    compare = ">" if not sign else "<"
    meaning = f"share of the time {compare} {limit:.2g} m"
    value = f"episode.share(up {compare} {limit:.4g})"
    draft.leaf(title, meaning, value, 0.2, 0.75, weight=_WEIGHT, tag=tag)


def _straight(scene: Scene, draft: Draft) -> None:
    if not scene.has("y_position"):
        draft.doubt("in a plane every way is straight", holds=True)
        return
    draft.need("aside = quantities.lateral_velocity(info)")
    draft.add("straight", "-aside.abs().clamp(max=2.0)", 0.4, "not going aside", r"-|v_y|")
    draft.measure('y = episode["y_position"]')
    meaning = "way aside for each metre travelled"
    value = 'float(np.ptp(y)) / max(1.0, float(episode["distance_travelled"][-1]))'
    draft.leaf("goes straight", meaning, value, 0.5, 0.15, weight=1.0, tag="drifts")


def _legs(posture: Posture, frame: Frame, scene: Scene, draft: Draft) -> None:
    """Touch the ground with some feet only."""
    what = f"be on {posture.value.replace('_', ' ')}"
    scene.require("foot_contact", what)
    feet = len(scene.spec.feet)
    if posture is Posture.ONE_LEG or (posture is Posture.TWO_LEGS and feet > 2):
        _so_many(posture, frame, scene, draft)
    elif posture is Posture.TWO_LEGS:
        if feet < 2:
            raise scene.cannot(what, "it has one foot")
        draft.doubt("it has two feet: being on two legs asks for nothing else")
    else:
        _only(posture, scene, draft, what)


def _so_many(posture: Posture, frame: Frame, scene: Scene, draft: Draft) -> None:
    """Be on one or two feet; on one that was named, if one was."""
    most = 1 if posture is Posture.ONE_LEG else 2
    mine = scene.foot_places(tuple(body for body in frame.bodies if body in scene.spec.feet))
    draft.need("contact = quantities.foot_contact(info)")
    draft.measure('contact = episode["foot_contact"] > 0')
    if mine and most == 1:
        others = [index for index in range(len(scene.spec.feet)) if index not in mine]
        reward, judge = "1.0", "np.ones(len(contact), dtype=bool)"
        if others:
            reward = f"1.0 - contact[:, {others}].amax(-1)"
            judge = f"~contact[:, {others}].any(-1)"
        title = f"is on its {frame.part} only"
        lowest = _lowest(others)
    else:
        reward = f"(contact.sum(-1) < {most + 0.5:g}).float()"
        judge = f"contact.sum(-1) <= {most}"
        title = "is on one foot" if most == 1 else "is on two feet"
        lowest = f"feet_up.sort(-1)[0][:, {most}]", f"np.sort(feet_up, axis=-1)[:, {most}]"
    if len(scene.spec.feet) <= most:
        draft.doubt(f"it has {len(scene.spec.feet)} feet: this asks for nothing else")
        return
    draft.add("legs", f"({reward}) * contact.amax(-1)", 1.0, title, r"[\text{feet}]")
    _judge_feet(draft, title, f"({judge}) & contact.any(-1){_clear(lowest, scene, draft)}")


def _lowest(feet: Sequence[int]) -> tuple[str, str]:
    """Return the height of the lowest of some feet, as a reward and as a judge write it."""
    return f"feet_up[:, {feet}].amin(-1)", f"feet_up[:, {feet}].min(-1)"


def _clear(lowest: tuple[str, str], scene: Scene, draft: Draft) -> str:
    """Pay for feet that are up, and return what a judge asks of them; nothing without legs.

    A foot that hovers a hair above the ground, or rests on it without weight, touches nothing and
    looks as if it stood there.

    Args:
        lowest: how high the lowest of the feet is that shall be up, as the reward and as the judge
            write it; `feet_up` are heights above the lowest foot.
        scene: what is known of the robot.
        draft: what is written.
    """
    if scene.leg is None or not scene.has("foot_height"):
        return ""
    up = _CLEAR_LEGS * scene.leg
    draft.need(
        "feet_up = quantities.foot_height(info)",
        "feet_up = feet_up - feet_up.amin(-1, keepdim=True)",
    )
    code = f"({lowest[0]} / {up:.4g}).clamp(max=1.0)"
    meaning = f"the other feet up by {up:.2g} m"
    draft.add("lifted", code, 0.5, meaning, r"\min(\Delta z / z^*, 1)")
    draft.measure(
        'feet_up = episode["foot_height"] - episode["foot_height"].min(-1, keepdims=True)'
    )
    return f" & ({lowest[1]} > {_SEEN_UP * up:.4g})"


def _only(posture: Posture, scene: Scene, draft: Draft, what: str) -> None:
    """Be on the rear or front feet, or the hands, alone."""
    place = "rear" if posture is Posture.REAR_LEGS else "front"
    mine = scene.foot_places(scene.feet(place))
    if not mine and posture is Posture.FRONT_LEGS:
        _on_hands(scene, draft, what)
        return
    others = [index for index in range(len(scene.spec.feet)) if index not in mine]
    if not mine or not others:
        raise scene.cannot(what, "its feet are not in front and behind")
    draft.need("contact = quantities.foot_contact(info)")
    draft.measure('contact = episode["foot_contact"] > 0')
    code = f"contact[:, {mine}].amax(-1) * (1.0 - contact[:, {others}].amax(-1))"
    draft.add("legs", code, 1.5, f"on its {place} feet only", r"[\text{feet}]")
    clear = _clear(_lowest(others), scene, draft)
    holds = f"contact[:, {mine}].any(-1) & ~contact[:, {others}].any(-1){clear}"
    _judge_feet(draft, f"is on its {place} feet only", holds)
    _rear_up(posture, scene, draft)


def _rear_up(posture: Posture, scene: Scene, draft: Draft) -> None:
    """Raise the end of the torso that stands on nothing: balancing with it level is no rearing."""
    if not scene.has("pitch"):
        return
    sign, end = ("-", "front") if posture is Posture.REAR_LEGS else ("", "rear")
    draft.need(f"reared = {sign}quantities.pitch(info)")
    code = f"(reared / {_REARED:g}).clamp(-1.0, 1.0)"
    draft.add("rear", code, 1.0, f"its {end} raised", r"\min(\theta / \theta^*, 1)")
    draft.measure(f'reared = {sign}episode["pitch"]')
    title = f"raises its {end}"
    meaning = f"share of the time with the {end} of its torso raised by {_REARED:.2g} to 2.4 rad"
    value = f"episode.share((reared > {_REARED:g}) & (reared < 2.4))"
    draft.leaf(title, meaning, value, 0.2, 0.6, weight=2.0 * _WEIGHT, tag="too_low")


def _on_hands(scene: Scene, draft: Draft, what: str) -> None:
    hands = bodies_of(frozenset({"hand"}), "hand", scene.spec)
    if not hands or scene.spec.robot is None:
        raise scene.cannot(what, "it has neither front feet nor hands")
    rewarded, judged = on_hands(hands, scene.spec.robot.contact_threshold)
    draft.need(f"hands = {rewarded}", "feet = quantities.foot_contact(info).amax(-1)")
    draft.add("hands", "hands * (1.0 - feet)", 1.5, "on its hands only", r"[\text{hands}]")
    draft.measure(f"hands = {judged}", 'feet = (episode["foot_contact"] > 0).any(-1)')
    _judge_feet(draft, "is on its hands only", "hands & ~feet")


def _judge_feet(draft: Draft, title: str, holds: str) -> None:
    meaning = "share of the time; feet that shall be up are seen to be up"
    value = f"episode.share({holds})"
    draft.leaf(title, meaning, value, 0.25, 0.7, weight=2.0 * _WEIGHT, tag="too_low")


def _alternate(scene: Scene, draft: Draft) -> None:
    scene.require("stride_alternation", "alternate between its feet")
    draft.remember("strides", 5)
    draft.need(
        'self.memory["strides"], alternation = quantities.stride_alternation.update('
        'self.memory["strides"], info)'
    )
    draft.add("alternate", "alternation", 0.3, "one side after the other", r"a")
    meaning = "share of touchdowns that follow one of the other side"
    value = 'float(episode["stride_alternation"][-1])'
    draft.total("alternates its feet", meaning, value, 0.3, 0.75, weight=1.5, tag="one_sided")


def _symmetric(scene: Scene, draft: Draft) -> None:
    scene.require("stride_alternation", "be symmetric")
    robot = scene.spec.robot
    assert robot is not None and robot.sides is not None  # the quantity says so
    one, other = (list(side) for side in robot.sides)
    draft.remember("duty", 1 + len(scene.spec.feet))
    draft.need(
        'self.memory["duty"], duty = quantities.foot_duty_factor.update(self.memory["duty"], info)',
        f"skew = (duty[:, {one}].mean(-1) - duty[:, {other}].mean(-1)).abs()",
    )
    draft.add("symmetric", "-skew", 0.5, "both sides used alike", r"-|d_l - d_r|")
    draft.measure(
        'duty = episode["foot_duty_factor"][-1]',
        f"skew = float(abs(duty[{one}].mean() - duty[{other}].mean()))",
    )
    meaning = "difference of the sides' share of time on the ground"
    draft.total("uses both sides alike", meaning, "skew", 0.5, 0.15, weight=1.0, tag="one_sided")


def _steady(frame: Frame, scene: Scene, draft: Draft) -> None:
    if frame.verb is not Act.GO or not scene.has("horizontal_speed"):
        change_slowly(scene, draft)
        return
    draft.measure(
        'pace = episode["horizontal_speed"][len(episode) // 4 :]',
        "spread = float(np.std(pace) / max(float(np.mean(pace)), 1e-6))",
    )
    meaning = "spread of the speed over its mean, after the start"
    draft.leaf("keeps its pace", meaning, "spread", 1.0, 0.4, weight=1.0, tag="jitters")
    change_slowly(scene, draft)


def _explosive(scene: Scene, draft: Draft) -> None:
    scene.require("speed", "be explosive")
    fast = max(0.5 * scene.top_speed, 0.2)
    draft.need("burst = quantities.speed(info)")
    code = f"(burst / {fast:.4g}).clamp(0.0, 2.0)"
    draft.add("burst", code, 0.3, "fast, whatever the direction", "v")
    title = "bursts into motion"
    meaning = "fastest moment of the torso"
    value = 'float(np.max(episode["speed"]))'
    draft.total(title, meaning, value, 0.3 * fast, fast, weight=1.0, unit="m/s", tag="too_slow")


def _natural(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Move without haste or waste, and on one foot after the other where it walks."""
    be_quieter(scene, draft)
    change_slowly(scene, draft)
    if frame.verb is Act.GO and scene.has("stride_alternation"):
        _alternate(scene, draft)
    draft.doubt("natural is taken as smooth, gentle on the motors and with alternating feet")
