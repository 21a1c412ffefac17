"""Terms and constraints shared by behaviors, such as balance, effort and explicit limits.

Limits are constraints, so satisfying a limit does not earn credit.
"""

import math
from collections.abc import Sequence

from telic.composer._draft import Draft
from telic.composer._gaits import go_in_steps
from telic.composer.frames import NEAR, Frame, Held, Limit
from telic.composer.scene import Scene
from telic.core.text import is_row
from telic.judges import metrics, tracks
from telic.judges.tracks import Measure, track
from telic.rewards import signals, terms
from telic.rewards.terms import Alive, AtEase, Cosine, Cost, Pay, Poise, Small, Stay

ALIVE = 0.3
"""default weight for each step without a fall"""
_RESTS_ON = 5.0
"""contact force above which a body carries weight, in units of 1 % of the robot's weight"""
_OF_LEGS = ("go", "circle", "turn", "stand", "stop", "obey")
_AT_EASE, _LEANS = 0.2, 0.25
"""tolerances of arm and waist deviation from the resting pose and of torso lean, in rad"""
_DRIFT_M, _TURN_RAD = 0.5, 0.5
_THRIFT = 0.7
"""fraction of the effort of a plain gait that counts as low (tables/calibration.toml)"""
_STRAIGHT, _VEERS = 0.2, 0.5
"""lateral drift per distance for full credit (11 degrees) and for none (27 degrees)"""
_FACES, _TURNED_AWAY = 35.0, 75.0
"""heading error in degrees for full credit and for no credit"""


def stay_on_feet(scene: Scene, draft: Draft, *, alive: float | None = None) -> None:
    """Constrain falling, sliding on the body and action chatter.

    `alive` is the weight for each step without a fall. The default depends on the robot's height.
    """
    if scene.ends_fallen:
        # A tall robot falls when lunging; lunging must not pay for the rest of the episode.
        weight = alive or (1.0 if scene.is_tall else ALIVE)
        draft.pay("alive", weight, Alive(), "not fallen")
        draft.require("does not terminate early", metrics.full_length(), 0.2, 0.9, tag="falls")
    # Environments that check only the height do not terminate when the robot lies on its back.
    checks_tilt = scene.ends_fallen and "healthy_angle_range" in scene.spec.arguments
    is_down = scene.is_on_hands or scene.is_over
    if not checks_tilt and scene.has("uprightness", "height") and not is_down:
        stay_upright(scene, draft)
    torso, robot = scene.torso, scene.spec.robot
    if scene.is_on_hands and robot is not None and scene.has("uprightness"):
        value = tracks.share(track("uprightness") > -0.5)
        draft.require("is not on its back", value, 0.3, 0.8, tag="falls")
    if torso is not None and robot is not None and not scene.may_fall:
        least = _RESTS_ON * robot.contact_threshold
        drags = Cost(signals.Touching((torso,), least))
        draft.pay("body", 0.3, drags, "body on the ground, as a cost")
        value = tracks.share(metrics.touching((torso,), least))
        draft.require("keeps its body off the ground", value, 0.4, 0.1, tag="falls")
    do_not_chatter(draft)


def do_not_chatter(draft: Draft) -> None:
    """Constrain actions that alternate between the extremes at every step (a change of 2)."""
    draft.require("does not chatter its actuators", metrics.shaking(), 1.8, 1.4, tag="jitters")


def stay_upright(scene: Scene, draft: Draft) -> None:
    """Constrain lying on the back, or for a tall robot lying in any position."""
    be_upright(draft, 0.2)
    title, height = "is not on its back", None
    if scene.is_tall:
        title, height = "is on its feet", 0.5 * scene.stands
    draft.require(title, tracks.share(metrics.standing(0.2, height)), 0.3, 0.8, tag="falls")


def be_upright(draft: Draft, weight: float) -> None:
    """Reward an upright torso."""
    up = Pay(signals.Measured("uprightness"), -1.0, 1.0)
    draft.pay("upright", weight, up, "the right way up")


def stay_straight(
    frame: Frame, scene: Scene, draft: Draft, way: metrics.Way, aside: str | None = None
) -> None:
    """Penalize lateral drift and turning, so that a robot moves straight ahead.

    Sideways and backward travel keeps the initial heading. Robots whose legs are arranged alike on
    all sides have no front, and robots without legs may undulate.
    """
    if not scene.has("lateral_velocity", "forward_velocity") or (frame.point and frame.point[1]):
        return
    degrees = metrics.DEGREES.get(way, 0.0) if isinstance(way, str) else way
    if aside is not None:
        degrees += 45.0 if (metrics.DEGREES[aside] - degrees) % 360.0 < 180.0 else -45.0
    elif way != "ahead":
        plain = {0.0: "left", 180.0: "left", 90.0: "forward", -90.0: "forward"}
        across = signals.Along(plain.get(degrees, degrees + 90.0))
        draft.pay("straight", 0.2, Cost(signals.Size(across), most=2.0), "no lateral motion")
    if not scene.spec.feet or scene.is_turning or frame.ground is not None:
        return
    value = metrics.drift("ahead" if way == "ahead" else degrees)
    draft.require("goes straight", value, _VEERS, _STRAIGHT, tag="drifts")
    if scene.has("heading") and not scene.is_round and frame.heading is not None:
        faced = signals.Measured("heading", minus=math.radians(frame.heading))
        draft.pay("facing", 0.3, Cosine(faced), "facing ahead")
        value = metrics.facing_error(frame.heading)
        draft.require("faces ahead", value, _TURNED_AWAY, _FACES, tag="drifts")


def hold_still(scene: Scene, draft: Draft, weight: float = 1.0) -> None:
    """Reward resting joints, and a resting torso if it can move."""
    if not scene.has("speed"):
        scene.require("joint_speed", "hold still")
    else:
        draft.pay("still", weight, Small(signals.Measured("speed"), 4.0), "no motion")
        title, value = "stands still", tracks.share(track("speed") < 0.25)
        draft.score(title, value, 0.5, 0.9, weight=2.0 * weight, tag="drifts")
        # A robot that jumps occasionally is also at rest most of the time.
        value = tracks.longest(track("speed") < 0.3) / tracks.full_seconds()
        title = "rests for half of the time without a break"
        draft.score(title, value, 0.1, 0.5, weight=weight, tag="drifts")
    if scene.has("joint_speed") and not scene.is_waving:
        calm = Small(signals.Measured("joint_speed"), 1.0)
        draft.pay("calm", 0.3 * weight, calm, "joints at rest")
        title, value = "joints rest", tracks.share(track("joint_speed") < 1.5)
        draft.score(title, value, 0.3, 0.8, weight=1.5 * weight, tag="jitters")


def carry_oneself(frames: Sequence[Frame], scene: Scene, draft: Draft) -> None:
    """Keep a position-controlled robot upright, with its arms at rest.

    Without these terms, the arms would swing wildly during walking and make the torso sway. Words
    about other limbs or postures take precedence.
    """
    of_legs = all(
        frame.verb in _OF_LEGS and not (frame.postures or frame.bodies or frame.held)
        for frame in frames
    )
    is_driven = "commands" in scene.spec.arguments
    if not of_legs or not is_driven or not scene.has("upper_pose_error"):
        return
    arms = AtEase(signals.Measured("upper_pose_error"), _AT_EASE)
    draft.pay("carriage", 0.8, arms, "arms and waist near the standing pose")
    if scene.has("uprightness"):
        draft.pay("poise", 1.0, Poise(1.0 - math.cos(_LEANS)), "upright, without swaying")
    if scene.has("leg_splay") and len(scene.spec.feet) == 2:
        legs = AtEase(signals.Measured("leg_splay"), _AT_EASE)
        draft.pay("stance", 0.6, legs, "legs neither spread nor turned")


def repeat(
    deed: str,
    cycle: tuple[str, int, float, float],
    frame: Frame,
    scene: Scene,
    draft: Draft,
    tag: str,
) -> None:
    """Repeat a motion. `cycle` is (quantity, sign, value at the far end, value at the start)."""
    (quantity, sign, there, back), count = cycle, frame.count or 1
    cycles = signals.Cycles(signals.Measured(quantity, sign=sign), there, back)
    times, done = signals.Part(cycles, "times"), count - 0.5
    left = signals.Below(times, done)
    draft.pay("again", 1.0, terms.When(left, terms.Done(cycles)), "once per repetition: back again")
    draft.pay("next", 2.0, terms.When(left, terms.Toward(cycles)), "on the way there, then back")
    seen = tracks.cycles(track(quantity, sign=sign), there, back)
    draft.counted(deed, tracks.last(seen), frame, tag=tag)
    do_not_thrash(scene, draft)
    draft.ends_when(signals.Above(times, done), seen > done)
    draft.seconds = max(4.0, 2.0 * count + 1.0)


def charge_change(scene: Scene, draft: Draft, weight: float) -> None:
    """Penalize changes of the action."""
    change = Cost(signals.SoFar("action_change", 1 + scene.spec.act_dim), most=4.0)
    draft.pay("smooth", weight, change, "change of the action, as a cost")


def do_not_thrash(scene: Scene, draft: Draft) -> None:
    """Constrain thrashing that could produce the behavior by chance."""
    if scene.has("action_change"):
        charge_change(scene, draft, 0.2)
        # The mean squared difference of uniform random actions in [-1, 1] is 2/3.
        value = tracks.mean("action_change")
        draft.require("does not thrash about", value, 0.66, 0.45, tag="jitters")


def change_slowly(scene: Scene, draft: Draft) -> None:
    """Reward and judge small action changes between steps."""
    if scene.has("action_change"):
        charge_change(scene, draft, 0.3)
        value = tracks.mean("action_change")
        draft.score("changes its actions smoothly", value, 0.6, 0.2, weight=0.5, tag="jitters")


def charge_effort(draft: Draft, weight: float = 0.1) -> None:
    """Add a small effort penalty for stable learning."""
    effort = Cost(signals.Measured("effort"))
    draft.pay("control", weight, effort, "cost of the mean squared action")


def save_effort(scene: Scene, draft: Draft, *, is_thrift: bool = False) -> None:
    """Constrain the actuator effort, to well below the usual effort if efficiency is requested."""
    charge_effort(draft, 0.4)
    value, plain = tracks.mean("effort"), scene.known.get("effort")
    title, zero, goal = "uses little effort", 0.9, 0.45
    if plain is not None and is_thrift:
        title = f"uses at most {_THRIFT:.0%} of the effort of a plain gait, {plain:g}"
        zero, goal = plain, _THRIFT * plain
    elif plain is not None:
        zero, goal = 2.0 * plain, plain
    elif is_thrift:
        draft.doubt("the effort of a plain gait is unknown, so a fixed bound is used")
    draft.score(title, value, zero, goal, weight=0.5, tag="jitters")


def allow_height(scene: Scene, draft: Draft, top: float) -> None:
    """Raise the environment's termination height so that the torso may reach `top` meters."""
    limits = scene.spec.arguments.get("healthy_z_range")
    if is_row(limits) and scene.ends_fallen and limits[1] < top:
        draft.env_args["healthy_z_range"] = [float(limits[0]), round(top, 2)]


# ---- limits


def respect(limit: Limit, scene: Scene, draft: Draft) -> None:
    """Reward and enforce a limit. Limits that the robot cannot violate add nothing."""
    match limit.kind:
        case "no_fall":
            stay_on_feet(scene, draft)
        case "upright" if scene.has("uprightness", "height"):
            stay_upright(scene, draft)
            value = tracks.share(track("uprightness") > scene.posture("upright")["low"])
            draft.require("does not lean", value, 0.3, 0.8, tag="falls")
        case "no_drift" | "no_forward" if scene.has("displacement"):
            _stay(limit, scene, draft)
        case "no_turn" if scene.has("heading_turns"):
            turning = Cost(signals.Size(signals.Measured("heading_rate")), most=3.0)
            draft.pay("ahead", 0.2, turning, "no turning")
            stated, value = _stated(limit, "rad"), tracks.farthest("heading_turns")
            turns = (stated or _TURN_RAD) / (2.0 * math.pi)
            title = (
                f"turns at most {math.degrees(stated):.3g} degrees" if stated else "does not turn"
            )
            draft.require(title, value, 4.0 * turns, turns, tag="drifts")
        case "no_jump" if scene.has("air_time"):
            draft.pay("grounded", 0.3, Pay(signals.Grounded()), "a foot on the ground")
            value = tracks.mean(metrics.flying(0.1, 0.05))
            draft.require("stays on the ground", value, 0.3, 0.05, tag="too_high")
        case "no_touch":
            _keep_off_ground(limit.bodies, limit.part or "body", scene, draft)
        case "no_slip" if scene.leg is not None:
            go_in_steps(None, scene, draft, weight=0.3)
        case "low_energy":
            save_effort(scene, draft, is_thrift=True)
        case "smooth" | "quiet":
            save_effort(scene, draft)
            change_slowly(scene, draft)
        case _:
            why = "this robot cannot violate it"
            draft.doubt(f'"{limit.words}" has no effect: {why}', holds=True)


def _stated(limit: Limit, unit: str) -> float | None:
    """Return the stated value of a limit if it has the given unit, else None."""
    amount = limit.amount
    return amount.value if amount and amount.unit == unit and amount.value > 0.0 else None


def _stay(limit: Limit, scene: Scene, draft: Draft) -> None:
    """Stay near the start, or only constrain motion along x if moving forward is prohibited."""
    most = _stated(limit, "m") or _DRIFT_M
    if limit.kind == "no_forward":
        title, value = f"stays within {most:g} m ahead", tracks.highest("displacement")
        backward = signals.Measured("forward_velocity", sign=-1)
        draft.pay("stay", 0.3, Pay(backward, -2.0, 0.0), "no forward motion")
    else:
        # Small weight: if the cost exceeded the alive reward, the robot would learn to fall.
        near = Stay(signals.Gone(scene.axes), most)
        draft.pay("stay", 0.2, near, "no motion away from the start")
        title, value = f"stays within {most:g} m", tracks.farthest("displacement")
        if scene.has("y_position"):
            value = tracks.highest(metrics.gone())
    draft.require(title, value, 3.0 * most, most, tag="drifts")


def _keep_off_ground(bodies: Sequence[str], name: str, scene: Scene, draft: Draft) -> None:
    """Keep bodies off the ground. Robots without the named bodies satisfy the limit trivially."""
    if not bodies or scene.spec.robot is None:
        draft.doubt(f"this robot has no {name} to keep off the ground", holds=True)
        return
    if set(scene.spec.feet) <= set(bodies):
        raise scene.cannot(f"keep its {name} off the ground", "it has no other foot to stand on")
    least = scene.spec.robot.contact_threshold
    touch = Cost(signals.Touching(tuple(bodies), least))
    draft.pay("handed", 0.5, touch, f"{name} on the ground, as a cost")
    value = tracks.mean(metrics.touching(tuple(bodies), least))
    draft.require(f"keeps its {name} off the ground", value, 0.4, 0.05, tag="falls")


def within(seen: Measure, low: float, high: float) -> Measure:
    """Return whether a measure is between bounds, of which one may be infinite."""
    if math.isinf(low):
        return seen < high
    return seen > low if math.isinf(high) else (seen > low) & (seen < high)


def hold_quantity(held: Held, scene: Scene, draft: Draft) -> None:
    """Reward and judge a quantity between its bounds."""
    scene.require(held.quantity, f"control its {held.name}")
    scale, unit = (math.degrees(1.0), "degrees") if held.unit == "rad" else (1.0, held.unit)
    low, high, width = held.low, held.high, NEAR[held.unit]
    is_most, is_open = math.isinf(low), math.isinf(low) or math.isinf(high)
    bound, middle = high if is_most else low, (low + high) / 2.0
    between = f"between {scale * low:.3g} and {scale * high:.3g} {unit}"
    if is_open:
        which = "within" if held.is_size else "below" if is_most else "above"
        between = f"{which} {scale * bound:.3g} {unit}" + held.is_size * " of 0"
    limbs = scene.spec.robot.limbs if scene.spec.robot else ()
    for limb in (each for each in limbs if each.range and each.name in held.of):
        ends = sorted(held.sign * (end - held.zero) for end in limb.range or ())
        if low > ends[1] or high < ends[0]:
            why = f"it reaches from {scale * ends[0]:.0f} to {scale * ends[1]:.0f} {unit}"
            raise scene.cannot(f"hold the {held.name} {between}", why)
    of, other = (*held.of, None, None)[:2]
    signal, seen = signals.Measured(held.quantity, of), track(held.quantity, *held.of[:1])
    if of is not None and other is not None:
        signal, seen = signals.Over(of, other), seen - track(held.quantity, other)
    if held.zero or held.sign < 0:
        signal, seen = signals.Less(signal, held.zero, held.sign), seen - held.zero
        seen = -seen if held.sign < 0 else seen
    if held.is_size:
        signal, seen = signals.Size(signal), abs(seen)
    if is_open:
        pays = terms.Sigmoid(signals.Less(signal, bound, -1 if is_most else 1), width)
    else:
        pays = terms.Peak(signal, middle, max(high - middle, width))
    number = sum(name.startswith("held") for name in draft.names) + 1
    draft.pay(f"held_{number}", 1.0, pays, f"{held.name} {between}")
    if held.is_peak:
        title, value = f"reaches a {held.name} {between}", tracks.highest(seen)
        zero = (1.2 if is_most else 0.8) * bound if is_open else 0.0
        goal, width = (bound, None) if is_open else (middle, high - middle)
        draft.score(title, value, zero, goal, within=width, weight=4.0)
        return
    title, value = f"keeps the {held.name} {between}", tracks.share(within(seen, low, high))
    if held.is_always:
        draft.require(f"always {title}", value, 0.8, 0.99, tag="drifts")
    else:
        draft.score(title, value, 0.2, 0.8, weight=4.0, tag="drifts")
