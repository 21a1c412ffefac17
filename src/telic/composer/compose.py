"""From an intent to everything a session needs: criteria, reward, judge and settings."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from telic.composer.behaviours import BEHAVIOURS
from telic.composer.draft import Draft
from telic.composer.frames import Frame, Limit, LimitKind, Parsed, Style, Verb
from telic.composer.manners import be_quiet, rest_height, stay_on_feet, stay_straight
from telic.composer.parse import parse
from telic.composer.scene import Scene
from telic.composer.write import judge_file, reward_file
from telic.core.config import Record
from telic.envs.spec import EnvSpec
from telic.errors import Refused


class Criterion(Record):
    """One measurable part of what was asked for."""

    title: str
    how: str
    """how it is measured and from where to where credit goes, as the judge's code says it"""


class Composition(Record):
    """What the composer made of an intent."""

    intent: str
    env: str
    criteria: tuple[Criterion, ...]
    reward: str
    judge: str
    env_args: dict[str, Any]
    settings: dict[str, Any] = Field(default={}, description="changes of the trainer's settings")
    steps: int
    doubts: tuple[str, ...]
    not_understood: tuple[str, ...]


def compose(intent: str, spec: EnvSpec) -> Composition:
    """Write criteria, reward and judge for an intent on an environment.

    Raises:
        Refused: nothing of the intent was understood, or it needs what is not composed yet.
        BadEnvironment: the robot cannot do it.
    """
    parsed, scene, draft = _absorb(parse(intent, spec)), Scene.of(spec), Draft()
    _refuse(parsed, scene)
    for frame in parsed.frames:
        BEHAVIOURS[frame.verb](frame, scene, draft)
    for limit in parsed.limits:
        _respect(limit, scene, draft)
    for frame in parsed.frames:
        if Style.SMOOTH in frame.styles or Style.EFFICIENT in frame.styles:
            _quieter(draft)
    be_quiet(draft)
    dt = spec.dt_s or 1.0
    env_args = {**draft.env_args, "max_episode_steps": max(10, round(draft.seconds / dt))}
    return Composition(
        intent=intent,
        env=spec.id,
        criteria=tuple(Criterion(title=each.title, how=each.code) for each in draft.parts),
        reward=reward_file(intent, spec.id, draft),
        judge=judge_file(intent, spec.id, draft),
        env_args=env_args,
        settings=draft.settings,
        steps=int(scene.known["learns"]),
        doubts=tuple(draft.doubts),
        not_understood=parsed.not_understood,
    )


def _absorb(parsed: Parsed) -> Parsed:
    """Leave out what a behaviour does anyway: a flip lands on its feet, a reaching hand stays."""
    kept: list[Frame] = []
    for frame in parsed.frames:
        is_rest = frame.verb in (Verb.STAND, Verb.STOP)
        if is_rest and any(each.verb in (Verb.FLIP, Verb.REACH) for each in kept):
            continue
        kept.append(frame)
    return parsed.model_copy(update={"frames": tuple(kept)})


def _refuse(parsed: Parsed, scene: Scene) -> None:
    if not parsed.frames:
        raise Refused(
            f'Nothing in "{parsed.intent}" is a movement the composer knows.',
            hint="Try: run forward fast, jump as high as possible, do a backflip, stand still.",
        )
    unknown = [each.word for each in parsed.frames if each.verb not in BEHAVIOURS]
    if unknown:
        raise Refused(
            f'The composer understands "{", ".join(unknown)}" but cannot teach it yet.',
            hint=f"It can: {', '.join(sorted(verb.value for verb in BEHAVIOURS))}.",
        )
    if any(each.phase > 0 for each in parsed.frames):
        raise Refused(
            "The composer cannot teach one movement after another yet.",
            hint="Ask for the parts one by one.",
        )


def _respect(limit: Limit, scene: Scene, draft: Draft) -> None:
    match limit.kind:
        case LimitKind.NO_FALL | LimitKind.UPRIGHT:
            stay_on_feet(scene, draft)
        case LimitKind.NO_DRIFT | LimitKind.NO_TURN:
            stay_straight(scene, draft, "forward_velocity")
        case LimitKind.KEEP_HEIGHT:
            rest_height(scene, draft)
        case LimitKind.LOW_ENERGY | LimitKind.SMOOTH | LimitKind.QUIET:
            _quieter(draft)
        case _:
            draft.doubts.append(f'"{limit.words}" is not watched over yet')


def _quieter(draft: Draft) -> None:
    draft.need("effort = action.square().mean(-1)")
    draft.add("control", "-effort", 0.4, "mean squared action, as a cost", r"-\overline{a^2}")
    draft.measure('effort = (episode["action"] ** 2).mean(-1)')
    code = "leaf(float(np.mean(effort)), zero=0.9, goal=0.45, weight=0.5, "
    draft.judge("is gentle on its motors", code + 'tag="jitters")')
