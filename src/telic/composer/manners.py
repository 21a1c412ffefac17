"""What comes with other behaviours: staying on one's feet, going straight, being quiet."""

from __future__ import annotations

import math

from telic.composer.draft import Draft
from telic.composer.scene import Scene

_RESTS_ON = 5.0
"""contact thresholds, of 1 % of the weight each, from which a body carries weight"""
_TURNS = ("pitch_turns", "roll_turns", "heading_turns")


def stay_straight(scene: Scene, draft: Draft, quantity: str) -> None:
    """Do not go aside, where that is possible."""
    other = "lateral_velocity" if quantity == "forward_velocity" else "forward_velocity"
    if scene.has(other, "lateral_velocity"):
        draft.need(f"aside = {scene.velocity(other)}")
        draft.add("straight", "-aside.abs().clamp(max=2.0)", 0.2, "not going aside", r"-|v_y|")


def judge_travel(draft: Draft, way: str) -> None:
    """Measure how fast a place moves: `along` at each step, and `travelled` over the full time.

    The velocity at the end of a step is not asked: shaking makes it large.
    """
    draft.measure(
        f"way = {way}",
        "along = episode.pace(way)",
        "travelled = float(way[-1] - way[0]) / max(episode.full_seconds - episode.dt, episode.dt)",
    )


def follow_heading(scene: Scene, draft: Draft, sign: str) -> None:
    """Give the reward `turns` so far, and `turning` to one side, rad/s, as the mean of the step."""
    draft.remember("turned", 6)
    draft.remember("faced")
    per_second = 2.0 * math.pi / (scene.spec.dt_s or 1.0)
    draft.need(
        'self.memory["turned"], turns = quantities.heading_turns.update('
        'self.memory["turned"], info)',
        f'turning = {sign}{per_second:.6g} * (turns - self.memory["faced"])',
        'self.memory["faced"] = turns',
    )


def rest_height(scene: Scene, draft: Draft) -> None:
    """Keep the height of standing."""
    if not scene.has("height"):
        return
    width = min(0.25, 0.4 * (scene.stands - scene.lies))
    draft.need(scene.lift())
    draft.add(
        "posture",
        f"torch.exp(-((lift / {width:.4g}) ** 2))",
        0.5,
        "at its standing height",
        r"e^{-(\Delta h/w)^2}",
    )
    draft.measure(scene.lift(judged=True))
    draft.leaf(
        "keeps its height",
        f"share of the time within {width:.2g} m of the standing height",
        f"episode.share(np.abs(lift) < {width:.4g})",
        zero=0.3,
        goal=0.8,
        weight=1.5,
        tag="falls",
    )


def stay_on_feet(scene: Scene, draft: Draft) -> None:
    """Guard against sliding along, against shaking, and against ending early."""
    if scene.ends_fallen:
        # What is tall falls by lunging, and lunging must not pay for the rest of the episode.
        weight = 1.0 if scene.is_tall else 0.3
        draft.add("alive", "torch.ones_like(action[:, 0])", weight, "still on its feet", "1")
        draft.guard(
            "does not end early",
            "share of the full length",
            "episode.seconds / episode.full_seconds",
            zero=0.2,
            goal=0.9,
            tag="falls",
        )
    # An environment that looks only at the height does not end when the robot lies on its back.
    looks = scene.ends_fallen and "healthy_angle_range" in scene.spec.arguments
    if not looks and scene.has("uprightness", "height"):
        stay_upright(scene, draft)
    _keep_off_ground(scene, draft)
    _do_not_shake(scene, draft)


def _keep_off_ground(scene: Scene, draft: Draft) -> None:
    """Guard against sliding on the head or the belly; a short touch is fine."""
    torso, robot = scene.torso, scene.spec.robot
    if torso is None or robot is None or scene.may_fall:
        return
    least = _RESTS_ON * robot.contact_threshold
    draft.need(f'touching = (quantities.contact_force(info, "{torso}") > {least:.4g}).float()')
    draft.add("body", "-touching", 0.3, "body on the ground, as a cost", r"-[\text{body}]")
    draft.guard(
        "keeps its body off the ground",
        "share of the time with weight on its torso",
        f'episode.share(episode.quantity("contact_force", "{torso}") > {least:.4g})',
        zero=0.4,
        goal=0.1,
        tag="falls",
    )


def _do_not_shake(scene: Scene, draft: Draft) -> None:
    """Guard against full force back and forth at every step, which is 2 here."""
    most = strongest(scene)
    draft.measure(f'pushed = np.clip(episode["action"], {-most:.4g}, {most:.4g}) / {most:.4g}')
    draft.guard(
        "does not just shake",
        "mean change of the action from step to step, of its strength",
        "float(np.mean(np.abs(np.diff(pushed, axis=0)))) if len(pushed) > 1 else 0.0",
        zero=1.8,
        goal=1.4,
        tag="jitters",
    )


def stay_there(scene: Scene, draft: Draft, is_first: bool) -> None:
    """Guard against moving first and resting then; what comes after a run may still brake."""
    if scene.has("height"):
        draft.measure(scene.leap(judged=True))
        draft.guard(
            "does not jump",
            "highest point above standing",
            "float(np.max(leap))",
            zero=0.35,
            goal=0.15,
            unit="m",
            tag="drifts",
        )
    turns = [each for each in _TURNS if scene.has(each)]
    if turns:
        sizes = ", ".join(f'np.ptp(episode["{each}"])' for each in turns)
        draft.guard(
            "does not turn",
            "widest turn there was",
            f"float(max([{sizes}]))",
            zero=0.35,
            goal=0.15,
            unit="turns",
            tag="drifts",
        )
    if is_first and scene.has("x_position"):
        axes = [each for each in ("x_position", "y_position") if scene.has(each)]
        sizes = ", ".join(f'np.ptp(episode["{each}"])' for each in axes)
        draft.guard(
            "stays where it is",
            "width of the ground it covers",
            f"float(max([{sizes}]))",
            zero=1.5,
            goal=0.6,
            unit="m",
            tag="drifts",
        )


def stay_upright(scene: Scene, draft: Draft) -> None:
    """Guard against lying on the back, of a tall robot against lying at all."""
    draft.need("upright = quantities.uprightness(info)")
    draft.add("upright", "upright.clamp(-1.0, 1.0)", 0.2, "the right way up", r"\cos\theta")
    title, holds = "is not on its back", 'episode["uprightness"] > 0.2'
    if scene.is_tall:
        title = "is on its feet"
        holds = f'({holds}) & (episode["height"] > {0.5 * scene.stands:.4g})'
    draft.guard(
        title,
        "share of the time with the torso the right way up",
        f"episode.share({holds})",
        zero=0.3,
        goal=0.8,
        tag="falls",
    )


def hold_still(scene: Scene, draft: Draft, weight: float = 1.0) -> None:
    """Keep the torso and the joints at rest: shaking in place is not resting."""
    draft.need("moving = quantities.speed(info)")
    draft.add("still", "torch.exp(-4.0 * moving)", weight, "not moving", r"e^{-4 v}")
    draft.measure('moving = episode["speed"]')
    draft.leaf(
        "stands still",
        "share of the time slower than 0.25 m/s",
        "episode.share(moving < 0.25)",
        zero=0.5,
        goal=0.9,
        weight=2.0 * weight,
        tag="drifts",
    )
    # Whoever jumps now and then is at rest most of the time, too.
    draft.leaf(
        "rests without a break",
        "longest time slower than 0.3 m/s, as a share",
        "episode.longest(moving < 0.3) / episode.full_seconds",
        zero=0.1,
        goal=0.5,
        weight=1.0 * weight,
        tag="drifts",
    )
    if scene.has("joint_speed"):
        draft.need("shaking = quantities.joint_speed(info)")
        draft.add("calm", "torch.exp(-shaking)", 0.3 * weight, "joints at rest", r"e^{-|\dot q|}")
        draft.leaf(
            "does not shake",
            "share of the time with joints slower than 1.5 rad/s",
            'episode.share(episode["joint_speed"] < 1.5)',
            zero=0.3,
            goal=0.8,
            weight=1.5 * weight,
            tag="jitters",
        )


def cost_of_change(scene: Scene, draft: Draft, weight: float) -> float:
    """Make changes of the action cost; return the squared strength that they are measured in."""
    square = strongest(scene) ** 2
    draft.remember("last", 1 + scene.spec.act_dim)
    draft.need(
        'self.memory["last"], jerk = quantities.action_change.update(self.memory["last"], info)'
    )
    draft.add(
        "smooth",
        f"-(jerk / {square:.4g}).clamp(max=4.0)",
        weight,
        "change of the action, as a cost",
        r"-\Delta a^2",
    )
    return square


def do_it_on_purpose(scene: Scene, draft: Draft) -> None:
    """Guard against thrashing about until it happens by chance."""
    if not scene.has("action_change"):
        return
    square = cost_of_change(scene, draft, 0.2)
    # Actions drawn at random change by 2/3 of the squared strength on average.
    draft.guard(
        "does not thrash about",
        "mean squared change of the action",
        'float(np.mean(episode["action_change"]))',
        zero=0.66 * square,
        goal=0.45 * square,
        tag="jitters",
    )


def strongest(scene: Scene) -> float:
    """Return the largest action there is, 10 at most."""
    return min(max((abs(each) for each in scene.spec.action_high), default=1.0), 10.0)


def rest_after(scene: Scene, draft: Draft, done: str) -> None:
    """Reward rest once something is done, `done` being a float (N,) of the reward."""
    if scene.has("speed"):
        draft.add(
            "rest",
            f"{done} * torch.exp(-quantities.speed(info))",
            1.0,
            "at rest once it is done",
            r"[\text{done}] e^{-v}",
        )


def allow_height(scene: Scene, draft: Draft, top: float) -> None:
    """Let the torso rise this high, metres, where the environment would end the episode."""
    limits = scene.spec.arguments.get("healthy_z_range")
    if isinstance(limits, list | tuple) and scene.ends_fallen and limits[1] < top:
        draft.env_args["healthy_z_range"] = [float(limits[0]), round(top, 2)]


def be_quiet(draft: Draft) -> None:
    """Add the small penalty that keeps learning healthy."""
    draft.need("effort = action.square().mean(-1)")
    draft.add("control", "-effort", 0.1, "mean squared action, as a cost", r"-\overline{a^2}")


def be_quieter(scene: Scene, draft: Draft) -> None:
    """Use the motors gently, and be judged on it."""
    draft.need("effort = action.square().mean(-1)")
    draft.add("control", "-effort", 0.4, "mean squared action, as a cost", r"-\overline{a^2}")
    square = strongest(scene) ** 2
    draft.measure('effort = (episode["action"] ** 2).mean(-1)')
    draft.leaf(
        "is gentle on its motors",
        "mean squared action",
        "float(np.mean(effort))",
        zero=0.9 * square,
        goal=0.45 * square,
        weight=0.5,
        tag="jitters",
    )
