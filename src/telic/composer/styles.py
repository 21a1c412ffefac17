"""In what manner something is done."""

from __future__ import annotations

from telic.composer.draft import Draft
from telic.composer.frames import Frame, Style, Verb
from telic.composer.manners import be_quieter, cost_of_change
from telic.composer.scene import Scene

_WEIGHT = 1.5


def do_it(style: Style, frame: Frame, scene: Scene, draft: Draft) -> None:
    """Reward and judge one style."""
    match style:
        case Style.EFFICIENT:
            be_quieter(scene, draft)
        case Style.SMOOTH | Style.GENTLE:
            be_quieter(scene, draft)
            change_slowly(scene, draft)
        case Style.ALTERNATING:
            _alternate(scene, draft)
        case Style.SYMMETRIC:
            _symmetric(scene, draft)
        case Style.STEADY:
            _steady(frame, scene, draft)
        case Style.EXPLOSIVE:
            _explosive(scene, draft)
        case Style.NATURAL:
            _natural(frame, scene, draft)


def change_slowly(scene: Scene, draft: Draft) -> None:
    """Change the action little from step to step."""
    if not scene.has("action_change"):
        return
    square = cost_of_change(scene, draft, 0.3)
    draft.leaf(
        "moves smoothly",
        "mean squared change of the action",
        'float(np.mean(episode["action_change"]))',
        zero=0.6 * square,
        goal=0.2 * square,
        weight=0.5,
        tag="jitters",
    )


def _alternate(scene: Scene, draft: Draft) -> None:
    scene.require("stride_alternation", "alternate between its feet")
    draft.remember("strides", 5)
    draft.need(
        'self.memory["strides"], alternation = quantities.stride_alternation.update('
        'self.memory["strides"], info)'
    )
    draft.add("alternate", "alternation", 0.3, "one side after the other", r"a")
    draft.leaf(
        "alternates its feet",
        "share of touchdowns that follow one of the other side",
        'float(episode["stride_alternation"][-1])',
        zero=0.3,
        goal=0.75,
        weight=_WEIGHT,
        kind="cumulative",
        tag="one_sided",
    )


def _symmetric(scene: Scene, draft: Draft) -> None:
    scene.require("stride_alternation", "be symmetric")
    robot = scene.spec.robot
    assert robot is not None and robot.sides is not None  # the quantity says so
    one, other = (list(each) for each in robot.sides)
    width = 1 + len(scene.spec.feet)
    draft.remember("duty", width)
    draft.need(
        'self.memory["duty"], duty = quantities.foot_duty_factor.update(self.memory["duty"], info)',
        f"skew = (duty[:, {one}].mean(-1) - duty[:, {other}].mean(-1)).abs()",
    )
    draft.add("symmetric", "-skew", 0.5, "both sides used alike", r"-|d_l - d_r|")
    draft.measure(
        'duty = episode["foot_duty_factor"][-1]',
        f"skew = float(abs(duty[{one}].mean() - duty[{other}].mean()))",
    )
    draft.leaf(
        "uses both sides alike",
        "difference of the sides' share of time on the ground",
        "skew",
        zero=0.5,
        goal=0.15,
        weight=1.0,
        kind="cumulative",
        tag="one_sided",
    )


def _steady(frame: Frame, scene: Scene, draft: Draft) -> None:
    if frame.verb is not Verb.GO or not scene.has("horizontal_speed"):
        change_slowly(scene, draft)
        return
    draft.measure(
        'pace = episode["horizontal_speed"][len(episode) // 4 :]',
        "spread = float(np.std(pace) / max(float(np.mean(pace)), 1e-6))",
    )
    draft.leaf(
        "keeps its pace",
        "spread of the speed over its mean, after the start",
        "spread",
        zero=1.0,
        goal=0.4,
        weight=1.0,
        tag="jitters",
    )
    change_slowly(scene, draft)


def _explosive(scene: Scene, draft: Draft) -> None:
    scene.require("speed", "be explosive")
    fast = max(0.5 * float(scene.known["top_speed"]), 0.2)
    draft.need("burst = quantities.speed(info)")
    draft.add(
        "burst", f"(burst / {fast:.4g}).clamp(0.0, 2.0)", 0.3, "fast, whatever the direction", "v"
    )
    draft.leaf(
        "bursts into motion",
        "fastest moment of the torso",
        'float(np.max(episode["speed"]))',
        zero=0.3 * fast,
        goal=fast,
        weight=1.0,
        unit="m/s",
        kind="cumulative",
        tag="too_slow",
    )


def _natural(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Move without haste or waste, and on one foot after the other where it walks."""
    be_quieter(scene, draft)
    change_slowly(scene, draft)
    if frame.verb is Verb.GO and scene.has("stride_alternation"):
        _alternate(scene, draft)
    draft.doubt("natural is taken as smooth, gentle on the motors and with alternating feet")
