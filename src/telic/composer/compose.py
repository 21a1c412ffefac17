"""Compose criteria, reward, judge and settings from an intent.

Each verb maps to a behavior with reward terms and criteria. Terms are about 1 in size if the
behavior is correct, so weights near 1 are sensible. Every behavior adds constraints against
look-alikes (falling forward is not running) and defines a condition for completion. Simultaneous
frames form a phase, and phases are executed in sequence.
"""

import operator
import re
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import partial, reduce
from typing import Any

from telic.composer import _manners as manners
from telic.composer import _postures as postures
from telic.composer import _travel as travel
from telic.composer._conflict import (
    not_understood,
    require_consistent,
    require_possible,
    what_instead,
)
from telic.composer._draft import MAX_PHASES, Draft, composition, edit, put_in_order
from telic.composer._grammar import side_clauses
from telic.composer._movements import hop, jump, keep_away, kick, lift, reach, swing, turn_over
from telic.composer._phases import arrange, comes_home, goes_low, travels
from telic.composer._scope import Build, audit_words, follow_edits, still_covered
from telic.composer._sizes import MAX_S, require_sizes
from telic.composer.frames import Act, Frame, ParsedIntent
from telic.composer.lexicon import read_tokens, word_table
from telic.composer.observed import EXAMPLES, compose_observed, is_observed
from telic.composer.reader import parse
from telic.composer.reference import (
    Reference,
    demonstrated,
    follow_motion,
    is_shown,
    right_failure_modes,
    shown_motions,
    wave_as_shown,
)
from telic.composer.scene import Scene, can_have_block
from telic.envs.spec import EnvSpec
from telic.errors import BadEnvironment, BeyondLimits, Contradiction, Refused, UsageError
from telic.judges import metrics, tracks
from telic.judges.criteria import Composition, Criterion
from telic.rewards.signals import Gone, Measured
from telic.rewards.terms import Home, Small

_NOT_DENIED = r"(?<!not )(?<!n't )(?<!never )(?<!without )"
_NAMED = (jump, hop, reach, swing, lift, kick, travel.go, travel.turn, travel.circle)
_POSES = (postures.stand, postures.balance, postures.sit, postures.lie, postures.stand_up)
BEHAVIORS: dict[Act, Callable[[Frame, Scene, Draft], None]] = {
    **{behavior.__name__: behavior for behavior in (*_NAMED, *_POSES, postures.lean)},
    "flip": turn_over,
    "roll": turn_over,
    "stop": postures.stand,
    "obey": travel.track_commands,
    "avoid": keep_away,
}
"""behavior of each verb"""


def compose(
    intent: str,
    spec: EnvSpec,
    criteria: Sequence[Criterion] | None = None,
    reference: Reference | None = None,
    *,
    may_omit: bool = True,
    is_plain: bool = False,
) -> Composition:
    """Compose criteria, reward and judge for an intent in an environment.

    If the intent is refused and `may_omit`, side clauses are omitted. `criteria` may be criteria of
    an earlier call that the user edited. Titles, constraints and reward follow edited goals
    (`telic.composer._scope`), and removed criteria are not judged. `is_plain` keeps the notation.

    Raises:
        Refused: the intent was not understood or requires an unsupported behavior.
        BadEnvironment: the robot is not capable of the behavior.
        Contradiction: two parts of the intent or two criteria are mutually exclusive.
    """
    meant = intent
    for phrase, plain in word_table("requests")["notation"].items() if not is_plain else ():
        meant = re.sub(phrase, plain, meant, flags=re.IGNORECASE).strip() or intent
    if meant != intent:
        made = compose(meant, spec, criteria, reference, may_omit=may_omit, is_plain=True)
        doubts = (f'it is interpreted as "{meant}"', *made.doubts)
        return made.model_copy(update={"intent": intent, "doubts": doubts})
    if is_observed(intent, spec):
        return compose_observed(intent, spec, criteria)
    try:
        return _composed(intent, spec, criteria, reference, may_omit=False)
    except UsageError:
        if not may_omit:
            raise
        return _composed(intent, spec, criteria, reference, may_omit=True)


def _composed(
    intent: str,
    spec: EnvSpec,
    criteria: Sequence[Criterion] | None,
    reference: Reference | None,
    may_omit: bool,
) -> Composition:
    """Compose an intent with everyday requests replaced by known actions."""
    requests = word_table("requests")
    known = requests["known"] | requests["feet"].get(str(min(len(spec.feet), 4)), {})
    for phrase, deeds in (known | requests["rough"]).items():
        pattern = re.compile(rf"{_NOT_DENIED}\b({phrase})(?!\w)", re.IGNORECASE)
        found = pattern.search(intent)
        for deed in deeds if found else ():
            meant = pattern.sub(deed, intent).strip()
            with suppress(BadEnvironment):
                made = _composed(meant, spec, criteria, reference, may_omit)
                doubts = (f'it is interpreted as "{meant}"', *made.doubts)
                dropped = [*made.dropped]
                if found and phrase in requests["rough"]:
                    dropped.append(f"{found[0]} (judged as {found.expand(deed)})")
                update = {"intent": intent, "doubts": doubts, "dropped": tuple(dropped)}
                return made.model_copy(update=update)
    build = partial(_compose, spec=spec, reference=reference)
    trial = partial(build, is_written=False)
    parsed, made = _possible(parse(intent, spec), trial, spec, may_omit)
    scene = _scene(parsed, spec)
    if criteria is not None:
        parsed, criteria = follow_edits(parsed, made, criteria, trial)
        made = trial(parsed)
    made, stated = audit_words(parsed, scene, made, trial)
    return still_covered(made, build(parsed, stated=stated, criteria=criteria))


def _checked(parsed: ParsedIntent, build: Build, spec: EnvSpec) -> Composition:
    """Compose an intent if its action is understood and its parts do not contradict each other."""
    if parsed.lost or not arrange(parsed):
        raise not_understood(parsed)
    require_possible(parsed, _scene(parsed, spec))
    return build(parsed)


def _possible(
    parsed: ParsedIntent, build: Build, spec: EnvSpec, may_omit: bool
) -> tuple[ParsedIntent, Composition]:
    """Compose an intent, with `may_omit` without side clauses for which it would be refused."""

    def works(intent: str) -> bool:
        other = parse(intent, spec)
        with suppress(UsageError, Refused):
            return not other.unread and bool(_checked(other, build, spec))
        return False

    try:
        return parsed, _checked(parsed, build, spec)
    except UsageError as error:
        is_strict = isinstance(error, (BeyondLimits, Contradiction))
        if may_omit and (found := _omitting(parsed, build, spec, 3 if is_strict else 1)):
            return found
        scene = _scene(parsed, spec)
        error.hint = error.hint or what_instead(parsed.intent, scene.name, able(scene), works)
        raise


def _omitting(
    parsed: ParsedIntent, build: Build, spec: EnvSpec, least: int
) -> tuple[ParsedIntent, Composition] | None:
    """Compose an intent without some of its side clauses, keeping at least `least`.

    The main clause remains, and all others keep their actions and directions.
    """
    main = {*[claim.at[0] for claim in parsed.claims if claim.slot == "verb"][:1]}
    pieces = [p for p in side_clauses(read_tokens(parsed.intent)) if not main & p]
    deeds = {*map(_deed, parsed.frames)}

    def tried(omitted: frozenset[int]) -> tuple[ParsedIntent, Composition] | None:
        other = parse(parsed.intent, spec, omitted)
        left = {*map(_deed, other.frames)}
        if left <= deeds and {d[1] for d in deeds - left}.isdisjoint(d[1] for d in left):
            with suppress(UsageError, Refused):
                return other, _checked(other, build, spec)
        return None

    omitted, found = frozenset[int](), None
    for piece in reversed(pieces if parsed.frames and len(pieces) >= least else []):
        omitted |= piece
        if found := tried(omitted):
            break
    for piece in pieces:
        if found and piece <= omitted and (more := tried(omitted - piece)):
            omitted, found = omitted - piece, more
    return found


def _deed(frame: Frame) -> tuple[object, ...]:
    """Return what must remain of an action if other words are omitted."""
    way = (not frame.ground and frame.direction) or "forward"  # "up" the stairs is also forward
    return frame.verb, frame.word, frame.count, way, frame.postures


def able(scene: Scene) -> list[str]:
    """Return an example intent for each behavior that this robot supports."""
    found: list[str] = []
    for verb, row in word_table("acts").items():
        lacks_pole = verb == "balance" and not scene.has("pole_angle")
        if lacks_pole or not (example := row.get("example")):
            continue  # without a pole, balancing means standing
        if verb == "go" and not scene.spec.feet:
            example = "move to the right" if scene.on_rail else "go forward fast"
        with suppress(BadEnvironment):
            BEHAVIORS[verb](Frame(verb=verb, word=verb), scene, Draft())
            found.append(example)
    return [*found, *(EXAMPLES if can_have_block(scene.spec) else ())]


def _scene(parsed: ParsedIntent, spec: EnvSpec) -> Scene:
    frames = [frame for phase in arrange(parsed) for frame in phase]
    return Scene.of(spec, may_fall=goes_low(frames))


def _compose(
    parsed: ParsedIntent,
    spec: EnvSpec,
    criteria: Sequence[Criterion] | None = None,
    reference: Reference | None = None,
    stated: Collection[str] = (),
    is_written: bool = True,
) -> Composition:
    """Compose a parsed intent, even if some words are not covered by a criterion.

    `stated` holds the titles of criteria required to cover phrases of the intent.
    """
    phases = arrange(parsed)
    scene = _scene(parsed, spec)._replace(reference=reference)
    if not 0 < len(phases) <= MAX_PHASES:
        raise Refused(
            f"The composer does not support {len(phases)} movements in sequence.",
            hint=f"Use at most {MAX_PHASES}.",
        )
    frames = [frame for phase in phases for frame in phase]
    travel.require_alone(frames)
    require_sizes(frames, scene)
    drafts, always = _drafts(parsed, phases, scene)
    if drafts:
        put_in_order(drafts, always)
    everything = [*drafts, always]
    for draft in everything if stated else ():
        draft.parts = [
            part.model_copy(update={"is_stated": not part.is_guard and part.title in stated})
            for part in draft.parts
        ]
    if criteria is not None:
        edit(everything, criteria)
        for draft in everything:
            require_consistent(draft)
    env_args: dict[str, Any] = {}
    if "terminate_when_unhealthy" in spec.arguments:
        env_args["terminate_when_unhealthy"] = scene.ends_fallen
    settings: dict[str, Any] = {}
    doubts = [*parsed.corrected]
    for draft in everything:
        env_args |= draft.env_args
        settings |= draft.settings
        doubts += [doubt for doubt in draft.doubts if doubt not in doubts]
    timed, dt = drafts or [always], spec.dt_s or 1.0
    steps = max(10, round(min(sum(each.seconds for each in timed), MAX_S) / dt))
    env_args["max_episode_steps"] = steps
    return composition(
        parsed.intent,
        spec.id,
        drafts,
        always,
        env_args=env_args,
        settings=settings,
        steps=int(scene.known["learns"] * sum(each.practice for each in timed)),
        doubts=tuple(doubts),
        not_understood=parsed.unread,
        shown=() if reference is None else shown_motions(reference, steps * dt),
        motions=demonstrated(phases, scene, steps * dt) if reference is None else (),
        fine=right_failure_modes(phases, scene),
        is_written=is_written,
    )


def _drafts(
    parsed: ParsedIntent, phases: Sequence[Sequence[Frame]], scene: Scene
) -> tuple[list[Draft], Draft]:
    """Return the drafts of the phases, and the draft that applies to the whole episode."""
    drafts: list[Draft] = []
    poles = [each for phase in phases for each in phase if each.verb == "balance"]
    poles = poles if len(phases) > 1 and scene.has("pole_angle") else []
    phases = [kept for phase in phases if (kept := [each for each in phase if each not in poles])]
    for phase, after in zip(phases, [*phases[1:], []], strict=True):
        landings = {"land", "landing", "end up", *(frame.word for frame in phase)}
        lies_next = any(frame.verb == "lie" and frame.word in landings for frame in after)
        drafts.append(_phase(phase, scene._replace(is_last=not after, lies_next=lies_next)))
        if phase[0].at_once and len(drafts) > 1:
            words = f'"{phase[0].word}" is interpreted as the next movement'
            drafts[-1].doubt(f"{words}, so doing both at once is not judged")
    for before, now, draft in zip(phases, phases[1:], drafts[1:], strict=False):
        postures.rest_in_time(before, now, draft)
    always, drafts = (drafts[0], []) if len(drafts) == 1 else (Draft(), drafts)
    for pole in poles[:1]:  # it must stay up in all phases
        postures.balance(pole, scene, always)
        always.reached = []
    for index, phase in enumerate(phases):
        if any(map(comes_home, phase)):
            # The initial position is not observed, and phases have separate memories: it is stored
            # for the whole episode, visible to the policy, and used on the way back.
            home = Home(Gone(scene.axes), index)
            always.pay("home", 2.0, home, "near the start, on the way back")
            value = tracks.last(metrics.gone(tuple(f"{axis}_position" for axis in scene.axes)))
            always.require("ends within 0.5 m of the start", value, 1.5, 0.5, tag="too_far")
    for limit in parsed.limits:
        manners.respect(limit, scene, always)
    for held in (held for phase in phases for frame in phase for held in frame.held):
        manners.hold_quantity(held, scene, always if held.is_always else Draft())
    if scene.has("effort"):
        manners.charge_effort(always)
    if scene.reference is None:
        manners.carry_oneself([frame for phase in phases for frame in phase], scene, always)
    return drafts, always


def _phase(frames: Sequence[Frame], scene: Scene) -> Draft:
    """Return the draft for simultaneous frames."""
    draft = Draft()
    turns = any(each.verb in ("turn", "circle") for each in frames)
    waves = any(each.verb in ("swing", "kick") for each in frames)
    feet = {*scene.spec.feet}
    lifts = any(each.verb == "lift" and feet & {*(each.bodies or feet)} for each in frames)
    scene = scene._replace(is_going=any(map(travels, frames)), is_lifting=lifts)
    scene = scene._replace(is_turning=turns, is_waving=waves)
    frames = [postures.supported(frame, scene) for frame in frames]
    going = [each for each in frames if each.verb == "go"]
    taken = {*sum((frame.postures for frame in frames), ())}
    on_hands = scene.has_hands and not taken.isdisjoint(("hands", "plank"))
    is_over = "upside_down" in taken or "on_back" in taken
    scene = scene._replace(is_on_hands=on_hands, is_over=is_over)
    for frame in frames:
        before = len(draft.reached)
        draft.words.append(frame.word)
        if comes_home(frame):  # the way back is judged throughout the episode
            scene.require("displacement", "come back")
            draft.pay("still", 0.2, Small(Measured("speed"), 2.0), "at rest at the end")
            travel.stop_in_the_end(draft, 1.0, 0.4, 1.0)
            manners.stay_on_feet(scene, draft)
            postures.end_at_rest(draft, frame.duration_s or 1.0)
        elif frame.verb == "go":
            if frame is going[0]:
                travel.go(frame, scene, draft, aside=going[1] if len(going) > 1 else None)
        elif is_shown(frame, scene):
            wave_as_shown(frame, scene, draft)
        else:
            BEHAVIORS[frame.verb](frame, scene, draft)
        is_usual = draft.seconds == Draft().seconds and scene.is_last and frame.count is None
        least = 0.0 if is_usual and frame.duration_s else draft.seconds
        draft.seconds = max(least, (frame.duration_s or -2.0) + 2.0)
        done = [each.judge for each in draft.reached[before:]]
        if done and frame.verb != "turn" and frame.way_m is None:
            travel.be_in_time(frame, draft, reduce(operator.and_, done) < 0.5)
        for held in frame.held:
            manners.hold_quantity(held, scene, Draft() if held.is_always else draft)
        poses = [partial(postures.hold, each, frame, scene) for each in frame.postures]
        styles = [partial(postures.do_it, each, frame, scene) for each in frame.styles]
        for add in (*poses, *styles):
            try:
                add(draft)
            except BadEnvironment as error:
                if add in poses and frame.verb in ("stand", "balance", "stand_up"):
                    raise  # the pose is the behavior itself
                draft.doubt(f"{error.message.rstrip('.')}, so it is not judged")
    if scene.reference is not None:
        follow_motion(scene.reference, draft)
    return draft
