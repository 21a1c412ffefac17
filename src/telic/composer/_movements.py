"""Movements of the whole body in the air (jumps, hops, flips, rolls), and of limbs and the tip."""

import math
from dataclasses import replace

from telic.composer import _manners as manners
from telic.composer import _sizes as sizes
from telic.composer import _travel as travel
from telic.composer._draft import Draft
from telic.composer._gaits import land_together
from telic.composer._manners import do_not_chatter, do_not_thrash, repeat, stay_on_feet
from telic.composer._sizes import QUICK, Goal
from telic.composer.frames import Frame
from telic.composer.scene import Scene
from telic.judges import metrics, tracks
from telic.judges.tracks import track
from telic.rewards import signals, terms
from telic.rewards.signals import Above, Below, Measured, Not, Part
from telic.rewards.terms import Capped, Cost, Pay, Ratio, Small, SmallSquare, When

_FLIGHT_S, _RISE_M = 0.11, 0.05
"""minimum duration and rise of a flight, to exclude vibrating feet"""
_OF_JUMP, _MIN_HOP_M = 0.6, 0.08
"""height of a high hop as a fraction of a high jump, and minimum hop height in meters"""
_MAX_S, _BEATS = 30.0, 4
_FLIGHT, _LATE = 0.7, 0.25
"""maximum fraction of the time between jumps spent in the air, and tolerance of the jump time"""


def beats(period_s: float) -> int:
    """Return the number of repetitions that the judge requires."""
    return max(min(_BEATS, math.floor(_MAX_S / period_s - 0.5)), 1)


def jump(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Jump to a height above standing with the requested count, period or distance."""
    scene.require("height", "jump")
    is_far = frame.dimension == "distance" or frame.direction in travel.AHEAD
    goal, count, period = _jump_goal(frame, scene, draft)
    target, seen = goal.value, track("height") - scene.starts
    above = Measured("height", minus=scene.starts)
    jumps = signals.Cycles(above, 0.8 * target, 0.3 * target)
    times, counted = Part(jumps, "times"), tracks.cycles(seen, 0.8 * target, 0.3 * target)
    height = Ratio(above, target, low=0.0, most=None if goal.is_open else 2.0)
    height = Capped(above, target) if goal.is_exact else height
    rise, slow = Pay(Measured("vertical_velocity"), 0.0, 3.0), Small(Measured("speed"), 1.0)
    if period is not None:
        wait = signals.Waiting(jumps, period)
        due = Part(wait, "due")
        in_time = terms.InTime(wait, _LATE * period)
        draft.pay("land", 1.0, in_time, "once per jump, on a timely landing")
        if scene.has("speed"):
            draft.pay("rest", 0.5, When(Not(due), slow), "at rest between the jumps")
        height, rise = When(due, height), When(due, rise)
    elif count is not None:
        left = Below(times, count - 0.5)
        height, rise = When(left, height), When(left, rise)
        if scene.has("speed"):
            draft.pay("rest", 1.0, When(Not(left), slow), "at rest afterward")
        # The last landing ends the phase; it is already counted and rewarded like the others.
        draft.pay("land", 1.0, terms.Done(jumps, count), "once per jump: down again")
    draft.pay("height", 1.0, height, f"height above standing, as a fraction of {target:.2g} m")
    draft.pay("rise", 0.3, rise, "upward velocity")
    _judge_jump(frame, goal, period, scene, draft)
    done = (count or 1) - 0.5
    draft.ends_when(Above(times, done), counted > done)
    if is_far:
        _leap(frame, scene, draft)
    manners.allow_height(scene, draft, scene.stands + 2.0 * target + 0.5)
    # Keep the reward for standing low enough to make jumping worth the risk.
    manners.stay_on_feet(scene, draft, alive=manners.ALIVE if period is None else None)
    draft.seconds = 5.0 if count is None else max(3.0, 1.5 * count + 1.5)
    draft.seconds = draft.seconds if period is None else ((count or 0) + 0.5) * period


def _jump_goal(
    frame: Frame, scene: Scene, draft: Draft
) -> tuple[sizes.Goal, int | None, float | None]:
    """Return the goals for the height, the count and the period of jumps."""
    is_far = frame.dimension == "distance" or frame.direction in travel.AHEAD
    goal, count, period = sizes.jump_height(frame, scene), frame.count, frame.period_s
    if is_far or period is None:
        period = None
        if is_far and goal.source != "as given":  # a leap forward need not be as high
            goal = goal._replace(value=0.7 * goal.value)
    else:
        count = beats(period)
        if count < 2:
            why = f"an episode of at most {_MAX_S:g} s is shorter than two periods"
            raise scene.cannot(f"jump every {period:g} s", why, "air_time")
        most = scene.gravity * (0.5 * _FLIGHT * period) ** 2 / 2.0  # h = g (t / 2)^2 / 2
        if goal.source != "as given" and goal.value > most:
            goal = goal._replace(value=most, source=f"the highest possible every {period:g} s")
    if goal.source != "as given":
        draft.doubt(sizes.goal_note(f'"{frame.word}"', goal, "m above standing"))
    return goal, count, period


def _judge_jump(frame: Frame, goal: Goal, period: float | None, scene: Scene, draft: Draft) -> None:
    """Judge the height, the time in the air, and the count or regularity of jumps."""
    seen, target = track("height") - scene.starts, goal.value
    counted = tracks.cycles(seen, 0.8 * target, 0.3 * target)
    title, value = "rises %s above standing height", tracks.highest(seen)
    within, weight = 0.25 * target if goal.is_exact else None, 3.0 if period is None else 1.0
    zero, tag = 0.15 * target, "too_low"
    draft.score(title, value, zero, target, within=within, weight=weight, tag=tag, of=goal)
    if scene.has("air_time"):
        seconds = 0.15 if period is None else min(0.15, 0.5 * _FLIGHT * period)
        draft.score("is airborne for %s", tracks.highest("air_time"), 0.03, seconds, tag="too_low")
    if period is not None:
        value = metrics.on_time(counted, period, _LATE * period, beats(period) - 1)
        title = f"jumps every {period:g} s (± {_LATE * period:.2g} s)"
        draft.score(title, value, 0.2, 1.0, weight=4.0, tag="too_slow")
    elif frame.count is not None:
        draft.counted("jumps", tracks.last(counted), frame, tag="too_low")


def _leap(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Jump over a distance."""
    is_aside = frame.direction in ("left", "right")
    quantity = "lateral_velocity" if is_aside else "forward_velocity"
    scene.require(quantity, f"jump to the {frame.direction}" if is_aside else "jump forward")
    scene.require("air_time", "jump a distance")
    way = frame.direction or "forward"
    along = way if frame.direction in travel.AHEAD else "forward"
    goal = sizes.leap_length(frame, scene)
    target = goal.value
    if goal.source != "as given":
        draft.doubt(sizes.goal_note(f'"{frame.word}" {way}', goal, "m in the air"))
    speed, most = max(target / 0.4, 0.2), None if goal.is_open else 2.0
    fast = Ratio(signals.Along(along), speed, most=most)
    draft.pay("leap", 1.0, When(signals.Airborne(), fast), f"speed {way} in the air")
    leap = tracks.since(metrics.place(along), track("feet_in_contact") > 0.0)
    title, value = f"leaps %s {way}", tracks.highest(leap)
    low, high, tag = 0.1 * target, 0.9 * target, "too_slow"
    draft.score(title, value, low, high, weight=3.0, tag=tag, of=goal)
    manners.do_not_thrash(scene, draft)


def hop(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Take off and land repeatedly, either in place or while traveling."""
    scene.require("air_time", "hop")
    if frame.period_s is not None and frame.direction not in travel.AHEAD:
        jump(frame, scene, draft)  # "hop twice per second"
        return
    landings, flies = signals.Flights(_FLIGHT_S), metrics.flying(_FLIGHT_S, _RISE_M)
    hops = tracks.repeats(flies, track("air_time") <= 0.0)
    draft.pay("hop", 5.0, terms.Hop(landings), "flight time, paid at each landing")
    is_fast = frame.degree in ("fast", "very_fast", "most") or frame.given("m/s") is not None
    is_fast = is_fast and frame.direction != "in_place" and frame.dimension != "height"
    travels = is_fast or frame.direction in travel.AHEAD or frame.dimension == "distance"
    # Without a way to go, only the time in the air pays: standing still would earn the rest.
    rise = Pay(Measured("vertical_velocity"), 0.0, 2.0)
    draft.pay("rise", 0.3 if travels else 2.0, rise, "upward velocity")
    if not travels:
        draft.pay("air", 0.5, Pay(signals.Airborne(), 0.0, 1.0), "in the air")
    if not (frame.count and frame.within_s):
        title, value = "hops at least once per second", tracks.per_second(hops)
        draft.score(title, value, 0.15, 1.0, weight=3.0, tag="drags")
    draft.score("is airborne", tracks.share(track("air_time") > 0.0), 0.05, 0.2, tag="too_low")
    if frame.dimension == "height":
        goal = sizes.jump_height(frame, scene)
        if goal.source != "as given":
            part = f"{_OF_JUMP:.0%} of a jump: {goal.source}"
            least = _MIN_HOP_M if goal.is_exact else 0.0
            goal = goal._replace(value=max(_OF_JUMP * goal.value, least), source=part)
            draft.doubt(sizes.goal_note(f'"{frame.word}"', goal, "m above standing"))
        target, most = goal.value, None if goal.is_open else 1.5
        words = f"height above standing, as a fraction of {target:.2g} m"
        above = Measured("height", minus=scene.starts)
        draft.pay("height", 1.0, Ratio(above, target, low=0.0, most=most), words)
        value = tracks.highest((track("height") - scene.starts) * (track("air_time") > 0.0))
        zero, within = 0.15 * target, 0.5 * target if goal.is_exact else None
        title, tag = "hops %s high", "too_high" if goal.is_exact else "too_low"
        draft.score(title, value, zero, target, within=within, weight=3.0, tag=tag, of=goal)
    if frame.count:
        draft.counted("hops", tracks.last(hops), frame, 0.25 + 0.05 * frame.count, tag="drags")
        draft.seconds = max(2.0, float(frame.count))
    land_together(scene, draft)
    scene.require("forward_velocity", "hop")
    if (length := frame.way_m) is not None:
        travel.go(frame, scene, draft)
        under_way, way = 0.85 * length, travel.seen_from_start(frame, scene)
        draft.parts = [
            part.until(way, under_way) if part.title.startswith(("hops", "is airborne")) else part
            for part in draft.parts
        ]
        return
    if frame.direction == "in_place":
        near = SmallSquare(signals.Gone(scene.axes), 4.0)
        slow = Small(Measured("horizontal_speed"), 3.0)
        draft.pay("home", 1.5, When(signals.Airborne(), near), "near the start, in the air")
        draft.pay("stay", 0.5, When(signals.Airborne(), slow), "straight up, in the air")
        title, value = "stays within 0.5 m of the start", tracks.farthest("displacement")
        draft.score(title, value, 1.5, 0.5, tag="drifts")
    elif travels:
        name = frame.direction if frame.direction in travel.AHEAD else "forward"
        travel.require_way(name, "hop", scene)
        travel.be_fast(draft, name, travel.speed_meant(frame, scene, draft))
    highest = sizes.jump_height(Frame(verb=frame.verb, word=frame.word, degree="much"), scene)
    manners.allow_height(scene, draft, scene.stands + 2.0 * highest.value + 0.5)
    manners.stay_on_feet(scene, draft, alive=None if travels else manners.ALIVE)
    done = (frame.count or max(2, round(frame.duration_s or 2.0))) - 0.5
    draft.ends_when(Above(Part(landings, "times"), done), hops > done)


def turn_over(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Flip in the air, or roll on the ground or over the hands, and land on the feet."""
    is_flip, direction = frame.verb == "flip", frame.direction
    if is_flip:
        is_sideways = direction in ("sideways", "left", "right")
    else:
        is_straight = direction in ("forward", "backward")
        is_sideways = not is_straight and (direction is not None or scene.has("roll_turns"))
    if is_sideways:
        scene.require("roll_turns", "flip sideways" if is_flip else "roll sideways")
        quantity, which, sign = "roll_turns", "sideways", -1 if direction == "left" else 1
    else:
        scene.require("pitch_turns", "flip" if is_flip else "roll over")
        usual = "backward" if is_flip else "forward"
        is_forward = (direction or usual) == "forward"
        quantity, which = "pitch_turns", "forward" if is_forward else "backward"
        sign = 1 if is_forward else -1
    # Start exploration with large actions, since small ones cannot turn a robot over.
    draft.settings |= {"log_std": 0.0, "entropy_coef": 0.002}
    draft.practice = 3.5
    if not is_flip and frame.until_end and frame.count is None:
        _keep_rolling(draft, quantity, sign, which)
    else:
        _somersault(frame, scene, draft, quantity, sign, which)


def _keep_rolling(draft: Draft, quantity: str, sign: int, which: str) -> None:
    """Turn over continuously without a landing, at least twice in five seconds."""
    spin, seconds = Measured(quantity.replace("turns", "rate"), sign=sign), 5.0
    draft.pay("roll", 1.0, Ratio(spin, 4.0, most=1.5), f"rolling {which}")
    turns = track(quantity, sign=sign)
    value, fast = tracks.last(turns) * seconds, metrics.turning_rate(turns)
    title, value = f"rolls {which} at least twice", value / tracks.full_seconds()
    draft.score(title, value, 0.3, 2.0, weight=3.0, tag="under_rotates")
    value = tracks.share(fast > 0.8)
    draft.score("keeps rolling", value, 0.2, 0.6, weight=1.0, tag="stops")
    draft.ends_when(Above(spin, 0.8), fast > 0.8, seconds)
    draft.seconds = seconds
    manners.charge_effort(draft, 0.02)


def _somersault(
    frame: Frame, scene: Scene, draft: Draft, quantity: str, sign: int, which: str
) -> None:
    """Turn over `count` times and end standing."""
    is_flip, most_often, rule = frame.verb == "flip", frame.count or 1, frame.count_rule
    has_feet = scene.has("feet_in_contact")
    over = signals.Somersault(quantity, sign, most_often, has_feet=has_feet)
    # Spin is rewarded until the turn is complete, then penalized while rest is rewarded, which
    # yields one turn. Height and a ground-contact cost for the torso make it a flip, not a roll.
    draft.pay("turn", 1.0, terms.TurnProgress(over), f"new progress of the {which} turn")
    words = "rotating in the right direction before the turn is complete, calm after it"
    draft.pay("spin", 1.0, terms.TurnSpin(over), words)
    if is_flip and scene.has("height_above_start"):
        lift = Pay(Measured("height_above_start"), -0.3, 1.2)
        words = "height before the turn is complete"
        draft.pay("lift", 0.4, When(Not(Part(over, "done")), lift), words)
    if is_flip and scene.spec.torso and scene.has("contact_force"):
        drag = Cost(signals.Touching((scene.spec.torso,), 5.0))
        draft.pay("drag", 0.3, drag, "torso on the ground, as a cost")
    if not scene.lies_next:
        draft.pay("land", 1.0, terms.TurnLanding(over), "once: on its feet after the turn")
        draft.pay("rest", 1.5, terms.TurnRest(over), "upright and slow after the turn")
    manners.charge_effort(draft, 0.02)
    count = 1 if rule == "at_most" else most_often
    turns = track(quantity, sign=sign)
    is_over, most = turns > count - 0.15, tracks.highest(turns)
    stands = is_over & (track("uprightness") > 0.7)
    stands = stands & (track("feet_in_contact") > 0.0) if has_feet else stands
    least = "at least " if rule == "at_least" else ""
    title = f"turns {which} {least}{'once' if count == 1 else f'{count} times'}"
    draft.score(title, most, 0.2 * count, count - 0.15, weight=3.0, tag="under_rotates")
    if scene.lies_next:
        draft.ends_when(Above(Part(over, "done"), 0.0), is_over)
    else:
        title, value = "lands on its feet for %s", tracks.longest(stands)
        draft.score(title, value, 0.02, 0.25, weight=1.5, tag="no_landing")
        draft.ends_when(Above(Part(over, "landed"), 0.0), stands)
    if rule != "at_least":
        # A constraint, because continuous turning must not pass as a counted flip.
        zero, goal = most_often + 0.9, most_often + 0.4
        draft.require("does not over-rotate", most, zero, goal, tag="over_rotates")
    draft.seconds = 3.0 + 1.5 * (most_often - 1)


_RAISE_M, _WAVE_M, _KICK_MPS = 0.3, 0.15, 2.0
_AWAY_M, _REACH_S = 0.12, 3.0
"""minimum distance from an avoided target in m, and maximum episode length for reaching in s"""


def reach(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Bring the hand to the target and keep it there."""
    away = "distance_to_target"
    scene.require(away, "reach for a target")
    if frame.count:
        repeat("touches the target", (away, -1, -0.03, -0.08), frame, scene, draft, tag="too_far")
        return
    draft.pay("near", 1.0, terms.Near(Measured(away), 10.0), "close to the target")
    title, value = "gets within 0.03 m of the target", tracks.lowest(away)
    draft.score(title, value, 0.12, 0.03, weight=2.0, tag="too_far")
    value = tracks.share(track(away) < 0.04)
    draft.score("stays at the target", value, 0.1, 0.5, weight=1.0, tag="drifts")
    if frame.degree in QUICK:
        value = tracks.share_until(track(away) < 0.06)
        title = "gets there in the first 35% of the time"
        draft.score(title, value, 0.7, 0.35, weight=1.0, tag="too_slow")
    draft.ends_when(Below(Measured(away), 0.04), track(away) < 0.04)
    spec = scene.spec
    lasts = spec.max_episode_steps * spec.dt_s if spec.max_episode_steps and spec.dt_s else 1.0
    draft.seconds = min(max(lasts, 1.0), _REACH_S)


def keep_away(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Keep the hand away from the target."""
    away = "distance_to_target"
    scene.require(away, "keep away from a target")
    far = Ratio(Measured(away), _AWAY_M, low=0.0, most=1.0)
    draft.pay("away", 1.0, far, f"distance to the target, up to {_AWAY_M:g} m")
    title, held = f"keeps {_AWAY_M:g} m away from the target", track(away) > _AWAY_M
    draft.score(title, tracks.share(held), 0.3, 0.9, weight=3.0, tag="too_far")
    draft.ends_when(Above(Measured(away), _AWAY_M), held, 1.0)
    do_not_thrash(scene, draft)


def lift(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Hold a foot off the ground, or hold a hand up."""
    ends = _ends(frame, scene, "lift")
    if all(end in scene.spec.feet for end in ends):
        name, mine = frame.part or "foot", scene.foot_places(ends)
        others = tuple(foot for foot in range(len(scene.spec.feet)) if foot not in mine)
        if not others:
            raise scene.cannot(f"lift its {name}", "it has no other foot to stand on")
        off, held = signals.OnlyFeet(mine, others), metrics.on_feet(mine, others)
        draft.pay("off", 1.0, Pay(off), f"{name} off the ground, standing on the others")
        if not scene.is_going:
            draft.pay("still", 0.5, Small(Measured("speed"), 2.0), "staying in place")
        if up := frame.given("m"):
            lifted = Ratio(signals.FeetUp(mine), up, low=None, most=1.0)
            draft.pay("lifted", 0.5, lifted, f"{name} raised by {up:.2g} m")
            held = held & (metrics.foot_clearance(mine) > 0.8 * up)
        value = tracks.share(held)
        title = f"holds its {name} {up:.2g} m up" if up else f"holds its {name} up"
        draft.score(title, value, 0.3, 0.8, weight=4.0, tag="too_low")
        title, value = f"keeps its {name} up for %s", tracks.longest(held)
        draft.score(title, value, 0.3, frame.duration_s or 1.5, weight=2.0, tag="jitters")
        _stay(scene, draft)
        draft.ends_when(Above(off, 0.5), held, frame.duration_s or 0.5)
    else:
        name, torso, target = frame.part or "limb", scene.has("height"), frame.given("m")
        if not target or target > 2 * _RAISE_M:  # a hand raised "to 1.2 m"
            target = target or _RAISE_M
            draft.doubt(f'"{frame.word}" is interpreted as {target:g} m above its initial height')
        rise = signals.Rise(ends, from_torso=torso)
        seen = metrics.rise(ends, from_torso=torso)
        meaning = f"{name} above its initial height, as a fraction of {target:.2g} m"
        draft.pay("raise", 1.0, Ratio(rise, target, low=-0.5, most=1.0), meaning)
        title, value = f"raises its {name} %s", tracks.highest(seen)
        draft.score(title, value, 0.2 * target, 0.9 * target, weight=1.5, tag="too_low")
        value = tracks.share(seen > 0.7 * target)
        draft.score(f"keeps its {name} up", value, 0.2, 0.7, weight=3.0, tag="too_low")
        up = 0.8 * target
        draft.ends_when(Above(rise, up), seen > up, frame.duration_s or 0.3)
    _keep_control(frame, scene, draft)


def swing(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Swing up a pole, or wave a limb up and down."""
    if scene.has("pole_angle") and (frame.direction == "up" or frame.part is not None):
        _swing_up(scene, draft)
        return
    ends = _ends(frame, scene, "swing")
    name, reach_m, torso = frame.part or "limb", frame.given("m") or _WAVE_M, scene.has("height")
    if frame.word.startswith("sw"):
        draft.doubt(f'"{frame.word}" is judged as moving up and down, like a wave')
    rise = signals.Rise(ends, highest=True, from_torso=torso)
    waves = signals.Cycles(rise, reach_m, 0.3 * reach_m)
    draft.pay("wave", 1.0, terms.Done(waves), f"once per wave of the {name}")
    draft.pay("next", 0.5, terms.BackAndForth(waves, reach_m), "on the way up, then down")
    seen = metrics.rise(ends, highest=True, from_torso=torso)
    times = tracks.cycles(seen, reach_m, 0.3 * reach_m)
    if frame.count:
        draft.counted(f"waves its {name}", tracks.last(times), frame, tag="too_low")
    else:
        title, value = f"waves its {name} at least 0.7 times per second", tracks.per_second(times)
        draft.score(title, value, 0.1, 0.7, weight=3.0, tag="too_low")
    _stay(scene, draft)
    _keep_control(frame, scene, draft)
    done = (frame.count or 2) - 0.5
    draft.ends_when(Above(Part(waves, "times"), done), times > done)


def _swing_up(scene: Scene, draft: Draft) -> None:
    """Bring poles from hanging to upright."""
    angle, seen = signals.PoleAngle(), metrics.pole_angle()
    draft.pay("raise", 1.0, terms.Cosine(angle), "height of the pole tips")
    value = tracks.share(seen < 0.3)
    draft.score("keeps the pole up", value, 0.15, 0.5, weight=3.0, tag="too_low")
    title, value = "the pole is up in the last second", tracks.mean_of_last(seen, 1.0)
    draft.score(title, value, 1.0, 0.3, weight=2.0, tag="falls")
    if scene.on_rail:
        draft.doubt("episodes start with the pole upright, so it must be swung up after a fall")
    draft.ends_when(Below(angle, 0.3), seen < 0.3)


def kick(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Swing a foot forward while standing on another foot or lying down."""
    scene.require("forward_velocity", "kick")
    foot = _ends(frame, scene, "kick with")[0]
    if foot not in scene.spec.feet:
        raise scene.cannot(f"kick with its {frame.part}", "that is not a foot")
    mine = scene.foot_places((foot,))[0]
    others = tuple(index for index in range(len(scene.spec.feet)) if index != mine)
    if not others:
        raise scene.cannot("kick", "it has no other foot to stand on")
    others = () if "lying" in frame.postures else others
    sign = -1 if frame.direction == "backward" else 1
    speed = _KICK_MPS * (0.5 if frame.degree in ("slow", "little") else 1.0)
    fast = signals.KickSpeed(foot, mine, others, sign)
    ahead = tracks.column(track("body_position", foot), 0) - track("x_position")
    swing = tracks.rate_of(ahead if sign > 0 else -ahead)
    free = metrics.on_feet((mine,), others) if others else metrics.contact((mine,)) <= 0.0
    words = "speed of the free foot relative to the torso"
    seen = replace(swing * free, words=words, unit="m/s")
    draft.pay("kick", 2.0, Ratio(fast, speed, low=0.0, most=1.5), words)
    title, value = f"swings its {frame.part or 'foot'} at %s", tracks.highest(seen)
    draft.score(title, value, 0.2 * speed, speed, weight=3.0, tag="too_slow")
    wanted = frame.count or 1
    title = f"kicks {wanted} times" if frame.count else "kicks and takes the foot back"
    value = tracks.last(tracks.repeats(free & (swing > 0.6 * speed), swing < 0.0))
    draft.score(title, value, 0.0, float(wanted), weight=1.5, tag="too_slow")
    _keep_control(frame, scene, draft)
    draft.ends_when(Above(fast, 0.6 * speed), seen > 0.6 * speed)
    draft.seconds = max(3.0, 1.5 * wanted + 1.5)


def _stay(scene: Scene, draft: Draft) -> None:
    """Judge that the robot stays in place, unless it also travels or cannot move away."""
    if not scene.is_going and scene.has("speed"):
        value = tracks.share(track("speed") < 0.5)
        draft.score("stays where it is", value, 0.3, 0.8, weight=1.0, tag="drifts")


def _keep_control(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Penalize thrashing and, unless the robot should lie down, falling."""
    do_not_thrash(scene, draft)
    if "lying" in frame.postures:
        do_not_chatter(draft)
    else:
        stay_on_feet(scene, draft)


def _ends(frame: Frame, scene: Scene, what: str) -> tuple[str, ...]:
    """Return the outermost bodies (feet or hands) of the named part."""
    spec = scene.spec
    if spec.robot is None or not spec.body_names:
        raise scene.cannot(f"{what} anything", "it has no body parts", "body_position")
    scene.require("body_height", f"{what} a limb")
    is_flat = "target_y" in spec.joint_names and "target_z" not in spec.joint_names
    if is_flat and not scene.has("height"):
        raise scene.cannot(f"{what} anything", "its arm moves in a plane", "body_position")
    if frame.part and not frame.bodies:
        names = ", ".join(name for name in spec.body_names if name != "world")
        why = f"its bodies are {names}"
        raise scene.cannot(f"{what} its {frame.part}", why, "body_position")
    if not frame.bodies:  # default: a hand to wave, a foot to kick
        hands = [name for name in spec.body_names if "lower_arm" in name or "hand" in name]
        if what == "swing" and hands:
            return (hands[0],)
        feet = scene.feet("front") or scene.feet("right") or spec.feet
        if not feet and "fingertip" in spec.body_names:
            return ("fingertip",)
        if not feet:
            raise scene.cannot(f"{what} a limb", "it has neither feet nor hands")
        return feet[:1]
    if spec.torso in frame.bodies:
        why = "all other bodies are attached to it"
        raise scene.cannot(f"{what} its {frame.part}", why, "body_position")
    if feet := tuple(body for body in frame.bodies if body in spec.feet):
        # "a foot" may be any: of equally named feet, one is chosen
        is_any = frame.part in ("foot", "leg") or str(frame.part).startswith("one ")
        return feet[:1] if is_any else feet
    sides = [[body for body in frame.bodies if side in body] for side in ("left", "right")]
    return tuple(side[-1] for side in sides if side) or frame.bodies[-1:]
