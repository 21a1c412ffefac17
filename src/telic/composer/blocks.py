"""Intents of arms with a block: push it to the goal, pick it up and lift it there, lift it.

    push the block to the goal · slide the cube to the target quickly
    pick up the block and lift it to the goal · lift the block 20 cm without dropping it

The words decide what the environment puts there: a goal on the table to push to, or one in the air.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Literal, NamedTuple, get_args

from telic.composer.draft import Credit, Draft, edit, measure
from telic.composer.words import ignored_words
from telic.composer.write import judge_file, reward_file
from telic.envs.spec import EnvSpec
from telic.errors import Refused
from telic.judges import metrics, tracks
from telic.judges.criteria import Composition, Covered, Criterion
from telic.rewards.signals import Above, Below, Block, Measured, Part
from telic.rewards.terms import Cost, LiftBlock, Near, Pay
from telic.robots.terrain import ArmTask

EXAMPLES = ("push the block to the goal", "pick up the block and lift it to the goal")
_THE = r"(?:(?:the|a|that|this|its|your) )?"
_THING = rf"{_THE}(?:(?:little|small|blue) )?(?:block|cube|box|object|brick)"
_TABLE = rf"{_THE}(?:table|floor|ground)"
_GOAL = (
    rf"(?:(?:over|up|all the way) )?(?:to|onto|into|on|at|towards?) {_THE}"
    r"(?:red )?(?:goal|target|marker|ball|dot)(?: position)?"
)
_PUSH = rf"(?:push|shove|slide|nudge|move|bring|drag|get)(?:ing)? {_THING}"
_ALONG = rf"(?: (?:along|across|over|on) {_TABLE})?"
_PUSHED = rf"{_PUSH}{_ALONG}(?: {_GOAL})?{_ALONG}"
_PICK = rf"(?:pick|lift|raise|grasp|grab|carry|take)(?:ing)?(?: up)? {_THING}(?: up)?"
_NEXT = r",?(?: and)?(?: then)? (?:lift|raise|bring|carry|move|take|hold)(?:ing)? it(?: up)?"
_PICKED = rf"{_PICK}(?:{_NEXT})?(?: {_GOAL})?"
_HIGH = rf"(?: (?:high|up|into {_THE}air|above {_TABLE}|off {_TABLE}))?"
_AMOUNT = rf"(?:by |to )?({{}}) ?(cm|centimet(?:er|re)s|m|met(?:er|re)s?){_HIGH}"
_NUMBER = r"\d+(?:\.\d+)?|\.\d+"
_OFF = rf"high|off {_TABLE}|into {_THE}air"
_KEPT = (
    r"(?:and )?(?:keep|hold|leave)(?:ing)? it(?: up)?(?: there| still| in place| in the air)?|"
    r"(?:and )?stay there"
)
_NOT_DROPPED = (
    r"without (?:dropping it|letting it (?:fall|go|drop))|"
    r"(?:do not|don't|never) (?:drop it|let it (?:fall|go|drop))"
)
_QUICK = r"(?:as )?(?:quickly|fast|swiftly|rapidly)(?: as (?:possible|you can|it can))?"
_NOT = r"(?:not|never|don't|doesn't|without|no|avoid)"
_PREPOSITIONS = ("for", "to", "at", "in", "on", "by", "from")
_LIFT_M = 0.15
_MOST_LIFT_M = 0.3
_SECONDS = {"push": 4.0, "pick": 5.0}
_STEPS = {"push": 1_500_000, "pick": 5_000_000}
_LOG_STD = -1.0
"""actions are wide: who starts with large ones throws the block off the table"""
_MAIN, _WHERE, _HEIGHT, _KEEPS, _HOLDS, _SOON = "main", "where", "height", "keeps", "holds", "soon"


class BlockWish(NamedTuple):
    """What is wanted of the block."""

    task: Literal["push", "pick"]
    lift_m: float | None
    """how high; None: to the goal"""
    words: dict[str, str]
    """by what they ask for"""
    doubts: tuple[str, ...]
    unread: tuple[str, ...]


def is_about_block(intent: str, spec: EnvSpec) -> bool:
    """Say whether an intent wants something of a block that this arm can be given."""
    return can_have_block(spec) and any(
        _find(pattern, plain(intent)) for pattern in (_PUSHED, _PICKED)
    )


def can_have_block(spec: EnvSpec) -> bool:
    """Say whether an environment is an arm that telic can lay a block before."""
    # A class of the user's own may have an argument of that name, too.
    is_arm = spec.robot is not None and spec.robot.target is not None
    return is_arm and spec.arguments.get("task") in get_args(ArmTask)


def compose_block(
    intent: str, spec: EnvSpec, criteria: Sequence[Criterion] | None = None
) -> Composition:
    """Write criteria, reward and judge for an intent about a block; see `compose`."""
    wish = _read(intent)
    draft = Draft(doubts=list(wish.doubts))
    titles = _push(draft) if wish.task == "push" else _pick(wish, draft)
    if _SOON in wish.words:
        titles[_SOON] = _be_quick(wish, draft)
    draft.pay("calm", 0.05, Cost(Measured("effort")), "effort")
    if criteria is not None:
        edit([draft], criteria)
    left = {part.title for part in draft.parts}
    carried = {
        words: tuple(title for title in titles.get(about, ()) if title in left)
        for about, words in wish.words.items()
    }
    steps = round(_SECONDS[wish.task] / (spec.dt_s or 0.02))
    return Composition(
        intent=intent,
        env=spec.id,
        criteria=tuple(part.criterion() for part in draft.parts),
        reward=reward_file(intent, spec.id, draft),
        judge=judge_file(intent, spec.id, draft),
        env_args={"task": wish.task, "max_episode_steps": steps},
        settings={"log_std": _LOG_STD},
        steps=_STEPS[wish.task],
        doubts=tuple(draft.doubts),
        not_understood=wish.unread,
        covered=tuple(Covered(words=words, criteria=own) for words, own in carried.items() if own),
        dropped=tuple(words for words, own in carried.items() if not own),
    )


# ----------------------------------------------------------------------------------- what is read


def plain(intent: str) -> str:
    """Return an intent in small letters, single spaces, and without marks that end sentences."""
    text = re.sub(r"[\s_]+", " ", intent.lower().replace("’", "'"))
    text = re.sub(r"(?<!\d)[.](?!\d)|[.](?=\s|$)|[!?;:,\"]", " ", text)
    return " ".join(text.split())


def left_unread(text: str, ignored: Collection[str]) -> Iterator[str]:
    """Yield what is left of a text as one would quote it: "for 5 seconds"."""
    for piece in text.split("·"):
        words = piece.split()
        told = [place for place, word in enumerate(words) if word not in ignored]
        if told:
            first = max(told[0] - (told[0] > 0 and words[told[0] - 1] in _PREPOSITIONS), 0)
            yield " ".join(words[first : told[-1] + 1])


def _find(pattern: str, text: str) -> re.Match[str] | None:
    return re.search(rf"(?<![\w.])(?:{pattern})(?![\w]|\.\d)", text)


def _read(intent: str) -> BlockWish:
    text, words, doubts = plain(intent), dict[str, str](), list[str]()

    def take(pattern: str, about: str) -> re.Match[str] | None:
        nonlocal text
        found = _find(pattern, text)
        if found is not None:
            text = " ".join(f"{text[: found.start()]} · {text[found.end() :]}".split())
            words[about] = found.group()
        return found

    take(_NOT_DROPPED, _HOLDS)
    task = "pick" if _find(_PICKED, text) else "push"
    main = take(_PICKED if task == "pick" else _PUSHED, _MAIN)
    is_kept_down = task == "pick" and _find(
        rf"{_NOT} (?:lift|rais|pick|mov)(?:e|ing|ing up)?", text
    )
    if main is None or is_kept_down or re.search(rf"(?<!\w){_NOT}(?: \w+)? ·", text):
        raise Refused(
            f'"{intent}" does not say what to do with the block.',
            hint=f"Ask for example: {', '.join(EXAMPLES)}.",
        )
    is_to_goal = bool(_find(_GOAL, main.group()) or take(_GOAL, _WHERE))
    lift: float | None = None
    if task == "pick" and not is_to_goal:
        amount = take(_AMOUNT.format(_NUMBER), _HEIGHT)
        lift = _LIFT_M
        if amount is not None:
            lift = float(amount[1]) * (0.01 if amount[2].startswith("c") else 1.0)
        else:
            take(_OFF, _HEIGHT)
            doubts.append(f"how high is not said: {lift:g} m above where it lay is taken")
        if not 0.0 < lift <= _MOST_LIFT_M:
            raise Refused(
                f"A block is lifted up to {_MOST_LIFT_M:g} m, not {lift:g} m.",
                hint=f'Say for example "lift the block {100 * _LIFT_M:g} cm".',
            )
    elif not is_to_goal:
        doubts.append("where to is not said: to the goal, the red ball, is taken")
    take(_KEPT, _KEEPS)
    take(_QUICK, _SOON)
    known = ignored_words() | {"and", "then", "it", "arm", "gripper", "robot", "·"}
    return BlockWish(task, lift, words, tuple(doubts), tuple(left_unread(text, known)))


# ------------------------------------------------------------------------------ what is asked for


def _be_there(draft: Draft, farthest: float) -> tuple[str, ...]:
    """Pay and judge that the block gets to the goal and stays there."""
    draft.pay("near", 1.0, Near(Part(Block(), "near"), 8.0), "hand close to the block")
    draft.pay("bring", 4.0, Pay(Part(Block(), "way")), "share of the block's way to the goal")
    draft.pay("there", 2.0, Pay(Below(Part(Block(), "away"), 0.05)), "block at the goal")
    title, meaning = "brings the block to the goal", "distance to the goal over the last second"
    away = measure(metrics.block, "target")
    value = measure(tracks.mean_of_last, away, 1.0)
    draft.leaf(title, meaning, value, farthest, 0.04, weight=3.0, unit="m", tag="too_far")
    meaning = "share of the time within 0.05 m of the goal"
    value = measure(tracks.share_below, away, 0.05)
    draft.leaf("keeps it there", meaning, value, 0.05, 0.4, weight=2.0, tag="drifts")
    return title, "keeps it there"


def _push(draft: Draft) -> dict[str, tuple[str, ...]]:
    """Push the block along the table to the goal."""
    there = _be_there(draft, 0.07)
    title = "pushes it along the table"
    meaning = "share of the time less than 0.03 m above where it lay, and not below the table"
    value = measure(tracks.share_near, measure(metrics.block, "start"), 0.0, 0.03)
    draft.guard(title, meaning, value, 0.7, 0.95, tag="flails")
    return {_MAIN: (*there, title), _WHERE: there, _KEEPS: there[1:], _HOLDS: there}


def _pick(wish: BlockWish, draft: Draft) -> dict[str, tuple[str, ...]]:
    """Lift the block with the gripper: to the goal, or so high."""
    height, risen = wish.lift_m or 0.1, measure(metrics.block, "start")
    draft.pay("near", 1.0, Near(Part(Block(), "near"), 8.0), "hand close to the block")
    draft.pay("lift", 4.0, LiftBlock(Block(), height), "block off the table, in the hand")
    title, meaning = f"lifts the block {height:.2g} m", "highest above where it lay"
    value, credit = measure(tracks.highest, risen), Credit(weight=1.5, unit="m", tag="too_low")
    draft.total(title, meaning, value, 0.2 * height, 0.9 * height, **credit)
    if wish.lift_m is None:
        there = _be_there(draft, 0.1)
    else:
        up = 0.7 * height
        draft.pay("up", 2.0, Pay(Above(Part(Block(), "rise"), up)), "block up")
        meaning = f"share of the time more than {up:.2g} m above where it lay"
        value = measure(tracks.share_above, risen, up)
        draft.leaf("keeps it up", meaning, value, 0.05, 0.4, weight=3.0)
        there = (title, "keeps it up")
    holds = "holds it"
    meaning = "share of the time off the table with the hand within 0.08 m of it"
    value = measure(metrics.block_in_hand)
    draft.guard(holds, meaning, value, 0.5, 0.9, tag="too_far")
    return {
        _MAIN: (title, *there, holds),
        _WHERE: there,
        _HEIGHT: (title,),
        _KEEPS: there[1:],
        _HOLDS: (holds, there[1]),
    }


def _be_quick(wish: BlockWish, draft: Draft) -> tuple[str, ...]:
    """Judge how soon the block is first where it belongs."""
    done = measure(tracks.below, measure(metrics.block, "target"), 0.05)
    if wish.lift_m is not None:
        done = measure(tracks.above, measure(metrics.block, "start"), 0.7 * wish.lift_m)
    title, meaning = "is quick", "share of the time until it is first there"
    value = measure(tracks.share_until, done)
    draft.leaf(title, meaning, value, 0.8, 0.4, weight=1.0, tag="too_slow")
    return (title,)
