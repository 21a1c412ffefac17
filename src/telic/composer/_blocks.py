"""Compose manipulation intents: push a block to the goal, lift it to the goal, or lift it.

    push the block to the goal · slide the cube to the target quickly
    pick up the block and lift it to the goal · lift the block 20 cm without dropping it

The words decide what the environment puts there: a goal on the table to push to, or one in the air.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from telic.composer._amounts import Reading, number_reader
from telic.composer._draft import Draft, edit
from telic.composer._scope import covered_by
from telic.composer._write import composition
from telic.composer.lexicon import (
    Lexicon,
    Sense,
    Token,
    ignored_words,
    quoted,
    read_tokens,
    word_table,
)
from telic.composer.reader import scan
from telic.envs.spec import EnvSpec
from telic.errors import Refused
from telic.judges import metrics, tracks
from telic.judges.criteria import Composition, Criterion
from telic.rewards.signals import Above, Below, Block, Measured, Part
from telic.rewards.terms import Cost, LiftBlock, Near, Pay
from telic.robots.terrain import ArmTask

EXAMPLES = ("push the block to the goal", "pick up the block and lift it to the goal")
_LIFT_M, _MOST_LIFT_M = 0.15, 0.3
_SECONDS = {"push": 4.0, "pick": 5.0}
_STEPS = {"push": 1_500_000, "pick": 5_000_000}
_LOG_STD = -1.0
"""actions are wide: large initial ones throw the block off the table"""


def _phrases() -> Lexicon:
    data = word_table("blocks")
    rows = data["phrases"].items()
    return Lexicon(
        [(each, Sense(about, about)) for about, row in rows for each in row], data["parts"]
    )


def can_have_block(spec: EnvSpec) -> bool:
    """Return whether an environment is an arm to which telic can add a block."""
    # A user-defined environment class may have an argument of the same name.
    is_arm = spec.robot is not None and spec.robot.target is not None
    return is_arm and spec.arguments.get("task") in get_args(ArmTask)


def is_about_block(intent: str, spec: EnvSpec) -> bool:
    """Return whether an intent is about a block that can be added to this environment."""
    return can_have_block(spec) and _has(read_tokens(intent), "push", "pick")


def _has(tokens: Sequence[Token], *about: str) -> bool:
    return any(_phrases().find(tokens, place, *about) for place in range(len(tokens)))


def compose_block(
    intent: str, spec: EnvSpec, criteria: Sequence[Criterion] | None = None
) -> Composition:
    """Write criteria, reward and judge for an intent about a block; see `compose`.

    Raises:
        Refused: it says nothing about the block, or lifts it too high.
    """
    tokens = read_tokens(intent)
    known = ignored_words() | {"and", "then", "it", "arm", "gripper", "robot"}
    found = scan(tokens, _phrases(), {"amount": number_reader("m")}, known)
    words: dict[str, str] = {}
    heights: list[Reading] = []
    for match in found.matches:
        words.setdefault(match.senses[0].value, quoted(tokens[match.at[0] : match.end]))
        heights += match.read
    task = "pick" if "pick" in words else "push"
    is_kept_down = words.pop("denied", None) is not None and task == "pick"
    if task not in words or is_kept_down or found.is_denied:
        raise Refused(
            f'"{intent}" does not say what to do with the block.',
            hint=f"Ask for example: {', '.join(EXAMPLES)}.",
        )
    draft, lift = Draft(), None
    if not _has(tokens, "where"):
        if task == "push":
            draft.doubt("no target is given: the goal, the red ball, is assumed")
        elif heights and heights[0].amount:
            lift = heights[0].amount.value
        else:
            lift = _LIFT_M
            draft.doubt(f"no height is given: {lift:g} m above its initial position is assumed")
    if lift is not None and not 0.0 < lift <= _MOST_LIFT_M:
        raise Refused(
            f"A block is lifted up to {_MOST_LIFT_M:g} m, not {lift:g} m.",
            hint=f'Say for example "lift the block {100 * _LIFT_M:g} cm".',
        )
    titles = _push(draft) if task == "push" else _pick(lift, draft)
    if "soon" in words:
        done = tracks.below(metrics.block("target"), 0.05)
        if lift is not None:
            done = tracks.above(metrics.block("start"), 0.7 * lift)
        title, value = "is done in the first 40% of the time", tracks.share_until(done)
        titles["soon"] = (draft.score(title, value, 0.8, 0.4, weight=1.0, tag="too_slow"),)
    draft.pay("calm", 0.05, Cost(Measured("effort")), "effort")
    if criteria is not None:
        edit([draft], criteria)
    steps = round(_SECONDS[task] / (spec.dt_s or 0.02))
    made = composition(
        intent,
        spec.id,
        (),
        draft,
        env_args={"task": task, "max_episode_steps": steps},
        settings={"log_std": _LOG_STD},
        steps=_STEPS[task],
        doubts=tuple(draft.doubts),
        not_understood=found.unread,
    )
    return covered_by(made, {said: titles.get(about, ()) for about, said in words.items()})


_Titles = dict[str, tuple[str, ...]]
"""titles of criteria by topic"""


def _be_there(draft: Draft, farthest: float) -> tuple[str, str]:
    """Reward and judge that the block reaches the goal and stays there."""
    block, away = Block(), metrics.block("target")
    draft.pay("near", 1.0, Near(Part(block, "near"), 8.0), "hand close to the block")
    draft.pay("bring", 4.0, Pay(Part(block, "way")), "share of the block's way to the goal")
    draft.pay("there", 2.0, Pay(Below(Part(block, "away"), 0.05)), "block at the goal")
    title, value = "brings the block within 0.04 m of the goal", tracks.mean_of_last(away, 1.0)
    brings = draft.score(title, value, farthest, 0.04, weight=3.0, tag="too_far")
    value = tracks.share_below(away, 0.05)
    return brings, draft.score("keeps it there", value, 0.05, 0.4, weight=2.0, tag="drifts")


def _push(draft: Draft) -> _Titles:
    """Push the block along the table to the goal."""
    there = _be_there(draft, 0.07)
    value = tracks.share_near(metrics.block("start"), 0.0, 0.03)
    pushes = draft.require("pushes it along the table", value, 0.7, 0.95, tag="flails")
    return {"push": (*there, pushes), "where": there, "keeps": there[1:], "holds": there}


def _pick(lift: float | None, draft: Draft) -> _Titles:
    """Lift the block with the gripper to the goal or to a height."""
    height, block, risen = lift or 0.1, Block(), metrics.block("start")
    draft.pay("near", 1.0, Near(Part(block, "near"), 8.0), "hand close to the block")
    draft.pay("lift", 4.0, LiftBlock(block, height), "block off the table, in the hand")
    title, value = f"lifts the block {height:.2g} m", tracks.highest(risen)
    draft.score(title, value, 0.2 * height, 0.9 * height, weight=1.5, tag="too_low")
    if lift is None:
        there = _be_there(draft, 0.1)
    else:
        up = 0.7 * height
        draft.pay("up", 2.0, Pay(Above(Part(block, "rise"), up)), "block up")
        value = tracks.share_above(risen, up)
        there = title, draft.score("keeps it up", value, 0.05, 0.4, weight=3.0)
    holds = draft.require("holds it", metrics.block_in_hand(), 0.5, 0.9, tag="too_far")
    return {
        "pick": (title, *there, holds),
        "where": there,
        "height": (title,),
        "keeps": there[1:],
        "holds": (holds, there[1]),
    }
