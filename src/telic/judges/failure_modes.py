"""Failure modes: what optimizers fall into, simulated in any environment.

Doing nothing, shaking, pushing with full force, flailing, terminating at once; for robots also
toppling over, lying on the back, spinning on the spot, and stopping soon after a good start. Where
actions are choices, each of some choices held, choices at random and in turn. A judge that passes
one of them is wrong, and a reward that pays more for one than for a demonstration will be hacked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from telic.core.seeds import derive
from telic.envs.mujoco import MujocoEnv
from telic.envs.vector import VecEnv
from telic.judges.criteria import Motion
from telic.judges.demonstrations import (
    MOST_STEPS,
    Examples,
    assemble,
    ground_below,
    lead,
    length_of,
    open_env,
    set_down,
)
from telic.rewards.recording import Transition, keep
from telic.robots.terrain import ground_in

HABITS = (
    "does nothing",
    "ends at once",
    "shakes",
    "trembles",
    "pushes",
    "pulls",
    "flails",
    "lies on its back",
    "topples over",
)
"""bad habits of continuous actions; the last two only of robots that can turn over"""
CHOICES = (
    "holds its first choice",
    "holds its middle choice",
    "holds its last choice",
    "takes turns",
    "chooses at random",
    "ends at once",
)
"""bad habits where actions are choices"""
OTHER_WAY = "goes the other way"
LED = ("spins on the spot", "stops soon", OTHER_WAY)
"""look-alikes that are led by hand"""
CLIMBING = ("goes on beside it", "turns round half way", "falls off half way")
"""look-alikes of climbing, led by hand"""
DISOBEDIENT = (
    "stands whatever it is told",
    "goes on when told to stand",
    "never turns as told",
    "never goes sideways as told",
    "goes the other way than told",
    "turns the other way than told",
)
"""look-alikes of obeying commands, led by hand: they are told the same and do something else"""
_SOON_S = 0.3
_SOON_SHARE = 0.03
"""of an episode without a clock"""
_SPIN_RPS = 4.0
_STOPS_AFTER = 0.1
"""share of the episode"""
_TREMBLE = 0.3
_AT_MOST = 10.0
"""of an action without bounds"""
_SAME_RAD = 0.02
"""poses that differ by less than this, on average, are one"""

_Act = Callable[[int], Tensor]
"""from the step to an action: (act_dim,) in [-1, 1], NaN for that of rest, or a choice, ()"""
_Pose = tuple[Tensor, Tensor]


def failure_modes(env_id: str, env_args: dict[str, Any]) -> Examples:
    """Return what optimisers fall into on this environment, really simulated."""
    look = open_env(env_id, env_args, 1)
    starts: list[_Pose] = []
    if look.num_actions is None:
        acting = _efforts(look)
        if isinstance(look, MujocoEnv):
            fallen = _fallen(look)
            rest_qpos = np.array(look.robot.rest_qpos)
            rest = torch.tensor(set_down(look, rest_qpos)), torch.zeros(look.model.nv)
            starts = [fallen.get(name, rest) for name in (*acting, *fallen)]
            acting |= dict.fromkeys(fallen, acting["does nothing"])
    else:
        acting = _choices(look, look.num_actions)
    look.close()
    return _played(env_id, env_args, acting, starts)


def _played(
    env_id: str, env_args: dict[str, Any], acting: dict[str, _Act], starts: Sequence[_Pose]
) -> Examples:
    """Play every habit in a row of its own; `starts` are poses, where there are any."""
    names = tuple(acting)
    env = open_env(env_id, env_args, len(names))
    obs = env.reset()
    if isinstance(env, MujocoEnv) and starts:
        obs = env.place(
            *(torch.stack([start[part].double() for start in starts]) for part in (0, 1))
        )
    moments: list[Transition] = []
    length = length_of(env)
    soon = max(1, round(_SOON_S / env.dt if env.dt else _SOON_SHARE * length))
    live = torch.ones(len(names), dtype=torch.bool)
    for t in range(length):
        action = _action(env, torch.stack([act(t) for act in acting.values()]))
        step = env.step(action)
        ended = step.terminated.clone()
        ended[names.index("ends at once")] |= t + 1 >= soon
        moments.append(Transition(obs, action, step.final_obs, keep(step.info), ended, step.reward))
        obs = step.obs
        live &= ~ended
        if not live.any():
            break  # what comes now are other episodes
    return assemble(env_id, env_args, env, names, moments)


def _action(env: VecEnv, wanted: Tensor) -> Tensor:
    """Return actions in the environment's own range; choices are as they are."""
    if env.num_actions is not None:
        return wanted.long()
    low, high = env.action_low.clamp(min=-_AT_MOST), env.action_high.clamp(max=_AT_MOST)
    rest = env.action_rest if isinstance(env, MujocoEnv) else torch.zeros_like(low).clamp(low, high)
    return torch.where(wanted.isnan(), rest, 0.5 * (low + high) + 0.5 * (high - low) * wanted)


def _efforts(env: VecEnv) -> dict[str, _Act]:
    """Return bad habits of continuous actions."""
    width = env.act_dim
    random = np.random.default_rng(derive("habits", env.spec.id))
    noise = torch.tensor(random.uniform(-1, 1, (MOST_STEPS, width)), dtype=torch.float32)
    full = torch.ones(width)

    def still(t: int) -> Tensor:
        return torch.full((width,), torch.nan)

    return {
        "does nothing": still,
        "ends at once": still,
        "shakes": lambda t: full if t % 2 else -full,
        "trembles": lambda t: _TREMBLE * (full if t % 4 < 2 else -full),
        "pushes": lambda t: full,
        "pulls": lambda t: -full,
        "flails": lambda t: noise[t % MOST_STEPS],
    }


def _choices(env: VecEnv, count: int) -> dict[str, _Act]:
    """Return bad habits of choices."""
    random = np.random.default_rng(derive("habits", env.spec.id))
    drawn = torch.tensor(random.integers(count, size=MOST_STEPS))

    def held(choice: int) -> _Act:
        return lambda t: torch.tensor(choice)

    acting: dict[str, _Act] = {
        "holds its first choice": held(0),
        "holds its middle choice": held(count // 2),
        "holds its last choice": held(count - 1),
        "takes turns": lambda t: torch.tensor(t % count),
        "chooses at random": lambda t: drawn[t % MOST_STEPS],
        "ends at once": held(0),
    }
    if count < 3:  # the middle one is one of the others
        del acting["holds its middle choice"]
    return acting


def _fallen(env: MujocoEnv) -> dict[str, _Pose]:
    """Return starts from which the robot topples or lies, as far as it can turn over."""
    turns = env.robot.root.turns
    if env.robot.root.slide("z") is None or not ("y" in turns or "x" in turns):
        return {}
    way = "pitch_turns" if "y" in turns else "roll_turns"

    def turning(seconds: float, turns: float, **more: float) -> Motion:
        return Motion.model_validate({"seconds": seconds, way: turns, **more})

    first = env.dt or 1.0  # one step to get there
    motions = {
        "lies on its back": (turning(first, 0.5), Motion(seconds=1.0)),
        "topples over": (turning(first, 0.1), turning(1.0, 1.0, forward_mps=2.0)),
    }
    starts: dict[str, _Pose] = {}
    rest, below = set_down(env, None), ground_below(env)
    for name, motion in motions.items():
        poses = lead(env.model, env.robot, motion, env.dt or 1.0, 2, rest=rest, below=below)
        starts[name] = torch.tensor(poses.qpos[1]), torch.tensor(poses.qvel[1])
    return starts


# ---- look-alikes that follow a kinematic reference


def look_alikes(env: VecEnv, motions: Sequence[Motion]) -> dict[str, tuple[Motion, ...]]:
    """Return what looks like it for a moment, to be led by hand beside a good example."""
    if not isinstance(env, MujocoEnv) or not motions:
        return {}
    if any(motion.told is not None for motion in motions):
        return _disobedient(motions)
    seconds, root = length_of(env) * (env.dt or 1.0), env.robot.root
    can_spin = root.quaternion is not None and root.slide("z") is not None
    led: dict[str, tuple[Motion, ...]] = {}
    if can_spin and not any(motion.turn_rps for motion in motions):
        led[LED[0]] = (Motion(seconds=min(seconds, 60.0), turn_rps=_SPIN_RPS),)
    if len(motions) == 1 and _is_going(motions[0]):
        soon = motions[0].model_copy(update={"seconds": max(_STOPS_AFTER * seconds, 0.1)})
        led[LED[1]] = (soon, Motion(seconds=1.0))
        led |= _climbing(env, motions[0], seconds)
    if _has_a_way(motions):
        led[OTHER_WAY] = tuple(
            motion.model_copy(
                update={"forward_mps": -motion.forward_mps, "left_mps": -motion.left_mps}
            )
            for motion in motions
        )
    return led


def _has_a_way(motions: Sequence[Motion]) -> bool:
    """Say whether motions go one way and no other: not to and fro, nor round."""
    ways = {(np.sign(motion.forward_mps), np.sign(motion.left_mps)) for motion in motions}
    is_straight = not any(motion.turn_rps or motion.circle for motion in motions)
    return is_straight and len(ways - {(0.0, 0.0)}) == 1


def _climbing(env: MujocoEnv, going: Motion, seconds: float) -> dict[str, tuple[Motion, ...]]:
    """Return who starts before a way up and does not climb it."""
    arguments = env.spec.arguments
    if ground_in(arguments).kind == "flat" or arguments.get("terrain_start") != "foot":
        return {}
    pace = going.forward_mps
    aside = going.model_copy(update={"forward_mps": 0.0, "left_mps": pace})
    half = going.model_copy(update={"seconds": max(0.4 * seconds, 0.1)})
    back = going.model_copy(update={"forward_mps": -pace})
    tumbles = Motion(seconds=1.0, forward_mps=-pace, pitch_turns=-0.5)
    led = ((aside,), (half, back), (half, tumbles, Motion(seconds=1.0)))
    return dict(zip(CLIMBING, led, strict=True))


def _disobedient(motions: Sequence[Motion]) -> dict[str, tuple[Motion, ...]]:
    """Return robots that are told what the good example is told, and do not do it."""

    def other(**changes: Callable[[Motion], float]) -> tuple[Motion, ...]:
        return tuple(
            motion.model_copy(update={name: change(motion) for name, change in changes.items()})
            for motion in motions
        )

    still = Motion(seconds=1.0)
    stands = tuple(
        still.model_copy(update={"seconds": motion.seconds, "told": motion.told})
        for motion in motions
    )
    goes_on = [*motions]
    for place in range(1, len(motions)):
        if motions[place].told is not None and not any(motions[place].told or ()):
            goes_on[place] = goes_on[place - 1].model_copy(
                update={"seconds": motions[place].seconds, "told": motions[place].told}
            )
    led = (
        stands,
        tuple(goes_on),
        other(turn_rps=lambda motion: 0.0),
        other(left_mps=lambda motion: 0.0),
        other(
            forward_mps=lambda motion: -motion.forward_mps,
            left_mps=lambda motion: -motion.left_mps,
        ),
        other(turn_rps=lambda motion: -motion.turn_rps),
    )
    named = zip(DISOBEDIENT, led, strict=True)
    # Who is never told to go sideways may leave it.
    return {name: other for name, other in named if other != tuple(motions)}


def _is_going(motion: Motion) -> bool:
    """Say whether a motion is one that goes on, and not a deed that is done at some time."""
    is_deed = motion.jumps or motion.pitch_turns or motion.roll_turns
    return not is_deed and bool(motion.forward_mps or motion.left_mps or motion.turn_rps)


def no_different(examples: Examples, fine: Sequence[str]) -> list[str]:
    """Return the habits that hardly differ from one that is fine, as measured: not bad here.

    Who trembles too weakly to move stands still.
    """
    if "qpos" not in examples.spec.info_keys:
        return []
    tracks = {name: examples.trajectory(name).columns["qpos"] for name in examples.names}
    return [
        name
        for name, track in tracks.items()
        if name not in fine
        and any(
            len(track) == len(tracks[other])
            and float(np.abs(track - tracks[other]).mean()) < _SAME_RAD
            for other in fine
            if other in tracks
        )
    ]
