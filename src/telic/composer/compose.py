"""From an intent to everything a session needs: criteria, reward, judge and settings.

Each verb is a behaviour: terms that teach it, and leaves that recognise it. Terms are about 1 in
size when the behaviour is right, so that weights near 1 are sensible. Every behaviour brings guards
against its look-alikes (falling forward is not running) and says when it is done, for what comes
after it.

What is done together is a phase; phases follow one another. How a robot led by hand would do it is
in `telic.composer.ideal`, or a motion to follow (`telic.composer.reference`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from telic.composer.acrobatics import flip, hop, jump, roll, turn
from telic.composer.blocks import EXAMPLES, can_have_block
from telic.composer.conflict import not_understood, require_consistent, require_possible
from telic.composer.draft import Draft, edit
from telic.composer.frames import Act, Frame, LimitKind, ParsedIntent
from telic.composer.ideal import ideal, right_habits
from telic.composer.limbs import kick, lift, reach, swing
from telic.composer.manners import be_quiet, carry_oneself, respect
from telic.composer.obey import obey, require_alone
from telic.composer.observed import compose_observed, is_observed
from telic.composer.parse import parse
from telic.composer.phases import (
    arrange,
    come_home,
    comes_home,
    goes_low,
    limits_of,
    rest_at_home,
    travels,
)
from telic.composer.postures import do_it, hold
from telic.composer.reference import Reference, follow, is_shown, shown_motions, wave_as_shown
from telic.composer.resting import balance, lie, rest_in_time, sit, stand, stand_up
from telic.composer.scene import Scene
from telic.composer.scope import audit, lost_gaits, still_covered
from telic.composer.shapes import shaped
from telic.composer.sizes import LONGEST_S, require_sizes
from telic.composer.travel import circle, go
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
from telic.judges.criteria import Composition, Criterion

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


def compose(
    intent: str,
    spec: EnvSpec,
    criteria: Sequence[Criterion] | None = None,
    reference: Reference | None = None,
) -> Composition:
    """Write criteria, reward and judge for an intent on an environment.

    Args:
        intent: what the robot should do, in words.
        spec: the environment.
        criteria: as an earlier call gave them and a person changed them: their zero, goal and
            weight are the judge's, and those left out are not judged. Guards stay.
        reference: a motion to follow.

    Raises:
        Refused: nothing of the intent was understood, or it needs what is not composed yet.
        BadEnvironment: the robot cannot do it.
        Contradiction: two things that are asked for exclude one another.
    """
    if is_observed(intent, spec):
        return compose_observed(intent, spec, criteria)
    parsed = parse(intent, spec)
    scene = _scene(parsed, spec)
    if not arrange(parsed):
        raise not_understood(parsed, (), spec, able(scene))
    try:
        require_possible(parsed, scene)
        return _scoped(parsed, partial(_compose, spec=spec, reference=reference), spec, criteria)
    except BadEnvironment as error:
        raise BadEnvironment(error.message, hint=error.hint or _can(scene)) from None


def reshaped(
    intent: str, spec: EnvSpec, shapes: Sequence[str], reference: Reference | None = None
) -> str | None:
    """Return the reward of an intent with its terms changed by shapes (`telic.composer.shapes`).

    None: it has no other structure, being about what is observed.
    """
    if is_observed(intent, spec):
        return None
    return _compose(parse(intent, spec), spec, shapes=shapes, reference=reference).reward


def _compose(
    parsed: ParsedIntent,
    spec: EnvSpec,
    criteria: Sequence[Criterion] | None = None,
    shapes: Sequence[str] = (),
    reference: Reference | None = None,
) -> Composition:
    """Compose what was read, whatever words of it carry nothing."""
    phases = arrange(parsed)
    scene = _scene(parsed, spec)._replace(reference=reference)
    if not 0 < len(phases) <= len(ORDINALS):
        raise Refused(
            f"The composer cannot teach {len(phases)} movements one after another.",
            hint=f"Ask for at most {len(ORDINALS)} in a row.",
        )
    frames = [frame for phase in phases for frame in phase]
    require_alone(frames)
    require_sizes(frames, scene)
    drafts = _drafts(phases, scene, shapes)
    always = drafts[0] if len(drafts) == 1 else Draft()
    for index, phase in enumerate(phases):
        if any(map(comes_home, phase)):
            come_home(scene, always, index)
    for limit in limits_of(parsed):
        respect(limit, scene, always)
    if scene.has("effort"):
        be_quiet(always)
    if reference is None:
        carry_oneself(frames, scene, always)
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
    if reference is not None:
        shown = shown_motions(reference, seconds)
        return made.model_copy(update={"shown": shown, "fine": right_habits(phases, scene)})
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
    build: Callable[..., Composition],
    spec: EnvSpec,
    criteria: Sequence[Criterion] | None,
) -> Composition:
    """Compose, say what of the words is judged; refuse what lost its verb."""
    made, scene = build(parsed), _scene(parsed, spec)
    lost = [*parsed.lost, *lost_gaits(parsed, scene, made, build)]
    if lost:
        raise not_understood(parsed, lost, spec, able(scene))
    made = audit(parsed, scene, made, build)
    if criteria is None:
        return made
    return still_covered(made, build(parsed, criteria=criteria))


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
    return [*found, *(EXAMPLES if can_have_block(scene.spec) else ())]


def _drafts(phases: Sequence[list[Frame]], scene: Scene, shapes: Sequence[str]) -> list[Draft]:
    """Return a draft for each phase."""
    drafts = [_phase(phase, scene) for phase in phases]
    for before, now, draft in zip(phases, phases[1:], drafts[1:], strict=False):
        rest_in_time(before, now, draft)
    for phase, draft in zip(phases, drafts, strict=True):
        shaped(shapes, phase, scene, draft)
    return drafts


def _phase(frames: Sequence[Frame], scene: Scene) -> Draft:
    """Return the draft of what is done at the same time."""
    draft = Draft()
    going = [each for each in frames if each.verb is Act.GO]
    scene = scene._replace(is_going=any(map(travels, frames)))
    for frame in frames:
        draft.words.append(frame.word)
        if comes_home(frame):
            rest_at_home(frame, scene, draft)
        elif frame.verb is Act.GO:
            if frame is going[0]:
                go(frame, scene, draft, aside=going[1] if len(going) > 1 else None)
        elif is_shown(frame, scene):
            wave_as_shown(frame, scene, draft)
        else:
            BEHAVIOURS[frame.verb](frame, scene, draft)
        for posture in frame.postures:
            hold(posture, frame, scene, draft)
        for style in frame.styles:
            do_it(style, frame, scene, draft)
    if scene.reference is not None:
        follow(scene.reference, draft)
    return draft


def _composition(
    parsed: ParsedIntent, scene: Scene, drafts: list[Draft], always: Draft, everything: list[Draft]
) -> Composition:
    spec, intent = scene.spec, parsed.intent
    dt = spec.dt_s or 1.0
    seconds = min(sum(each.seconds for each in drafts), LONGEST_S)
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
        reward = sequence_reward(intent, spec.id, drafts, always)
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


def _can(scene: Scene) -> str:
    found = able(scene)
    return f"{scene.spec.id} can: {', '.join(found)}." if found else "Try another environment."
