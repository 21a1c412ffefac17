"""What comes with other behaviours: staying on one's feet, going straight, being quiet.

Limits hold throughout: they are guards, so that keeping to them never earns anything by itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from telic.composer.draft import Draft
from telic.composer.frames import Act, Frame, Limit, LimitKind
from telic.composer.parts import bodies_of
from telic.composer.scene import Scene
from telic.core.text import is_row
from telic.judges import metrics, tracks
from telic.rewards.signals import Along, Gone, Grounded, Measured, Size, SoFar, Touching
from telic.rewards.terms import Alive, AtEase, Cost, Pay, Peak, Poise, Small, Stay

ALIVE = 0.3
"""paid for every step that a robot has not fallen, where little is enough"""
_RESTS_ON = 5.0
"""contact thresholds, of 1 % of the weight each, from which a body carries weight"""
_OF_LEGS = (Act.GO, Act.CIRCLE, Act.TURN, Act.STAND, Act.STOP, Act.OBEY)
"""what legs alone do"""
_TURNS = ("pitch_turns", "roll_turns", "heading_turns")
_AT_EASE = 0.2
"""rad, how far arms and waist may be from the pose they rest in"""
_LEANS = 0.25
"""rad, how far it may lean as it goes"""
_DRIFT_M, _TURN_RAD, _HEIGHT_M = 0.5, 0.5, 0.15


def stay_straight(scene: Scene, draft: Draft, direction: str) -> None:
    """Do not go aside, where that is possible."""
    is_ahead = direction in ("forward", "backward")
    if scene.has("lateral_velocity", "forward_velocity"):
        aside = Along("left" if is_ahead else "forward")
        draft.pay("straight", 0.2, Cost(Size(aside), most=2.0), "not going aside")


def rest_height(scene: Scene, draft: Draft) -> None:
    """Keep the height of standing."""
    if not scene.has("height"):
        return
    width = min(0.25, 0.4 * (scene.stands - scene.lies))
    stay_at_height(scene, draft, width)
    value = tracks.share_near("height", scene.stands, width)
    draft.score("keeps its height", value, 0.3, 0.8, weight=1.5, tag="falls")


def stay_at_height(scene: Scene, draft: Draft, width: float) -> None:
    """Pay for the height of standing."""
    height = Measured("height", minus=scene.stands)
    draft.pay("posture", 0.5, Peak(height, 0.0, width), "at its standing height")


def stay_on_feet(scene: Scene, draft: Draft, *, alive: float | None = None) -> None:
    """Guard against sliding along, against shaking, and against ending early.

    `alive` is what each step is paid for not having fallen; None: by how tall it is.
    """
    if scene.ends_fallen:
        # What is tall falls by lunging, and lunging must not pay for the rest of the episode.
        weight = alive or (1.0 if scene.is_tall else ALIVE)
        draft.pay("alive", weight, Alive(), "still on its feet")
        draft.require("does not end early", metrics.full_length(), 0.2, 0.9, tag="falls")
    # An environment that looks only at the height does not end when the robot lies on its back.
    looks = scene.ends_fallen and "healthy_angle_range" in scene.spec.arguments
    if not looks and scene.has("uprightness", "height"):
        stay_upright(scene, draft)
    _keep_off_ground(scene, draft)
    do_not_shake(draft)


def _keep_off_ground(scene: Scene, draft: Draft) -> None:
    """Guard against sliding on the head or the belly; a short touch is fine."""
    torso, robot = scene.torso, scene.spec.robot
    if torso is None or robot is None or scene.may_fall:
        return
    least = _RESTS_ON * robot.contact_threshold
    draft.pay("body", 0.3, Cost(Touching((torso,), least)), "body on the ground, as a cost")
    value = tracks.share(metrics.touching((torso,), least))
    draft.require("keeps its body off the ground", value, 0.4, 0.1, tag="falls")


def do_not_shake(draft: Draft) -> None:
    """Guard against full force back and forth at every step, which is 2 here."""
    draft.require("does not just shake", metrics.shaking(), 1.8, 1.4, tag="jitters")


def stay_there(scene: Scene, draft: Draft, is_first: bool) -> None:
    """Guard against moving first and resting then; what comes after a run may still brake."""
    if scene.has("height"):
        value = tracks.highest(tracks.less("height", scene.starts))
        draft.require("does not jump", value, 0.35, 0.15, tag="drifts")
    turns = tuple(each for each in _TURNS if scene.has(each))
    if turns:
        draft.require("does not turn", tracks.widest(turns), 0.35, 0.15, tag="drifts")
    if is_first and scene.has("x_position"):
        value = tracks.widest(tuple(f"{axis}_position" for axis in scene.axes))
        draft.require("stays where it is", value, 1.5, 0.6, tag="drifts")


def stay_upright(scene: Scene, draft: Draft) -> None:
    """Guard against lying on the back, of a tall robot against lying at all."""
    be_upright(draft, 0.2)
    title, height = "is not on its back", None
    if scene.is_tall:
        title, height = "is on its feet", 0.5 * scene.stands
    value = tracks.share(metrics.standing(0.2, height))
    draft.require(title, value, 0.3, 0.8, tag="falls")


def be_upright(draft: Draft, weight: float) -> None:
    """Pay for the right way up."""
    draft.pay("upright", weight, Pay(Measured("uprightness"), -1.0, 1.0), "the right way up")


def hold_still(scene: Scene, draft: Draft, weight: float = 1.0) -> None:
    """Keep the torso and the joints at rest: shaking in place is not resting."""
    draft.pay("still", weight, Small(Measured("speed"), 4.0), "not moving")
    value = tracks.share_below("speed", 0.25)
    draft.score("stands still", value, 0.5, 0.9, weight=2.0 * weight, tag="drifts")
    # A robot that jumps now and then is at rest most of the time, too.
    value = tracks.longest_below("speed", 0.3)
    draft.score("rests without a break", value, 0.1, 0.5, weight=weight, tag="drifts")
    if scene.has("joint_speed"):
        draft.pay("calm", 0.3 * weight, Small(Measured("joint_speed"), 1.0), "joints at rest")
        value = tracks.share_below("joint_speed", 1.5)
        draft.score("does not shake", value, 0.3, 0.8, weight=1.5 * weight, tag="jitters")


def carry_oneself(frames: Sequence[Frame], scene: Scene, draft: Draft) -> None:
    """Let a robot with arms that is driven by position stand upright, its arms at rest.

    Nothing else in going is about them: it would throw them about, and sway from foot to foot.
    Where words speak of other limbs, those words rule.
    """
    of_legs = all(
        frame.verb in _OF_LEGS and not frame.postures and not frame.bodies for frame in frames
    )
    is_driven = "commands" in scene.spec.arguments
    if not of_legs or not is_driven or not scene.has("upper_pose_error"):
        return
    arms = AtEase(Measured("upper_pose_error"), _AT_EASE)
    draft.pay("carriage", 0.8, arms, "arms and waist near the pose it stands in")
    if scene.has("uprightness"):
        draft.pay("poise", 1.0, Poise(1.0 - math.cos(_LEANS)), "upright, not swaying")
    if scene.has("leg_splay") and len(scene.spec.feet) == 2:
        legs = AtEase(Measured("leg_splay"), _AT_EASE)
        draft.pay("stance", 0.6, legs, "legs below it, neither spread nor turned")


def cost_of_change(scene: Scene, draft: Draft, weight: float) -> None:
    """Make changes of the action cost."""
    change = Cost(SoFar("action_change", 1 + scene.spec.act_dim), most=4.0)
    draft.pay("smooth", weight, change, "change of the action, as a cost")


def do_it_on_purpose(scene: Scene, draft: Draft) -> None:
    """Guard against thrashing about until it happens by chance."""
    if not scene.has("action_change"):
        return
    cost_of_change(scene, draft, 0.2)
    # Actions drawn at random from [-1, 1] change by 2/3 on average, squared.
    value = tracks.mean("action_change")
    draft.require("does not thrash about", value, 0.66, 0.45, tag="jitters")


def allow_height(scene: Scene, draft: Draft, top: float) -> None:
    """Let the torso rise this high, metres, where the environment would end the episode."""
    limits = scene.spec.arguments.get("healthy_z_range")
    if is_row(limits) and scene.ends_fallen and limits[1] < top:
        draft.env_args["healthy_z_range"] = [float(limits[0]), round(top, 2)]


def be_quiet(draft: Draft, weight: float = 0.1) -> None:
    """Add the small penalty that keeps learning healthy."""
    draft.pay("control", weight, Cost(Measured("effort")), "mean squared action, as a cost")


def be_quieter(draft: Draft) -> None:
    """Use the motors gently, and be judged on it."""
    be_quiet(draft, 0.4)
    value = tracks.mean("effort")
    draft.score("is gentle on its motors", value, 0.9, 0.45, weight=0.5, tag="jitters")


def change_slowly(scene: Scene, draft: Draft) -> None:
    """Change the action little from step to step."""
    if not scene.has("action_change"):
        return
    cost_of_change(scene, draft, 0.3)
    value = tracks.mean("action_change")
    draft.score("moves smoothly", value, 0.6, 0.2, weight=0.5, tag="jitters")


def respect(limit: Limit, scene: Scene, draft: Draft) -> None:
    """Reward and judge keeping to a limit; one the robot cannot break asks for nothing."""
    match limit.kind:
        case LimitKind.NO_FALL:
            stay_on_feet(scene, draft)
        case LimitKind.UPRIGHT if scene.has("uprightness", "height"):
            stay_upright(scene, draft)
        case LimitKind.NO_DRIFT | LimitKind.NO_FORWARD if scene.has("displacement"):
            _stay(limit, scene, draft)
        case LimitKind.NO_TURN if scene.has("heading_turns"):
            _face_ahead(limit, draft)
        case LimitKind.NO_JUMP if scene.has("air_time"):
            _stay_down(draft)
        case LimitKind.LOW_HEIGHT | LimitKind.KEEP_HEIGHT if scene.has("height"):
            _keep_height(limit, scene, draft)
        case LimitKind.NO_HANDS:
            hands = bodies_of(frozenset({"hand"}), "hand", scene.spec) or scene.feet("front")
            _keep_off(hands, "hands", scene, draft)
        case LimitKind.NO_TOUCH:
            _keep_off(limit.bodies, limit.part or "body", scene, draft)
        case LimitKind.LOW_ENERGY:
            be_quieter(draft)
        case LimitKind.SMOOTH | LimitKind.QUIET:
            be_quieter(draft)
            change_slowly(scene, draft)
        case _:
            why = "this robot cannot do otherwise"
            draft.doubt(f'"{limit.words}" asks for nothing: {why}', holds=True)


def _said(limit: Limit, unit: str) -> float | None:
    """Return the number that was said with a limit, if it has this unit."""
    amount = limit.amount
    return amount.value if amount and amount.unit == unit and amount.value > 0.0 else None


def _stay(limit: Limit, scene: Scene, draft: Draft) -> None:
    """Stay within a distance of the start; along x only, if just forward is forbidden."""
    most = _said(limit, "m") or _DRIFT_M
    title = f"stays within {most:g} m"
    if limit.kind is LimitKind.NO_FORWARD:
        title += " ahead"
        backward = Measured("forward_velocity", sign=-1)
        draft.pay("stay", 0.3, Pay(backward, -2.0, 0.0), "not going forward")
        value = tracks.highest("displacement")
    else:
        # Light: a robot thrown about at first would rather fall than pay more than living earns.
        meaning = "not going anywhere, and not being elsewhere"
        draft.pay("stay", 0.2, Stay(Gone(scene.axes), most), meaning)
        value = tracks.farthest("displacement")
        if scene.has("y_position"):
            value = tracks.highest(metrics.gone())
    draft.require(title, value, 3.0 * most, most, tag="drifts")


def face_ahead(draft: Draft) -> None:
    """Charge for turning."""
    draft.pay("ahead", 0.2, Cost(Size(Measured("heading_rate")), most=3.0), "not turning")


def _face_ahead(limit: Limit, draft: Draft) -> None:
    face_ahead(draft)
    turns = (_said(limit, "rad") or _TURN_RAD) / (2.0 * math.pi)
    value = tracks.farthest("heading_turns")
    draft.require("does not turn", value, 4.0 * turns, turns, tag="drifts")


def _stay_down(draft: Draft) -> None:
    draft.pay("grounded", 0.3, Pay(Grounded()), "a foot on the ground")
    value = tracks.mean(metrics.flying(0.1, 0.05))
    draft.require("stays on the ground", value, 0.3, 0.05, tag="too_high")


def _keep_height(limit: Limit, scene: Scene, draft: Draft) -> None:
    """Keep the torso below, above or about a height."""
    said = _said(limit, "m")
    if limit.kind is LimitKind.LOW_HEIGHT:
        most = said or scene.lies + 0.7 * (scene.stands - scene.lies)
        pays = Pay(Measured("height", minus=most, sign=-1), -1.0, 0.0)
        title, tag = f"keeps its torso below {most:.2g} m", "too_high"
        value = tracks.share_below("height", most)
    elif said is not None and limit.amount and limit.amount.rule == "at_least":
        pays = Pay(Measured("height", minus=said), -1.0, 0.0)
        title, tag = f"keeps its torso above {said:.2g} m", "too_low"
        value = tracks.share_above("height", said)
    else:
        about = said or scene.stands
        pays = Cost(Size(Measured("height", minus=about)), most=1.0)
        title, tag = f"keeps its torso about {about:.2g} m high", "too_low"
        value = tracks.share_near("height", about, _HEIGHT_M)
    draft.pay("tall", 2.0, pays, title)
    draft.require(title, value, 0.2, 0.75, tag=tag)


def _keep_off(bodies: Sequence[str], name: str, scene: Scene, draft: Draft) -> None:
    """Keep some bodies off the ground; what the robot does not have is off it anyway."""
    if not bodies or scene.spec.robot is None:
        draft.doubt(f"this robot has no {name} to keep off the ground", holds=True)
        return
    if set(scene.spec.feet) <= set(bodies):
        raise scene.cannot(f"keep its {name} off the ground", "it has no other foot to stand on")
    least = scene.spec.robot.contact_threshold
    touch = Cost(Touching(tuple(bodies), least))
    draft.pay("handed", 0.5, touch, f"{name} on the ground, as a cost")
    value = tracks.mean(metrics.touching(tuple(bodies), least))
    draft.require(f"keeps its {name} off the ground", value, 0.4, 0.05, tag="falls")
