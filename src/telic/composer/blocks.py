"""Intents of arms with a block: push it to the goal, pick it up and lift it there, lift it.

    push the block to the goal · slide the cube to the target quickly
    pick up the block and lift it to the goal · lift the block 20 cm without dropping it

The words decide what the environment puts there: a goal on the table to push to, or one in the air.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

from telic.composer.amounts import Reading, number_reader
from telic.composer.draft import Draft, edit
from telic.composer.lexicon import (
    Lexicon,
    Sense,
    ignored_words,
    quoted,
    read_tokens,
    table,
)
from telic.composer.parse import scan
from telic.composer.scope import covered_by
from telic.composer.write import composition
from telic.envs.spec import EnvSpec
from telic.errors import Refused
from telic.judges import metrics, tracks
from telic.judges.criteria import Composition, Criterion
from telic.rewards.signals import Above, Below, Block, Measured, Part
from telic.rewards.terms import Cost, LiftBlock, Near, Pay
from telic.robots.terrain import ArmTask

EXAMPLES = ("push the block to the goal", "pick up the block and lift it to the goal")
_LIFT_M = 0.15
_MOST_LIFT_M = 0.3
_SECONDS = {"push": 4.0, "pick": 5.0}
_STEPS = {"push": 1_500_000, "pick": 5_000_000}
_LOG_STD = -1.0
"""actions are wide: large initial ones throw the block off the table"""
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
    """Return whether an intent wants something of a block that this arm can be given."""
    tokens = read_tokens(intent)
    return can_have_block(spec) and any(
        _phrases().find(tokens, place, "push", "pick") for place in range(len(tokens))
    )


def can_have_block(spec: EnvSpec) -> bool:
    """Return whether an environment is an arm that telic can lay a block before."""
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
    steps = round(_SECONDS[wish.task] / (spec.dt_s or 0.02))
    made = composition(
        intent,
        spec.id,
        (),
        draft,
        env_args={"task": wish.task, "max_episode_steps": steps},
        settings={"log_std": _LOG_STD},
        steps=_STEPS[wish.task],
        doubts=tuple(draft.doubts),
        not_understood=wish.unread,
    )
    return covered_by(made, {words: titles.get(about, ()) for about, words in wish.words.items()})


# ----------------------------------------------------------------------------------- what is read


def _phrases() -> Lexicon:
    data = table("blocks")
    entries = [
        (phrase, Sense(about, about))
        for about, phrases in data["phrases"].items()
        for phrase in phrases
    ]
    return Lexicon(entries, data["parts"])


def _read(intent: str) -> BlockWish:
    tokens = read_tokens(intent)
    known = ignored_words() | {"and", "then", "it", "arm", "gripper", "robot"}
    found = scan(tokens, _phrases(), {"amount": number_reader("m")}, known)
    words: dict[str, str] = {}
    heights: list[Reading] = []
    for match in found.matches:
        about = match.senses[0].value
        words.setdefault(about, quoted(tokens[match.at[0] : match.end]))
        heights += match.read
    task = "pick" if "pick" in words else "push"
    main = words.pop(task, None)
    is_kept_down = words.pop("denied", None) is not None and task == "pick"
    if main is None or is_kept_down or found.is_denied:
        raise Refused(
            f'"{intent}" does not say what to do with the block.',
            hint=f"Ask for example: {', '.join(EXAMPLES)}.",
        )
    lift, doubts, places = None, list[str](), range(len(tokens))
    is_to_goal = any(_phrases().find(tokens, place, _WHERE) for place in places)
    if task == "pick" and not is_to_goal:
        lift = _LIFT_M
        if heights and heights[0].amount:
            lift = heights[0].amount.value
        else:
            doubts.append(f"how high is not said: {lift:g} m above where it lay is taken")
        if not 0.0 < lift <= _MOST_LIFT_M:
            raise Refused(
                f"A block is lifted up to {_MOST_LIFT_M:g} m, not {lift:g} m.",
                hint=f'Say for example "lift the block {100 * _LIFT_M:g} cm".',
            )
    elif not is_to_goal:
        doubts.append("where to is not said: to the goal, the red ball, is taken")
    return BlockWish(task, lift, {_MAIN: main} | words, tuple(doubts), found.unread)


# ------------------------------------------------------------------------------ what is asked for


def _be_there(draft: Draft, farthest: float) -> tuple[str, ...]:
    """Pay and judge that the block gets to the goal and stays there."""
    draft.pay("near", 1.0, Near(Part(Block(), "near"), 8.0), "hand close to the block")
    draft.pay("bring", 4.0, Pay(Part(Block(), "way")), "share of the block's way to the goal")
    draft.pay("there", 2.0, Pay(Below(Part(Block(), "away"), 0.05)), "block at the goal")
    title = "brings the block to the goal"
    away = metrics.block("target")
    value = tracks.mean_of_last(away, 1.0)
    draft.score(title, value, farthest, 0.04, weight=3.0, tag="too_far")
    value = tracks.share_below(away, 0.05)
    draft.score("keeps it there", value, 0.05, 0.4, weight=2.0, tag="drifts")
    return title, "keeps it there"


def _push(draft: Draft) -> dict[str, tuple[str, ...]]:
    """Push the block along the table to the goal."""
    there = _be_there(draft, 0.07)
    title = "pushes it along the table"
    value = tracks.share_near(metrics.block("start"), 0.0, 0.03)
    draft.require(title, value, 0.7, 0.95, tag="flails")
    return {_MAIN: (*there, title), _WHERE: there, _KEEPS: there[1:], _HOLDS: there}


def _pick(wish: BlockWish, draft: Draft) -> dict[str, tuple[str, ...]]:
    """Lift the block with the gripper: to the goal, or so high."""
    height, risen = wish.lift_m or 0.1, metrics.block("start")
    draft.pay("near", 1.0, Near(Part(Block(), "near"), 8.0), "hand close to the block")
    draft.pay("lift", 4.0, LiftBlock(Block(), height), "block off the table, in the hand")
    title, value = f"lifts the block {height:.2g} m", tracks.highest(risen)
    draft.score(title, value, 0.2 * height, 0.9 * height, weight=1.5, tag="too_low")
    if wish.lift_m is None:
        there = _be_there(draft, 0.1)
    else:
        up = 0.7 * height
        draft.pay("up", 2.0, Pay(Above(Part(Block(), "rise"), up)), "block up")
        draft.score("keeps it up", tracks.share_above(risen, up), 0.05, 0.4, weight=3.0)
        there = (title, "keeps it up")
    holds = "holds it"
    draft.require(holds, metrics.block_in_hand(), 0.5, 0.9, tag="too_far")
    return {
        _MAIN: (title, *there, holds),
        _WHERE: there,
        _HEIGHT: (title,),
        _KEEPS: there[1:],
        _HOLDS: (holds, there[1]),
    }


def _be_quick(wish: BlockWish, draft: Draft) -> tuple[str, ...]:
    """Judge how soon the block is first where it belongs."""
    done = tracks.below(metrics.block("target"), 0.05)
    if wish.lift_m is not None:
        done = tracks.above(metrics.block("start"), 0.7 * wish.lift_m)
    title = "is quick"
    draft.score(title, tracks.share_until(done), 0.8, 0.4, weight=1.0, tag="too_slow")
    return (title,)
