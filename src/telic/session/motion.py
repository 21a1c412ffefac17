"""Select the reference motion of a session, either generated or from a library.

    --motion none           no reference motion
    --motion walk           a motion family, generated for this robot at the requested speed
    --motion FOLDER         a library with a single clip
    --motion FOLDER/CLIP    a clip of a library

By default, a motion is generated only for behaviors that rewards alone rarely discover, such as a
waving hand of a position-controlled robot. The session reports the motion before training.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path

from telic.authors.request import SessionConfig
from telic.composer.compose import compose
from telic.composer.observed import is_observed
from telic.composer.reader import parse
from telic.composer.reference import Reference, RequestedMotion, motion_wanted
from telic.composer.scene import Scene
from telic.envs.catalogue import describe
from telic.envs.spec import EnvSpec
from telic.errors import Refused, TelicError, UnknownName, UsageError
from telic.judges.criteria import Composition, Criterion
from telic.motions.clip import MotionClip
from telic.motions.cycle import cycle_of
from telic.motions.families import families
from telic.motions.generate import family_names, make_clip, measures_of
from telic.motions.library import MotionLibrary
from telic.motions.robot import MotionRobot, motion_robot

NONE = "none"
_SECONDS = 4.5
_WAVES_HZ = 1.1
_WIDE = 0.3
"""lateral amplitude of a wave in arm lengths, which is larger than the sway of the body"""


def chosen(config: SessionConfig, spec: EnvSpec) -> Reference | None:
    """Return the reference motion of the session, or None to use only the intent.

    Raises TelicError if the requested motion does not exist or does not suit the intent.
    """
    intent, env, asked = config.intent, config.env, config.motion
    if asked == NONE or config.model is not None:
        return None
    if asked is None and "commands" not in spec.arguments:
        return None
    wish = _wish(intent, spec)
    if asked is None:
        return None if wish is None or wish.waves is None else _made(motion_robot(env), wish, None)
    if wish is None:
        raise Refused(
            f'No motion can be followed in "{intent}": only simultaneous actions, standing, '
            "walking forward and waving a hand are supported.",
            hint="Omit --motion, or simplify the intent.",
        )
    robot = motion_robot(env)
    place = Path(asked).expanduser()
    if os.sep in asked or os.path.isdir(place):
        return _found(robot, place, wish)
    return _made(robot, wish, asked)


def composed(config: SessionConfig, criteria: tuple[Criterion, ...] | None = None) -> Composition:
    """Return the composer's interpretation of a request and its motion, without writing files."""
    spec = describe(config.env)
    return compose(config.intent, spec, criteria or config.criteria, chosen(config, spec))


def _wish(intent: str, spec: EnvSpec) -> RequestedMotion | None:
    """Extract the requested motion, or None if none is requested or the intent cannot be parsed."""
    try:
        if is_observed(intent, spec):
            return None
        return motion_wanted(parse(intent, spec), Scene.of(spec))
    except TelicError:
        return None


# ---- generated motions


@functools.lru_cache(maxsize=8)
def _clip(robot: MotionRobot, family: str, *parameters: tuple[str, float]) -> MotionClip:
    """Generate a motion clip. The result is cached, because solving poses takes seconds."""
    return make_clip(robot, family, dict(parameters), name=family)


def _made(robot: MotionRobot, wish: RequestedMotion, family: str | None) -> Reference:
    name = family or ("walk_wave" if wish.forward_mps else "wave")
    able = family_names(robot)
    if name not in able:
        raise UnknownName(f"family of motions for {robot.name}", name, able)
    ranges = families()[name].ranges
    values = {each: (span.low + span.high) / 2.0 for each, span in ranges.items()}
    values["seconds"] = _SECONDS
    hertz = None
    if "speed" in ranges and wish.forward_mps:
        body = measures_of(robot)
        values["speed"] = wish.forward_mps / body.speed
        if wish.hertz:
            hertz = wish.hertz
            usual_s = 2.0 * body.rhythm_s * 0.72 * (1.25 - 0.2 * abs(values["speed"]))
            values["rhythm"] = 1.0 / (hertz * usual_s)
    if "left" in ranges:
        values["left"] = float(wish.waves == "left")
        values["wide"] = _WIDE
        # Gait and wave have the same frequency: one wave per stride.
        values["hertz"] = hertz or _WAVES_HZ
        hertz = values["hertz"]
    clip = _clip(robot, name, *values.items())
    parts = [f"generated for this robot, family {name}"]
    parts += [f"{wish.forward_mps:.2g} m/s"] if "speed" in ranges and wish.forward_mps else []
    parts += [f"with the {wish.waves} hand"] if wish.waves and "left" in ranges else []
    side = wish.waves if "left" in ranges else None
    return cycle_of(robot, clip, hertz=hertz, waves=side, source=", ".join(parts))


# ---- library motions


def _found(robot: MotionRobot, place: Path, wish: RequestedMotion) -> Reference:
    if (place / "library.json").is_file():
        library, name = MotionLibrary.open(place), None
    elif (place.parent / "library.json").is_file():
        library, name = MotionLibrary.open(place.parent), place.name
    else:
        raise UsageError(
            f"{place} is neither a motion library nor a clip in a library.",
            hint="Pass a family (telic motions families), a library folder, or FOLDER/CLIP.",
        )
    if library.head.joint_names != robot.joint_names:
        raise UsageError(
            f"The motions in {place} are for {library.head.robot}, a robot with different joints.",
            hint="Retarget them to this robot with: telic motions import",
        )
    if name is None and len(library.clips) > 1:
        names = ", ".join(line.name for line in library.clips[:8])
        raise UsageError(
            f"{place} has {len(library.clips)} motions.",
            hint=f"Choose one as FOLDER/CLIP, for example: {names}.",
        )
    clip = library.clip(name or library.clips[0].name)
    source = f"{clip.origin.source or clip.name}, license {clip.origin.license or 'unknown'}"
    return cycle_of(robot, clip, waves=wish.waves, source=f"of {place.name}: {source}")
