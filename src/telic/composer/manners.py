"""What comes with other behaviours: staying on one's feet, going straight, being quiet.

Limits hold throughout: they are guards, so that keeping to them never earns anything by itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from telic.composer.draft import Draft
from telic.composer.frames import Act, Frame, Limit, LimitKind
from telic.composer.parts import bodies_of
from telic.composer.scene import Scene
from telic.core.text import is_row

ALIVE = 0.3
"""paid for every step that a robot has not fallen, where little is enough"""
_RESTS_ON = 5.0
"""contact thresholds, of 1 % of the weight each, from which a body carries weight"""
_OF_LEGS = (Act.GO, Act.CIRCLE, Act.TURN, Act.STAND, Act.STOP, Act.OBEY)
"""what legs alone do"""
_TURNS = ("pitch_turns", "roll_turns", "heading_turns")
_AT_EASE = 0.2
"""rad, how far arms and waist may be from the pose they rest in"""
_LEANS = 0.25
"""rad, how far it may lean as it goes"""
_DRIFT_M, _TURN_RAD, _HEIGHT_M = 0.5, 0.5, 0.15


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
    code = f"torch.exp(-((lift / {width:.4g}) ** 2))"
    draft.add("posture", code, 0.5, "at its standing height", r"e^{-(\Delta h/w)^2}")
    draft.measure(scene.lift(judged=True))
    meaning = f"share of the time within {width:.2g} m of the standing height"
    value = f"episode.share(np.abs(lift) < {width:.4g})"
    draft.leaf("keeps its height", meaning, value, 0.3, 0.8, weight=1.5, tag="falls")


def stay_on_feet(scene: Scene, draft: Draft, *, alive: float | None = None) -> None:
    """Guard against sliding along, against shaking, and against ending early.

    `alive` is what each step is paid for not having fallen; None: by how tall it is.
    """
    if scene.ends_fallen:
        # What is tall falls by lunging, and lunging must not pay for the rest of the episode.
        weight = alive or (1.0 if scene.is_tall else ALIVE)
        draft.add("alive", "torch.ones_like(action[:, 0])", weight, "still on its feet", "1")
        value = "episode.seconds / episode.full_seconds"
        draft.guard("does not end early", "share of the full length", value, 0.2, 0.9, tag="falls")
    # An environment that looks only at the height does not end when the robot lies on its back.
    looks = scene.ends_fallen and "healthy_angle_range" in scene.spec.arguments
    if not looks and scene.has("uprightness", "height"):
        stay_upright(scene, draft)
    _keep_off_ground(scene, draft)
    do_not_shake(scene, draft)


def _keep_off_ground(scene: Scene, draft: Draft) -> None:
    """Guard against sliding on the head or the belly; a short touch is fine."""
    torso, robot = scene.torso, scene.spec.robot
    if torso is None or robot is None or scene.may_fall:
        return
    least = _RESTS_ON * robot.contact_threshold
    draft.need(f'touching = (quantities.contact_force(info, "{torso}") > {least:.4g}).float()')
    draft.add("body", "-touching", 0.3, "body on the ground, as a cost", r"-[\text{body}]")
    meaning = "share of the time with weight on its torso"
    value = f'episode.share(episode.quantity("contact_force", "{torso}") > {least:.4g})'
    draft.guard("keeps its body off the ground", meaning, value, 0.4, 0.1, tag="falls")


def do_not_shake(scene: Scene, draft: Draft) -> None:
    """Guard against full force back and forth at every step, which is 2 here."""
    draft.measure('pushed = np.clip(episode["action_strength"], -1.0, 1.0)')
    meaning = "mean change of the action from step to step, of its strength"
    value = "float(np.mean(np.abs(np.diff(pushed, axis=0)))) if len(pushed) > 1 else 0.0"
    draft.guard("does not just shake", meaning, value, 1.8, 1.4, tag="jitters")


def stay_there(scene: Scene, draft: Draft, is_first: bool) -> None:
    """Guard against moving first and resting then; what comes after a run may still brake."""
    if scene.has("height"):
        draft.measure(scene.leap(judged=True))
        meaning = "highest point above standing"
        value = "float(np.max(leap))"
        draft.guard("does not jump", meaning, value, 0.35, 0.15, unit="m", tag="drifts")
    turns = [each for each in _TURNS if scene.has(each)]
    if turns:
        sizes = ", ".join(f'np.ptp(episode["{turn}"])' for turn in turns)
        meaning = "widest turn there was"
        value = f"float(max([{sizes}]))"
        draft.guard("does not turn", meaning, value, 0.35, 0.15, unit="turns", tag="drifts")
    if is_first and scene.has("x_position"):
        axes = [each for each in ("x_position", "y_position") if scene.has(each)]
        sizes = ", ".join(f'np.ptp(episode["{axis}"])' for axis in axes)
        meaning = "width of the ground it covers"
        value = f"float(max([{sizes}]))"
        draft.guard("stays where it is", meaning, value, 1.5, 0.6, unit="m", tag="drifts")


def stay_upright(scene: Scene, draft: Draft) -> None:
    """Guard against lying on the back, of a tall robot against lying at all."""
    draft.need("upright = quantities.uprightness(info)")
    draft.add("upright", "upright.clamp(-1.0, 1.0)", 0.2, "the right way up", r"\cos\theta")
    title, holds = "is not on its back", 'episode["uprightness"] > 0.2'
    if scene.is_tall:
        title = "is on its feet"
        holds = f'({holds}) & (episode["height"] > {0.5 * scene.stands:.4g})'
    meaning = "share of the time with the torso the right way up"
    draft.guard(title, meaning, f"episode.share({holds})", 0.3, 0.8, tag="falls")


def hold_still(scene: Scene, draft: Draft, weight: float = 1.0) -> None:
    """Keep the torso and the joints at rest: shaking in place is not resting."""
    draft.need("moving = quantities.speed(info)")
    draft.add("still", "torch.exp(-4.0 * moving)", weight, "not moving", r"e^{-4 v}")
    draft.measure('moving = episode["speed"]')
    meaning = "share of the time slower than 0.25 m/s"
    value = "episode.share(moving < 0.25)"
    draft.leaf("stands still", meaning, value, 0.5, 0.9, weight=2.0 * weight, tag="drifts")
    # Whoever jumps now and then is at rest most of the time, too.
    title = "rests without a break"
    meaning = "longest time slower than 0.3 m/s, as a share"
    value = "episode.longest(moving < 0.3) / episode.full_seconds"
    draft.leaf(title, meaning, value, 0.1, 0.5, weight=1.0 * weight, tag="drifts")
    if scene.has("joint_speed"):
        draft.need("shaking = quantities.joint_speed(info)")
        draft.add("calm", "torch.exp(-shaking)", 0.3 * weight, "joints at rest", r"e^{-|\dot q|}")
        meaning = "share of the time with joints slower than 1.5 rad/s"
        value = 'episode.share(episode["joint_speed"] < 1.5)'
        draft.leaf("does not shake", meaning, value, 0.3, 0.8, weight=1.5 * weight, tag="jitters")


def carry_oneself(frames: Sequence[Frame], scene: Scene, draft: Draft) -> None:
    """Let a robot with arms that is driven by position stand upright, its arms at rest.

    Nothing else in going is about them: it would throw them about, and sway from foot to foot.
    Where words speak of other limbs, those words rule.
    """
    of_legs = all(
        frame.verb in _OF_LEGS and not frame.postures and not frame.bodies for frame in frames
    )
    is_driven = "commands" in scene.spec.arguments
    if not of_legs or not is_driven or not scene.has("upper_pose_error"):
        return
    draft.need("swung = quantities.upper_pose_error(info)")
    code = f"torch.exp(-((swung / {_AT_EASE:g}) ** 2)) - swung.clamp(max=1.0)"
    latex = rf"e^{{-(u/{_AT_EASE:g})^2}} - u"
    draft.add("carriage", code, 0.8, "arms and waist near the pose it stands in", latex)
    if scene.has("uprightness"):
        draft.need("leans = 1.0 - quantities.uprightness(info)")
        code = f"torch.exp(-leans / {1.0 - math.cos(_LEANS):.3g}) - 2.0 * leans"
        latex = r"e^{-(1 - \cos\theta)/w} - 2 (1 - \cos\theta)"
        draft.add("poise", code, 1.0, "upright, not swaying", latex)
    if scene.has("leg_splay") and len(scene.spec.feet) == 2:
        draft.need("splayed = quantities.leg_splay(info)")
        code = f"torch.exp(-((splayed / {_AT_EASE:g}) ** 2)) - splayed.clamp(max=1.0)"
        latex = rf"e^{{-(s/{_AT_EASE:g})^2}} - s"
        draft.add("stance", code, 0.6, "legs below it, neither spread nor turned", latex)


def cost_of_change(scene: Scene, draft: Draft, weight: float) -> None:
    """Make changes of the action cost."""
    draft.remember("last", 1 + scene.spec.act_dim)
    draft.need(
        'self.memory["last"], jerk = quantities.action_change.update(self.memory["last"], info)'
    )
    code = "-jerk.clamp(max=4.0)"
    draft.add("smooth", code, weight, "change of the action, as a cost", r"-\Delta a^2")


def do_it_on_purpose(scene: Scene, draft: Draft) -> None:
    """Guard against thrashing about until it happens by chance."""
    if not scene.has("action_change"):
        return
    cost_of_change(scene, draft, 0.2)
    # Actions drawn at random from [-1, 1] change by 2/3 on average, squared.
    title = "does not thrash about"
    meaning = "mean squared change of the action"
    value = 'float(np.mean(episode["action_change"]))'
    draft.guard(title, meaning, value, 0.66, 0.45, tag="jitters")


def rest_after(scene: Scene, draft: Draft, done: str) -> None:
    """Reward rest once something is done, `done` being a float (N,) of the reward."""
    if scene.has("speed"):
        code = f"{done} * torch.exp(-quantities.speed(info))"
        draft.add("rest", code, 1.0, "at rest once it is done", r"[\text{done}] e^{-v}")


def allow_height(scene: Scene, draft: Draft, top: float) -> None:
    """Let the torso rise this high, metres, where the environment would end the episode."""
    limits = scene.spec.arguments.get("healthy_z_range")
    if is_row(limits) and scene.ends_fallen and limits[1] < top:
        draft.env_args["healthy_z_range"] = [float(limits[0]), round(top, 2)]


def be_quiet(draft: Draft, weight: float = 0.1) -> None:
    """Add the small penalty that keeps learning healthy."""
    draft.need("effort = quantities.effort(info)")
    draft.add("control", "-effort", weight, "mean squared action, as a cost", r"-\overline{a^2}")


def be_quieter(scene: Scene, draft: Draft) -> None:
    """Use the motors gently, and be judged on it."""
    be_quiet(draft, 0.4)
    draft.measure('effort = episode["effort"]')
    title = "is gentle on its motors"
    meaning = "mean squared action"
    value = "float(np.mean(effort))"
    draft.leaf(title, meaning, value, 0.9, 0.45, weight=0.5, tag="jitters")


def change_slowly(scene: Scene, draft: Draft) -> None:
    """Change the action little from step to step."""
    if not scene.has("action_change"):
        return
    cost_of_change(scene, draft, 0.3)
    title = "moves smoothly"
    meaning = "mean squared change of the action"
    value = 'float(np.mean(episode["action_change"]))'
    draft.leaf(title, meaning, value, 0.6, 0.2, weight=0.5, tag="jitters")


def respect(limit: Limit, scene: Scene, draft: Draft) -> None:
    """Reward and judge keeping to a limit; one the robot cannot break asks for nothing."""
    match limit.kind:
        case LimitKind.NO_FALL:
            stay_on_feet(scene, draft)
        case LimitKind.UPRIGHT if scene.has("uprightness", "height"):
            stay_upright(scene, draft)
        case LimitKind.NO_DRIFT | LimitKind.NO_FORWARD if scene.has("displacement"):
            _stay(limit, scene, draft)
        case LimitKind.NO_TURN if scene.has("heading_turns"):
            _face_ahead(limit, draft)
        case LimitKind.NO_JUMP if scene.has("air_time"):
            _stay_down(draft)
        case LimitKind.LOW_HEIGHT | LimitKind.KEEP_HEIGHT if scene.has("height"):
            _keep_height(limit, scene, draft)
        case LimitKind.NO_HANDS:
            hands = bodies_of(frozenset({"hand"}), "hand", scene.spec) or scene.feet("front")
            _keep_off(hands, "hands", scene, draft)
        case LimitKind.NO_TOUCH:
            _keep_off(limit.bodies, limit.part or "body", scene, draft)
        case LimitKind.LOW_ENERGY:
            be_quieter(scene, draft)
        case LimitKind.SMOOTH | LimitKind.QUIET:
            be_quieter(scene, draft)
            change_slowly(scene, draft)
        case _:
            why = "this robot cannot do otherwise"
            draft.doubt(f'"{limit.words}" asks for nothing: {why}', holds=True)


def _stay(limit: Limit, scene: Scene, draft: Draft) -> None:
    """Stay within a distance of the start; along x only, if just forward is forbidden."""
    is_forward = limit.kind is LimitKind.NO_FORWARD
    amount = limit.amount
    most = amount.value if amount and amount.unit == "m" and amount.value > 0.0 else _DRIFT_M
    if is_forward:
        draft.need("ahead = quantities.forward_velocity(info)")
        draft.add("stay", "-ahead.clamp(0.0, 2.0)", 0.3, "not going forward", r"-\max(v_x, 0)")
        value = 'float(np.max(episode["displacement"]))'
    else:
        know_the_way_back(scene, draft)
        draft.need("drift = quantities.horizontal_speed(info)")
        code = f"-drift.clamp(max=2.0) - (strayed / {most:.4g}).clamp(max=2.0)"
        meaning = "not going anywhere, and not being elsewhere"
        # Light: who is thrown about at first would rather fall than pay more than living earns.
        draft.add("stay", code, 0.2, meaning, r"-v_{xy} - d / d^*")
        value = 'float(np.max(np.abs(episode["displacement"])))'
        if scene.has("y_position"):
            draft.measure(
                'x, y = episode["x_position"], episode["y_position"]',
                "strayed = np.hypot(x - x[0], y - y[0])",
            )
            value = "float(np.max(strayed))"
    title = f"stays within {most:g} m" + (" ahead" if is_forward else "")
    draft.guard(title, "farthest from the start", value, 3.0 * most, most, unit="m", tag="drifts")


def know_the_way_back(scene: Scene, draft: Draft) -> None:
    """Remember where it began and how far away that is: observations leave the place out."""
    axes = ["x", "y"] if scene.has("y_position") else ["x"]
    width = len(axes)
    draft.remember("spot", 1 + 2 * width)
    places = ", ".join(f"quantities.{axis}_position(info)" for axis in axes)
    draft.need(
        f"here = torch.stack(({places},), -1)",
        f'kept = self.memory["spot"][:, 1:{1 + width}]',
        'spot = torch.where(self.memory["spot"][:, :1] > 0, kept, here)',
        "gone = here - spot",
        'self.memory["spot"] = torch.cat((torch.ones_like(here[:, :1]), spot, gone), -1)',
        "strayed = gone.norm(dim=-1)",
    )


def _face_ahead(limit: Limit, draft: Draft) -> None:
    amount = limit.amount
    most = amount.value if amount and amount.unit == "rad" and amount.value > 0.0 else _TURN_RAD
    draft.need("veer = quantities.heading_rate(info)")
    draft.add("ahead", "-veer.abs().clamp(max=3.0)", 0.2, "not turning", r"-|\omega|")
    turns = most / (2.0 * math.pi)
    meaning = "most turns of the heading from the start"
    value = 'float(np.max(np.abs(episode["heading_turns"])))'
    draft.guard("does not turn", meaning, value, 4.0 * turns, turns, unit="turns", tag="drifts")


def _stay_down(draft: Draft) -> None:
    draft.need("grounded = (quantities.feet_in_contact(info) > 0).float()")
    draft.add("grounded", "grounded", 0.3, "a foot on the ground", r"[\text{foot}]")
    draft.measure(
        'flying = episode["air_time"]', 'rise = episode.since(episode["height"], flying == 0)'
    )
    meaning = "share of the time in flights of over 0.1 s that rise 0.05 m"
    value = "float(np.mean((flying > 0.1) & (rise > 0.05)))"
    draft.guard("stays on the ground", meaning, value, 0.3, 0.05, tag="too_high")


def _keep_height(limit: Limit, scene: Scene, draft: Draft) -> None:
    """Keep the torso below, above or about a height."""
    amount = limit.amount
    said = amount.value if amount and amount.unit == "m" and amount.value > 0.0 else None
    draft.need("tall = quantities.height(info)")
    draft.measure('tall = episode["height"]')
    if limit.kind is LimitKind.LOW_HEIGHT:
        most = said or scene.lies + 0.7 * (scene.stands - scene.lies)
        reward, holds = f"-(tall - {most:.4g}).clamp(0.0, 1.0)", f"tall < {most:.4g}"
        title, tag = f"keeps its torso below {most:.2g} m", "too_high"
    elif amount is not None and amount.rule == "at_least":
        reward, holds = f"(tall - {said:.4g}).clamp(-1.0, 0.0)", f"tall > {said:.4g}"
        title, tag = f"keeps its torso above {said:.2g} m", "too_low"
    else:
        about = said or scene.stands
        reward = f"-(tall - {about:.4g}).abs().clamp(max=1.0)"
        holds = f"np.abs(tall - {about:.4g}) < {_HEIGHT_M:g}"
        title, tag = f"keeps its torso about {about:.2g} m high", "too_low"
    draft.add("tall", reward, 2.0, title, r"-|\Delta h|")
    draft.guard(title, "share of the time", f"episode.share({holds})", 0.2, 0.75, tag=tag)


def _keep_off(bodies: Sequence[str], name: str, scene: Scene, draft: Draft) -> None:
    """Keep some bodies off the ground; what the robot does not have is off it anyway."""
    if not bodies or scene.spec.robot is None:
        draft.doubt(f"this robot has no {name} to keep off the ground", holds=True)
        return
    if set(scene.spec.feet) <= set(bodies):
        raise scene.cannot(f"keep its {name} off the ground", "it has no other foot to stand on")
    rewarded, judged = on_hands(bodies, scene.spec.robot.contact_threshold)
    draft.need(f"handed = {rewarded}")
    draft.add("handed", "-handed", 0.5, f"{name} on the ground, as a cost", r"-[\text{touch}]")
    meaning = f"share of the time with weight on its {name}"
    value = f"float(np.mean({judged}))"
    draft.guard(f"keeps its {name} off the ground", meaning, value, 0.4, 0.05, tag="falls")


def on_hands(hands: Sequence[str], least: float) -> tuple[str, str]:
    """Return code of the reward and of the judge: whether a hand touches the ground."""
    now = ", ".join(f'quantities.contact_force(info, "{hand}")' for hand in hands)
    seen = ", ".join(f'episode.quantity("contact_force", "{hand}")' for hand in hands)
    rewarded = f"(torch.stack(({now},), -1).amax(-1) > {least:.4g}).float()"
    return rewarded, f"np.stack(({seen},), -1).max(-1) > {least:.4g}"
