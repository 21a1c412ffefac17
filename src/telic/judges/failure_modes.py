"""Failure modes: degenerate behaviors to which optimizers tend to converge.

These are doing nothing, shaking, maximum force, flailing and immediate termination; for robots also
falling over, lying on the back, spinning in place, and stopping after a good start; with discrete
actions, single actions, random actions and cycling. A judge must not pass a failure mode, and a
reward must not pay one more than a demonstration, because that invites reward hacking.
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
    MAX_STEPS,
    Examples,
    ground_below,
    lead,
    length_of,
    open_env,
    set_down,
)
from telic.rewards.recording import Transition, keep
from telic.robots.terrain import ground_in

FAILURE_MODES = (
    "does nothing",
    "ends at once",
    "shakes",
    "vibrates",
    "pushes",
    "pulls",
    "flails",
    "lies on its back",
    "topples over",
)
"""failure modes with continuous actions, the last two only for robots that can fall over"""
OTHER_WAY = "goes the other way"
MIRRORED = "does it mirrored"
_SOON_S, _SOON_SHARE = 0.3, 0.03
"""duration of an episode that ends early, or its fraction of the length if time is not known"""
_SPIN_RPS = 4.0
_STOPS_AFTER = 0.1
"""fraction of the episode after which the robot stops"""
_VIBRATION = 0.3
_MAX_ACTION = 10.0
"""bound of the range used for unbounded actions"""
_SAME_RAD = 0.02
"""mean difference of joint angles, in rad, below which two poses count as equal"""

_Act = Callable[[int], Tensor]
"""maps a step to an action: (act_dim,) in [-1, 1] with NaN for rest, or a discrete choice, ()"""
_Pose = tuple[Tensor, Tensor]


def failure_modes(env_id: str, env_args: dict[str, Any]) -> Examples:
    """Simulate the failure modes of an environment, one per parallel environment."""
    look = open_env(env_id, env_args, 1)
    acting, starts = _acting(look), list[_Pose]()
    if look.num_actions is None and isinstance(look, MujocoEnv):
        fallen = _fallen(look)
        rest_qpos = np.array(look.robot.rest_qpos)
        rest = torch.tensor(set_down(look, rest_qpos)), torch.zeros(look.model.nv)
        starts = [fallen.get(name, rest) for name in (*acting, *fallen)]
        acting |= dict.fromkeys(fallen, acting["does nothing"])
    look.close()
    names = tuple(acting)
    env = open_env(env_id, env_args, len(names))
    obs = env.reset()
    if isinstance(env, MujocoEnv) and starts:
        obs = env.place(*(torch.stack([start[k].double() for start in starts]) for k in (0, 1)))
    moments: list[Transition] = []
    length = length_of(env)
    soon = max(1, round(_SOON_S / env.dt if env.dt else _SOON_SHARE * length))
    live = torch.ones(len(names), dtype=torch.bool)
    for t in range(length):
        action = _scaled(env, torch.stack([act(t) for act in acting.values()]))
        step = env.step(action)
        ended = step.terminated.clone()
        ended[names.index("ends at once")] |= t + 1 >= soon
        moments.append(Transition(obs, action, step.final_obs, keep(step.info), ended, step.reward))
        obs = step.obs
        live &= ~ended
        if not live.any():
            break  # what follows belongs to other episodes
    return Examples.of(env_id, env_args, env, names, moments)


def _acting(env: VecEnv) -> dict[str, _Act]:
    random = np.random.default_rng(derive("habits", env.spec.id))
    count = env.num_actions
    if count is None:
        noise = torch.tensor(random.uniform(-1, 1, (MAX_STEPS, env.act_dim)), dtype=torch.float32)
        full = torch.ones(env.act_dim)
        still = full * torch.nan
        return {
            "does nothing": lambda t: still,
            "ends at once": lambda t: still,
            "shakes": lambda t: full if t % 2 else -full,
            "vibrates": lambda t: _VIBRATION * (full if t % 4 < 2 else -full),
            "pushes": lambda t: full,
            "pulls": lambda t: -full,
            "flails": lambda t: noise[t % MAX_STEPS],
        }
    drawn = torch.tensor(random.integers(count, size=MAX_STEPS))
    acting: dict[str, _Act] = {
        "holds its first choice": lambda t: torch.tensor(0),
        "holds its middle choice": lambda t: torch.tensor(count // 2),
        "holds its last choice": lambda t: torch.tensor(count - 1),
        "takes turns": lambda t: torch.tensor(t % count),
        "chooses at random": lambda t: drawn[t % MAX_STEPS],
        "ends at once": lambda t: torch.tensor(0),
    }
    if count < 3:  # the middle one duplicates another
        del acting["holds its middle choice"]
    return acting


# ---- untrained and half-trained policies
# Hidden negative examples: the recorder plays them from random initial states like judged episodes,
# so that a judge cannot identify them by their start, length, seed or smoothness.

HALF_TRAINED = "half-trained network"
"""failure mode of a network that was trained briefly for a high return"""
_ROUNDS, _SEARCH_STEPS, _PARENTS, _SEARCH_STD = 4, 100, 4, 0.3

UNTRAINED_NETWORK = "untrained network, large outputs"
"""failure mode of a network with random weights, which moves visibly"""
_NETWORKS = {
    "untrained network": 0.02,
    UNTRAINED_NETWORK: 1.0,
    "untrained network, saturated": 8.0,
    HALF_TRAINED: 1.0,
}
"""gain of the last layer by failure mode"""
_SMOOTH, _UNITS = 0.95, 32


def untrained_modes(env: VecEnv) -> dict[str, str]:
    """Return untrained policies, each with the failure mode that it amounts to."""
    modes = [name for name in _acting(env) if name != "ends at once"]
    first, random = modes[0], "flails" if "flails" in modes else "chooses at random"
    others = dict.fromkeys((*_NETWORKS, "constant action", "smooth random actions"), random)
    others |= {"untrained network": first, HALF_TRAINED: HALF_TRAINED}
    return {**{name: name for name in modes}, **others}


def untrained_policy(env: VecEnv, seed: int, mode: str | None = None) -> Callable[[Tensor], Tensor]:
    """Return a policy that acts by `mode`, or cycles through the untrained modes across envs.

    The search for a half-trained network steps the environments, so they must be reset afterward.
    """
    chance = torch.Generator().manual_seed(derive("untrained", seed) % 2**63)
    acting, count = _acting(env), env.num_envs
    modes = list(untrained_modes(env)) if mode is None else [mode]
    width = env.num_actions or env.act_dim
    networks = _networks(env, chance)
    constant, smooth = torch.rand(count, width, generator=chance) * 2.0 - 1.0, torch.zeros(width)
    steps = 0
    if HALF_TRAINED in modes:
        for own, trained in zip(networks, _half_trained(env, chance), strict=True):
            own[modes.index(HALF_TRAINED) :: len(modes)] = trained

    def act(obs: Tensor) -> Tensor:
        nonlocal steps, smooth
        noise = torch.rand(width, generator=chance) * 2.0 - 1.0
        smooth = (_SMOOTH * smooth + 4.0 * (1.0 - _SMOOTH) * noise).clamp(-1.0, 1.0)
        outputs, rows = _outputs(obs, networks), list[Tensor]()
        for row in range(count):
            own = modes[row % len(modes)]
            if own in acting:
                rows.append(acting[own](steps))
                continue
            others = {"constant action": constant[row], "smooth random actions": smooth}
            chosen = others.get(own, torch.tanh(_NETWORKS.get(own, 1.0) * outputs[row]))
            rows.append(chosen if env.num_actions is None else chosen.argmax())
        steps += 1
        return _scaled(env, torch.stack(rows))

    return act


def _networks(env: VecEnv, chance: torch.Generator) -> tuple[Tensor, Tensor]:
    first = torch.randn(env.num_envs, env.obs_dim, _UNITS, generator=chance) / env.obs_dim**0.5
    width = env.num_actions or env.act_dim
    return first, torch.randn(env.num_envs, _UNITS, width, generator=chance) / _UNITS**0.5


def _outputs(obs: Tensor, networks: tuple[Tensor, Tensor]) -> Tensor:
    hidden = torch.tanh(torch.einsum("nd,ndh->nh", obs.float(), networks[0]))
    return torch.einsum("nh,nha->na", hidden, networks[1])


def _half_trained(env: VecEnv, chance: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return the best network found by a short evolutionary search for a high return."""
    networks, count = _networks(env, chance), env.num_envs
    networks[1].mul_(torch.linspace(0.1, 2.0, count)[:, None, None])  # a range of gains
    for _ in range(_ROUNDS):
        obs, returns, live = env.reset(), torch.zeros(count), torch.ones(count)
        for _ in range(min(_SEARCH_STEPS, env.max_episode_steps or _SEARCH_STEPS)):
            chosen = torch.tanh(_outputs(obs, networks))
            chosen = chosen if env.num_actions is None else chosen.argmax(-1)
            step = env.step(_scaled(env, chosen))
            returns += live * step.reward.float().nan_to_num()
            live *= (~(step.terminated | step.truncated)).float()
            obs = step.obs
        best = returns.argsort(descending=True)[: max(1, count // _PARENTS)]
        parents = best[torch.arange(count) % len(best)]
        for weights in networks:
            noise = torch.randn(weights.shape, generator=chance) * weights.std() * _SEARCH_STD
            noise[0] = 0.0  # keep the best one unchanged
            weights.copy_(weights[parents] + noise)
    return networks[0][0], networks[1][0]


def _scaled(env: VecEnv, action: Tensor) -> Tensor:
    """Scale continuous actions from [-1, 1] to their range, with NaN for the resting action."""
    if env.num_actions is not None:
        return action
    low, high = env.action_low.clamp(min=-_MAX_ACTION), env.action_high.clamp(max=_MAX_ACTION)
    at_rest = env.action_rest if isinstance(env, MujocoEnv) else low.clamp(min=0.0).minimum(high)
    return torch.where(action.isnan(), at_rest, 0.5 * (low + high) + 0.5 * (high - low) * action)


def _fallen(env: MujocoEnv) -> dict[str, _Pose]:
    """Return motions in which the robot falls over or lies down, if it can turn over."""
    turns = env.robot.root.turns
    if env.robot.root.slide("z") is None or not ("y" in turns or "x" in turns):
        return {}
    way = "pitch_turns" if "y" in turns else "roll_turns"
    dt = env.dt or 1.0
    still = Motion(seconds=dt)  # one step to reach the pose
    motions = {
        "lies on its back": (still.model_copy(update={way: 0.5}), Motion(seconds=1.0)),
        "topples over": (
            still.model_copy(update={way: 0.1}),
            Motion(seconds=1.0, forward_mps=2.0).model_copy(update={way: 1.0}),
        ),
    }
    starts: dict[str, _Pose] = {}
    rest, below = set_down(env, None), ground_below(env)
    for name, motion in motions.items():
        poses = lead(env.model, env.robot, motion, dt, 2, rest=rest, below=below)
        starts[name] = torch.tensor(poses.qpos[1]), torch.tensor(poses.qvel[1])
    return starts


def no_different(examples: Examples, fine: Sequence[str]) -> list[str]:
    """Return the failure modes whose episodes hardly differ from an acceptable failure mode.

    For example, a robot that vibrates too weakly to move stands still.
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


# ---- look-alikes that follow a kinematic reference


def look_alikes(env: VecEnv, motions: Sequence[Motion]) -> dict[str, tuple[Motion, ...]]:
    """Return motions that resemble a demonstration only at first or only partially."""
    if not isinstance(env, MujocoEnv) or not motions:
        return {}
    if any(motion.command is not None for motion in motions):
        return _disobedient(motions)
    seconds, root = length_of(env) * (env.dt or 1.0), env.robot.root
    led: dict[str, tuple[Motion, ...]] = {}
    can_spin = root.quaternion is not None and root.slide("z") is not None
    if can_spin and not any(motion.turn_rps for motion in motions):
        led["spins on the spot"] = (Motion(seconds=min(seconds, 60.0), turn_rps=_SPIN_RPS),)
    first, still = motions[0], Motion(seconds=1.0)
    is_event = first.jumps or first.pitch_turns or first.roll_turns
    is_going = first.forward_mps or first.left_mps or first.turn_rps
    if len(motions) == 1 and is_going and not is_event:
        led["stops soon"] = (
            _changed(first, seconds=max(_STOPS_AFTER * seconds, 0.1)),
            still,
        )
        arguments = env.spec.arguments
        if ground_in(arguments).kind != "flat" and arguments.get("terrain_start") == "foot":
            pace = first.forward_mps
            half = _changed(first, seconds=max(0.4 * seconds, 0.1))
            tumble = Motion(seconds=1.0, forward_mps=-pace, pitch_turns=-0.5)
            led |= {
                "passes by": (_changed(first, forward_mps=0.0, left_mps=pace),),
                "turns round half way": (half, _changed(first, forward_mps=-pace)),
                "falls off half way": (half, tumble, still),
            }
    ways = {(np.sign(motion.forward_mps), np.sign(motion.left_mps)) for motion in motions}
    is_straight = not any(motion.turn_rps or motion.circle for motion in motions)
    if is_straight and len(ways - {(0.0, 0.0)}) == 1:  # neither back and forth nor in a circle
        led[OTHER_WAY] = _reversed(motions)
    return led | _variants(motions, "y" in root.turns and root.slide("z") is not None)


def _variants(motions: Sequence[Motion], can_turn: bool) -> dict[str, tuple[Motion, ...]]:
    """Return mirrored, incomplete, upside-down and reordered variants of a sequence."""
    whole, still = tuple(motions), Motion(seconds=1.0)
    turns = ("pitch_turns", "roll_turns", "turn_rps")
    way = next((name for name in turns[:2] if any(getattr(each, name) for each in whole)), None)

    def scaled(motion: Motion, factor: float, names: Sequence[str]) -> Motion:
        return _changed(motion, **{name: factor * getattr(motion, name) for name in names})

    found = {MIRRORED: tuple(scaled(each, -1.0, turns) for each in whole)}
    if way is not None:
        half = tuple(scaled(each, 0.5, (*turns, "height_m")) for each in whole)
        over = next(place for place, each in enumerate(whole) if getattr(each, way))
        found |= {
            "does half of it": half,
            "stays upside down": (*half[: over + 1], still),
            "jumps without turning": tuple(scaled(each, 0.0, turns) for each in whole),
        }
    acts = [place for place, each in enumerate(whole) if not _is_still(each)]
    if len(acts) > 1:
        for place in acts:
            rest = Motion(seconds=whole[place].seconds)
            others = (*whole[:place], rest, *whole[place + 1 :])
            found[f"omits part {acts.index(place) + 1}"] = others
        order = iter([whole[place] for place in reversed(acts)])
        moved = (each if _is_still(each) else next(order) for each in whole)
        found["does it in reverse order"] = tuple(moved)
    elif len(acts) == 1 and _is_still(whole[-1]) and way is None and not whole[acts[0]].jumps:
        found["does not stop"] = whole[: acts[0] + 1]
    if way is None and any(each.jumps for each in whole):
        found["hardly jumps"] = tuple(scaled(each, 0.1, ("height_m",)) for each in whole)
    if acts and can_turn:
        tumble = Motion(seconds=0.3, pitch_turns=0.5)
        found["does it upside down"] = (tumble, *whole)
    return {name: each for name, each in found.items() if each != whole}


def _is_still(motion: Motion) -> bool:
    names = ("forward_mps", "left_mps", "turn_rps", "jumps", "pitch_turns", "roll_turns")
    return not any(getattr(motion, name) for name in names)


def _changed(motion: Motion, **changes: Any) -> Motion:
    return motion.model_copy(update=changes)


def _reversed(motions: Sequence[Motion]) -> tuple[Motion, ...]:
    return tuple(
        _changed(each, forward_mps=-each.forward_mps, left_mps=-each.left_mps) for each in motions
    )


def _disobedient(motions: Sequence[Motion]) -> dict[str, tuple[Motion, ...]]:
    """Return motions that ignore or oppose the commands of the demonstration."""
    keeps_going = [*motions]
    for place in range(1, len(motions)):
        own = motions[place]
        if own.command is not None and not any(own.command):
            before = keeps_going[place - 1]
            keeps_going[place] = _changed(before, seconds=own.seconds, command=own.command)
    led = {
        "ignores every command": tuple(
            Motion(seconds=each.seconds, command=each.command) for each in motions
        ),
        "keeps going when commanded to stand": tuple(keeps_going),
        "ignores turn commands": tuple(_changed(each, turn_rps=0.0) for each in motions),
        "ignores sideways commands": tuple(_changed(each, left_mps=0.0) for each in motions),
        "goes opposite to the command": _reversed(motions),
        "turns opposite to the command": tuple(
            _changed(each, turn_rps=-each.turn_rps) for each in motions
        ),
    }
    # Without a lateral command there is nothing to ignore.
    return {name: other for name, other in led.items() if other != tuple(motions)}
