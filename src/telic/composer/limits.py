"""What must hold throughout: guards, so that keeping to them never earns anything by itself."""

from __future__ import annotations

import math

from telic.composer.draft import Draft
from telic.composer.frames import Limit, LimitKind
from telic.composer.manners import be_quieter, stay_on_feet, stay_upright
from telic.composer.parts import bodies_of
from telic.composer.scene import Scene
from telic.composer.styles import change_slowly

_DRIFT_M, _TURN_RAD, _HEIGHT_M = 0.5, 0.5, 0.15


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
            _no_hands(scene, draft)
        case LimitKind.LOW_ENERGY:
            be_quieter(scene, draft)
        case LimitKind.SMOOTH | LimitKind.QUIET:
            be_quieter(scene, draft)
            change_slowly(scene, draft)
        case _:
            draft.doubt(f'"{limit.words}" asks for nothing: this robot cannot do otherwise')


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
        _know_the_way_back(scene, draft)
        draft.need("drift = quantities.horizontal_speed(info)")
        draft.add(
            "stay",
            f"-drift.clamp(max=2.0) - (strayed / {most:.4g}).clamp(max=2.0)",
            0.3,
            "not going anywhere, and not being elsewhere",
            r"-v_{xy} - d / d^*",
        )
        value = 'float(np.max(np.abs(episode["displacement"])))'
        if scene.has("y_position"):
            draft.measure(
                'x, y = episode["x_position"], episode["y_position"]',
                "strayed = np.hypot(x - x[0], y - y[0])",
            )
            value = "float(np.max(strayed))"
    draft.guard(
        f"stays within {most:g} m" + (" ahead" if is_forward else ""),
        "farthest from the start",
        value,
        zero=3.0 * most,
        goal=most,
        unit="m",
        tag="drifts",
    )


def _know_the_way_back(scene: Scene, draft: Draft) -> None:
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
    draft.guard(
        "does not turn",
        "most turns of the heading from the start",
        'float(np.max(np.abs(episode["heading_turns"])))',
        zero=4.0 * turns,
        goal=turns,
        unit="turns",
        tag="drifts",
    )


def _stay_down(draft: Draft) -> None:
    draft.need("grounded = (quantities.feet_in_contact(info) > 0).float()")
    draft.add("grounded", "grounded", 0.3, "a foot on the ground", r"[\text{foot}]")
    draft.measure(
        'flying = episode["air_time"]',
        'rise = episode.since(episode["height"], flying == 0)',
    )
    draft.guard(
        "stays on the ground",
        "share of the time in flights of over 0.1 s that rise 0.05 m",
        "float(np.mean((flying > 0.1) & (rise > 0.05)))",
        zero=0.3,
        goal=0.05,
        tag="too_high",
    )


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
    draft.guard(title, "share of the time", f"episode.share({holds})", zero=0.2, goal=0.75, tag=tag)


def _no_hands(scene: Scene, draft: Draft) -> None:
    hands = bodies_of(frozenset({"hand"}), "hand", scene.spec) or scene.feet("front")
    if not hands or scene.spec.robot is None:
        draft.doubt("this robot has no hands to keep off the ground")
        return
    least = scene.spec.robot.contact_threshold
    on = ", ".join(f'quantities.contact_force(info, "{each}")' for each in hands)
    judged = ", ".join(f'episode.quantity("contact_force", "{each}")' for each in hands)
    draft.need(f"handed = (torch.stack(({on},), -1).amax(-1) > {least:.4g}).float()")
    draft.add("handed", "-handed", 0.5, "hands on the ground, as a cost", r"-[\text{hands}]")
    draft.guard(
        "keeps its hands off the ground",
        "share of the time with a hand on the ground",
        f"float(np.mean(np.stack(({judged},), -1).max(-1) > {least:.4g}))",
        zero=0.4,
        goal=0.05,
        tag="falls",
    )
