"""From an intent to everything a session needs: criteria, reward, judge and settings.

Each verb is a behaviour: terms that teach it, and leaves that recognise it. Terms are about 1 in
size when the behaviour is right, so that weights near 1 are sensible. Every behaviour brings guards
against its look-alikes (falling forward is not running) and says when it is done, for what comes
after it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from telic.composer.draft import Draft, JudgePart, edit
from telic.composer.frames import Act, Frame, Limit, ParsedIntent
from telic.composer.jumps import hop, jump
from telic.composer.limbs import kick, lift, reach, swing
from telic.composer.manners import be_quiet, respect
from telic.composer.parse import parse
from telic.composer.phases import arrange, goes_low, ideal, right_habits
from telic.composer.postures import do_it, hold
from telic.composer.scene import Scene
from telic.composer.stances import balance, lie, sit, stand, stand_up
from telic.composer.travel import circle, go
from telic.composer.turns import flip, roll, turn
from telic.composer.write import ORDINALS, judge_file, reward_file, sequence_judge, sequence_reward
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
    """
    parsed = parse(intent, spec)
    phases = arrange(parsed)
    frames = [frame for phase in phases for frame in phase]
    scene = Scene.of(spec, may_fall=goes_low(frames, parsed.limits))
    _refuse(parsed, phases, scene)
    try:
        drafts = [_phase(phase, scene) for phase in phases]
        always = drafts[0] if len(drafts) == 1 else Draft()
        _throughout(parsed.limits, scene, always)
    except BadEnvironment as error:
        raise BadEnvironment(error.message, hint=_can(scene)) from None
    if len(drafts) == 1:
        everything = drafts
    else:
        _leave_out_repeated(drafts, always)
        _put_in_order(drafts)
        everything = [*drafts, always]
    if criteria is not None:
        edit(everything, criteria)
    made = _composition(parsed, scene, drafts, always, everything)
    seconds = made.env_args["max_episode_steps"] * (spec.dt_s or 1.0)
    return made.model_copy(
        update={"motions": ideal(phases, scene, seconds), "fine": right_habits(phases)}
    )


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
        if frame.verb is Act.GO:
            if frame is going[0]:
                go(frame, scene, draft, aside=going[1] if len(going) > 1 else None)
        else:
            BEHAVIOURS[frame.verb](frame, scene, draft)
        for posture in frame.postures:
            hold(posture, frame, scene, draft)
        for style in frame.styles:
            do_it(style, frame, scene, draft)
    return draft


def _throughout(limits: Sequence[Limit], scene: Scene, draft: Draft) -> None:
    for limit in limits:
        respect(limit, scene, draft)
    be_quiet(draft)


def _leave_out_repeated(drafts: Sequence[Draft], always: Draft) -> None:
    """Judge throughout only what the phases do not all judge by themselves."""
    own = [{part.title for part in draft.parts} for draft in drafts]
    always.parts = [
        part for part in always.parts if not all(part.title in titles for titles in own)
    ]


def _put_in_order(drafts: Sequence[Draft]) -> None:
    """Name the parts by their phase, and add a gate from each phase to the next."""
    for index, draft in enumerate(drafts):
        name = ORDINALS[index]
        main = max(draft.parts, key=lambda part: part.weight)
        draft.parts = [replace(part, title=f"{name}: {part.title}") for part in draft.parts]
        if index == len(drafts) - 1:
            break
        needed = round(0.4 * sum(each.seconds for each in drafts[index + 1 :]), 2)
        gate = JudgePart(
            f"{name}: is done with {needed:g} s left",
            "time left for what comes next",
            "part.left(done)",
            zero=0.0,
            goal=needed,
            unit="s",
            weight=main.weight,
            tag=main.tag,
            kind="phased",
            is_gate=True,
        )
        draft.parts.append(gate)
    _weigh_alike(drafts)


def _weigh_alike(drafts: Sequence[Draft]) -> None:
    """Let every phase count the same: the last one has no gate, and must not matter less."""
    weights = [sum(part.weight for part in draft.parts) for draft in drafts]
    for draft, weight in zip(drafts, weights, strict=True):
        scale = max(weights) / weight
        draft.parts = [replace(part, weight=round(scale * part.weight, 2)) for part in draft.parts]


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
    doubts: list[str] = []
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
        not_understood=parsed.not_understood,
    )


def _refuse(parsed: ParsedIntent, phases: Sequence[Sequence[Frame]], scene: Scene) -> None:
    if not phases:
        raise Refused(
            f'Nothing in "{parsed.intent}" is a movement the composer knows.', hint=_can(scene)
        )
    if len(phases) > len(ORDINALS):
        raise Refused(
            f"The composer cannot teach {len(phases)} movements one after another.",
            hint=f"Ask for at most {len(ORDINALS)} in a row.",
        )


def _can(scene: Scene) -> str:
    found = able(scene)
    return f"{scene.spec.id} can: {', '.join(found)}." if found else "Try another environment."
