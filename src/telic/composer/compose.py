"""From an intent to everything a session needs: criteria, reward, judge and settings.

Each verb is a behaviour: terms that teach it, and leaves that recognise it. Terms are about 1 in
size when the behaviour is right, so that weights near 1 are sensible. Every behaviour brings guards
against its look-alikes (falling forward is not running) and says when it is done, for what comes
after it.

What is done together is a phase; phases follow one another. How a robot led by hand would do it
(`ideal`) is a motion of the torso only (`telic.judges.criteria.Motion`), so what is asked of limbs
or postures has no ideal here; neither has reaching for a target.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from pydantic import ValidationError

from telic.composer.acrobatics import flip, jump, roll, turn
from telic.composer.conflict import not_understood, require_consistent, require_possible
from telic.composer.draft import Draft, edit
from telic.composer.frames import Act, Direction, Frame, LimitKind, ParsedIntent
from telic.composer.gaits import gait_meant
from telic.composer.hops import beats, hop
from telic.composer.limbs import kick, lift, reach, swing
from telic.composer.manners import be_quiet, carry_oneself, respect
from telic.composer.obey import led_as_told, obey, require_alone
from telic.composer.observed import compose_observed, is_observed
from telic.composer.parse import parse
from telic.composer.phases import (
    arrange,
    come_home,
    comes_home,
    goes_low,
    limits_of,
    rest_at_home,
    way_back,
)
from telic.composer.postures import do_it, hold
from telic.composer.resting import balance, lie, sit, stand, stand_up
from telic.composer.scene import Scene
from telic.composer.scope import audit, lost_gaits, still_covered
from telic.composer.shapes import shaped
from telic.composer.sizes import jump_height
from telic.composer.travel import circle, go, speed_meant
from telic.composer.write import (
    ORDINALS,
    judge_file,
    put_in_order,
    reward_file,
    sequence_judge,
    sequence_reward,
)
from telic.envs.spec import EnvSpec
from telic.errors import BadEnvironment, Refused
from telic.judges.criteria import Composition, Criterion, Motion

_AT_REST = (Act.STAND, Act.STOP, Act.BALANCE)
_PHASE_S = 3.0
_TURN_RPS = 1.5
_HOPS_PER_S = 1.6
_STRIDE_HZ = 1.5
_CIRCLE_RPS = 0.8
BEHAVIOURS: dict[Act, Callable[[Frame, Scene, Draft], None]] = {
    Act.GO: go,
    Act.CIRCLE: circle,
    Act.JUMP: jump,
    Act.HOP: hop,
    Act.FLIP: flip,
    Act.ROLL: roll,
    Act.TURN: turn,
    Act.STAND: stand,
    Act.STOP: stand,
    Act.BALANCE: balance,
    Act.SIT: sit,
    Act.LIE: lie,
    Act.STAND_UP: stand_up,
    Act.REACH: reach,
    Act.SWING: swing,
    Act.LIFT: lift,
    Act.KICK: kick,
    Act.OBEY: obey,
}

_EXAMPLES = {
    Act.GO: "run forward fast",
    Act.STAND: "stand still",
    Act.JUMP: "jump as high as possible",
    Act.FLIP: "do a backflip",
    Act.BALANCE: "balance the pole",
    Act.REACH: "reach the target",
    Act.TURN: "turn 90 degrees left",
    Act.CIRCLE: "walk in a circle",
    Act.HOP: "hop in place",
    Act.ROLL: "roll over",
    Act.SIT: "crouch",
    Act.LIE: "lie down",
    Act.STAND_UP: "stand up",
    Act.SWING: "wave",
    Act.LIFT: "lift a foot",
    Act.KICK: "kick",
    Act.OBEY: "obey velocity commands",
}
_LONGEST_S = 40.0


def compose(intent: str, spec: EnvSpec, criteria: Sequence[Criterion] | None = None) -> Composition:
    """Write criteria, reward and judge for an intent on an environment.

    Args:
        intent: what the robot should do, in words.
        spec: the environment.
        criteria: as an earlier call gave them and a person changed them: their zero, goal and
            weight are the judge's, and those left out are not judged. Guards stay.

    Raises:
        Refused: nothing of the intent was understood, or it needs what is not composed yet.
        BadEnvironment: the robot cannot do it.
        Contradiction: two things that are asked for exclude one another.
    """
    if is_observed(intent, spec):
        return compose_observed(intent, spec, criteria)
    parsed = parse(intent, spec)
    require_possible(parsed, _scene(parsed, spec))
    return _scoped(parsed, _compose(parsed, spec), spec, criteria)


def reshaped(intent: str, spec: EnvSpec, shapes: Sequence[str]) -> str | None:
    """Return the reward of an intent with its terms changed by shapes (`telic.composer.shapes`).

    None: it has no other structure, being about what is observed.
    """
    if is_observed(intent, spec):
        return None
    return _compose(parse(intent, spec), spec, shapes=shapes).reward


def _compose(
    parsed: ParsedIntent,
    spec: EnvSpec,
    criteria: Sequence[Criterion] | None = None,
    shapes: Sequence[str] = (),
) -> Composition:
    """Compose what was read, whatever words of it carry nothing."""
    phases = arrange(parsed)
    scene = _scene(parsed, spec)
    _refuse(parsed, phases, scene)
    try:
        drafts = [_phase(phase, scene) for phase in phases]
        for phase, draft in zip(phases, drafts, strict=True):
            shaped(shapes, phase, scene, draft)
        always = drafts[0] if len(drafts) == 1 else Draft()
        for index, phase in enumerate(phases):
            if any(map(comes_home, phase)):
                come_home(scene, always, index)
        for limit in limits_of(parsed):
            respect(limit, scene, always)
        if scene.has("effort"):
            be_quiet(always)
        carry_oneself([frame for phase in phases for frame in phase], scene, always)
    except BadEnvironment as error:
        raise BadEnvironment(error.message, hint=_can(scene)) from None
    everything = drafts
    if len(drafts) > 1:
        put_in_order(drafts, always)
        everything = [*drafts, always]
    if criteria is not None:
        edit(everything, criteria)
        for draft in everything:
            require_consistent(draft)
    made = _composition(parsed, scene, drafts, always, everything)
    seconds = made.env_args["max_episode_steps"] * (spec.dt_s or 1.0)
    # Who is led by hand walks at full height, so nobody can show how to keep low.
    is_low = any(limit.kind is LimitKind.LOW_HEIGHT for limit in parsed.limits)
    return made.model_copy(
        update={
            "motions": () if is_low else ideal(phases, scene, seconds),
            "fine": right_habits(phases, scene),
        }
    )


def _scene(parsed: ParsedIntent, spec: EnvSpec) -> Scene:
    frames = [frame for phase in arrange(parsed) for frame in phase]
    return Scene.of(spec, may_fall=goes_low(frames, parsed.limits))


def _scoped(
    parsed: ParsedIntent,
    made: Composition,
    spec: EnvSpec,
    criteria: Sequence[Criterion] | None,
) -> Composition:
    """Say what of the words is judged; refuse what lost its verb."""
    build, scene = partial(_compose, spec=spec), _scene(parsed, spec)
    lost = [*parsed.lost, *lost_gaits(parsed, scene, made, build)]
    if lost:
        raise not_understood(parsed, lost, spec, able(scene))
    made = audit(parsed, scene, made, build)
    if criteria is None:
        return made
    return still_covered(made, _compose(parsed, spec, criteria))


def able(scene: Scene) -> list[str]:
    """Return an example of each thing this robot can be asked to do."""
    found: list[str] = []
    for verb, example in _EXAMPLES.items():
        if verb is Act.BALANCE and not scene.has("pole_angle"):
            continue  # without a pole it is standing
        try:
            BEHAVIOURS[verb](Frame(verb=verb, word=verb.value), scene, Draft())
        except BadEnvironment:
            continue
        found.append(example)
    return found


def _phase(frames: Sequence[Frame], scene: Scene) -> Draft:
    """Return the draft of what is done at the same time."""
    draft = Draft()
    going = [each for each in frames if each.verb is Act.GO]
    for frame in frames:
        draft.words.append(frame.word)
        if comes_home(frame):
            rest_at_home(frame, scene, draft)
        elif frame.verb is Act.GO:
            if frame is going[0]:
                go(frame, scene, draft, aside=going[1] if len(going) > 1 else None)
        else:
            BEHAVIOURS[frame.verb](frame, scene, draft)
        for posture in frame.postures:
            hold(posture, frame, scene, draft)
        for style in frame.styles:
            do_it(style, frame, scene, draft)
    return draft


def _composition(
    parsed: ParsedIntent, scene: Scene, drafts: list[Draft], always: Draft, everything: list[Draft]
) -> Composition:
    spec, intent = scene.spec, parsed.intent
    dt = spec.dt_s or 1.0
    seconds = min(sum(each.seconds for each in drafts), _LONGEST_S)
    env_args: dict[str, Any] = {}
    if "terminate_when_unhealthy" in spec.arguments:
        env_args["terminate_when_unhealthy"] = scene.ends_fallen
    settings: dict[str, Any] = {}
    doubts = [*parsed.corrected, *parsed.chosen]
    for draft in everything:
        env_args |= draft.env_args
        settings |= draft.settings
        doubts += [doubt for doubt in draft.doubts if doubt not in doubts]
    env_args["max_episode_steps"] = max(10, round(seconds / dt))
    if len(drafts) == 1:
        reward = reward_file(intent, spec.id, always)
        judge = judge_file(intent, spec.id, always)
    else:
        reward = sequence_reward(intent, spec.id, drafts, always, dt)
        judge = sequence_judge(intent, spec.id, drafts, always)
    return Composition(
        intent=intent,
        env=spec.id,
        criteria=tuple(part.criterion() for draft in everything for part in draft.parts),
        reward=reward,
        judge=judge,
        env_args=env_args,
        settings=settings,
        steps=int(scene.known["learns"] * sum(each.practice for each in drafts)),
        doubts=tuple(doubts),
        not_understood=parsed.unread,
    )


def _refuse(parsed: ParsedIntent, phases: Sequence[Sequence[Frame]], scene: Scene) -> None:
    if not phases:
        raise not_understood(parsed, (), scene.spec, able(scene))
    if len(phases) > len(ORDINALS):
        raise Refused(
            f"The composer cannot teach {len(phases)} movements one after another.",
            hint=f"Ask for at most {len(ORDINALS)} in a row.",
        )
    require_alone([frame for phase in phases for frame in phase])


def _can(scene: Scene) -> str:
    found = able(scene)
    return f"{scene.spec.id} can: {', '.join(found)}." if found else "Try another environment."


def ideal(phases: Sequence[Sequence[Frame]], scene: Scene, seconds: float) -> tuple[Motion, ...]:
    """Return the motions one after another; empty when a part of it is not one of the torso."""
    found: list[Motion] = []
    if phases[0][0].verb is Act.OBEY:
        return led_as_told(phases[0][0], scene, seconds)
    for index, frames in enumerate(phases):
        lasts = max(frame.duration_s or _PHASE_S for frame in frames)
        lasts = seconds if index == len(phases) - 1 else lasts
        if found and any(map(comes_home, frames)):
            found += way_back(found, lasts)
            continue
        values: dict[str, Any] = {"seconds": min(max(lasts, 0.1), 60.0)}
        for frame in frames:
            motion = None if frame.postures or frame.bodies else _motion(frame, scene, lasts)
            if motion is None or set(motion) & set(values):
                return ()
            values |= motion
        each = values.pop("seconds_each", None)
        if each is not None:
            values["seconds"] = each * values["jumps"]
        try:
            found.append(Motion.model_validate(values))
        except ValidationError:
            return ()  # more than a hand can lead it through: 12 m up
        if each is not None:
            found.append(Motion(seconds=1.0))  # stands after its last landing
    return tuple(found)


def right_habits(phases: Sequence[Sequence[Frame]], scene: Scene) -> tuple[str, ...]:
    """Return the bad habits that are just what is asked for."""
    verbs = {frame.verb for frames in phases for frame in frames}
    if verbs <= {Act.LIE}:
        return ("does nothing", "lies on its back", "topples over")
    if verbs <= {Act.STAND, Act.STOP, Act.SIT}:
        return ("does nothing", "pushes", "pulls")  # constant force holds a pose, too
    if verbs <= {Act.GO, Act.TURN} and scene.on_wheels:
        return ("pushes", "pulls")  # a wheel that is told one speed drives, and does it well
    return ("does nothing",) if verbs <= {*_AT_REST, Act.SIT} else ()


def _motion(frame: Frame, scene: Scene, seconds: float) -> dict[str, Any] | None:
    """Return what a frame adds to a motion; None if the torso alone does not show it."""
    if frame.verb in _AT_REST:
        return {}
    if frame.verb is Act.GO:
        return _going(frame, scene)
    if frame.verb is Act.CIRCLE:
        speed = speed_meant(frame, scene, Draft()).value
        return {
            "forward_mps": 1.05 * speed,
            "turn_rps": _side(frame) * _CIRCLE_RPS,
            "circle": True,
            "stride_hz": _STRIDE_HZ,
        }
    if frame.verb is Act.TURN and frame.amount is None and frame.count is None:
        return {"turn_rps": _side(frame) * _TURN_RPS, "stride_hz": _STRIDE_HZ}
    if frame.verb is Act.JUMP and frame.dimension != "distance" and frame.direction is None:
        height = 1.3 * jump_height(frame, scene).value + 0.1
        if frame.period_s is not None:
            count = beats(frame.period_s)
            return {"jumps": count, "height_m": height, "seconds_each": frame.period_s}
        return {"jumps": frame.count or 1, "height_m": height, "seconds_each": 1.5}
    if frame.verb is Act.FLIP:
        count = float(frame.count or 1)
        sign = 1.0 if frame.direction is Direction.FORWARD else -1.0
        return {
            "jumps": int(count),
            "height_m": 1.0,
            "pitch_turns": sign * count,
            "seconds_each": 2.0,
        }
    if frame.verb is Act.HOP:
        hops = max(1, math.floor(_HOPS_PER_S * seconds))
        going = {} if frame.direction in (None, Direction.IN_PLACE) else _going(frame, scene)
        height = jump_height(frame, scene).value if frame.dimension == "height" else 0.12
        return None if going is None else {**going, "jumps": hops, "height_m": max(0.12, height)}
    return None


def _going(frame: Frame, scene: Scene) -> dict[str, Any] | None:
    if frame.direction is Direction.IN_PLACE or (frame.amount and frame.amount.unit == "m"):
        return None
    goal = speed_meant(frame, scene, Draft())
    speed = goal.value * (1.0 if goal.is_exact else 1.1)
    gait = gait_meant(frame, scene)
    steps: dict[str, Any] = {"stride_hz": _STRIDE_HZ}
    if gait is not None:
        steps = {"stride_hz": gait.hertz, "feet": gait.landings, "duty": gait.duty}
    match frame.direction:
        case Direction.LEFT | Direction.SIDEWAYS:
            return {"left_mps": speed, **steps}
        case Direction.RIGHT:
            return {"left_mps": -speed, **steps}
        case Direction.BACKWARD:
            return {"forward_mps": -speed, **steps}
        case _:
            return {"forward_mps": speed, **steps}


def _side(frame: Frame) -> float:
    return -1.0 if frame.direction in (Direction.RIGHT, Direction.CLOCKWISE) else 1.0
