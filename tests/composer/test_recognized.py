"""Composed judges know the real thing when they see it, and no look-alike passes for it."""

import pytest
import torch

from telic.composer.compose import compose
from telic.errors import BadEnvironment
from telic.judges.code import JudgeCode
from telic.judges.criteria import Motion
from telic.judges.demonstrations import demonstrate
from telic.judges.failure_modes import failure_modes
from telic.rewards.recording import TransitionRecording
from telic.rewards.reward import load_reward
from tests.composer.specs import judged, judged_as, spec_of
from tests.judges.playing import demonstration

CHEETAH, ANT, HOPPER = "HalfCheetah-v5", "Ant-v5", "Hopper-v5"
HUMANOID, SWIMMER, WALKER = "Humanoid-v5", "Swimmer-v5", "Walker2d-v5"
STILL = Motion(seconds=20)
WALKING = {"stride_hz": 1.3, "feet": ((0.25,), (0.0,), (0.5,), (0.75,)), "duty": 0.65}
"""feet of an Ant that walks"""
BACKWARD = {"stride_hz": 1.0, "feet": ((0.5,), (0.75,), (0.25,), (0.0,)), "duty": 0.65}
TWO_FEET = {"stride_hz": 1.0, "feet": ((0.0,), (0.5,)), "duty": 0.62}
JUMP = Motion(seconds=2, jumps=1, height_m=0.9)
RUN = Motion(seconds=4, forward_mps=2.2, stride_hz=2)


def go(seconds, speed, **more):
    return Motion(seconds=seconds, forward_mps=speed, **more)


def jumps(seconds, count, height=0.9, **more):
    return Motion(seconds=seconds, jumps=count, height_m=height, **more)


GOOD = [
    (CHEETAH, "run forward fast", [go(8, 3.2, stride_hz=2)]),
    (CHEETAH, "stand still", [STILL]),
    (CHEETAH, "jump", [jumps(5, 2)]),
    (CHEETAH, "jump three times", [jumps(5, 3), STILL]),
    (CHEETAH, "hop in place", [jumps(8, 12, 0.2)]),
    (HOPPER, "hop forward", [jumps(8, 12, 0.2, forward_mps=0.9)]),
    (CHEETAH, "do a backflip", [jumps(1, 1, pitch_turns=-1.0), STILL]),
    (ANT, "do a cartwheel", [Motion(seconds=1.5, roll_turns=1.0), STILL]),
    (ANT, "keep rolling to the side", [Motion(seconds=5.0, roll_turns=3.0)]),
    (ANT, "jump forward", [jumps(5, 2, 0.7, forward_mps=1.2)]),
    (ANT, "walk 2 m", [go(5, 0.4, **WALKING), STILL]),
    (ANT, "walk forward and to the left", [go(8, 0.7, left_mps=0.7, **WALKING)]),
    (ANT, "walk in a circle", [go(30, 0.48, turn_rps=0.8, circle=True)]),
    (ANT, "walk in a circle clockwise", [go(30, 0.48, turn_rps=-0.8, circle=True)]),
    (ANT, "turn 180 degrees left", [Motion(seconds=3, turn_rps=1.0472), STILL]),
    (ANT, "spin twice", [Motion(seconds=10, turn_rps=1.2566), STILL]),
    (CHEETAH, "go at least 3 m", [go(6, 1.0, stride_hz=2), STILL]),
    (ANT, "spin several turns", [Motion(seconds=20, turn_rps=0.95), STILL]),
    (ANT, "spin several turns", [Motion(seconds=20, turn_rps=1.7), STILL]),  # who counts?
    (ANT, "spin clockwise", [Motion(seconds=10, turn_rps=-1.1)]),
    (ANT, "run forward without turning or jumping", [go(8, 2.0, stride_hz=3)]),
    (SWIMMER, "swim forward", [go(8, 0.15, stride_hz=1)]),
    (CHEETAH, "walk slowly", [go(8, 0.4, **TWO_FEET)]),
    (HUMANOID, "stand still", [STILL]),
    (CHEETAH, "run forward and come back", None),
    (CHEETAH, "jump every 2 seconds", None),
    (CHEETAH, "jump, then stand still", [JUMP, STILL]),
    (CHEETAH, "run forward for 3 seconds, then stop", [RUN, STILL]),
    (CHEETAH, "jump twice, then run forward", [JUMP, JUMP, RUN]),
    (HOPPER, "jump once, then stand still", [jumps(1.5, 1, 0.45), STILL]),
    (
        ANT,
        "walk for 3 s, then walk backward for 3 s",
        [go(3, 1.0, **WALKING), go(20, -1, **BACKWARD)],
    ),
    (
        ANT,
        "walk forward for 3 seconds, then turn around and walk back",
        [go(4, 1.0, **WALKING), Motion(seconds=4, turn_rps=0.8), go(12, 1, circle=True, **WALKING)],
    ),
]
# What looks like it in some way, and is not: half of it, the wrong way, without the guard.
ALIKE = [
    (CHEETAH, "run forward fast", [go(8, -3.2)]),
    (CHEETAH, "walk slowly", [go(8, 5.0)]),
    (CHEETAH, "do a backflip", [jumps(1, 1, pitch_turns=-0.5), STILL]),
    (CHEETAH, "do a backflip", [jumps(1, 1, pitch_turns=1.0), STILL]),
    (CHEETAH, "jump three times", [jumps(5, 1), STILL]),
    (CHEETAH, "jump three times", [jumps(5, 6), STILL]),
    (CHEETAH, "hop in place", [STILL]),
    (HOPPER, "hop forward", [go(8, 0.9)]),
    (ANT, "walk in a circle", [go(30, 0.48)]),
    (ANT, "walk in a circle", [Motion(seconds=30, turn_rps=0.8)]),
    (ANT, "walk in a circle clockwise", [go(30, 0.48, turn_rps=0.8, circle=True)]),
    (ANT, "turn 180 degrees left", [Motion(seconds=3, turn_rps=-1.0472), STILL]),
    (ANT, "turn 180 degrees left", [Motion(seconds=20, turn_rps=1.0472)]),
    (ANT, "spin several turns", [Motion(seconds=20, turn_rps=0.5), STILL]),
    (ANT, "spin three turns", [Motion(seconds=20, turn_rps=1.7), STILL]),
    (ANT, "walk 2 m", [go(20, 0.6, **WALKING)]),
    (ANT, "walk 2 m", [go(5, 0.4), STILL]),
    (CHEETAH, "walk 3 m", [go(5, 0.6), STILL]),
    (CHEETAH, "go at least 3 m", [go(2, 1.0, stride_hz=2), STILL]),
    (CHEETAH, "go 3 m", [go(6, 1.0, stride_hz=2), STILL]),
    (CHEETAH, "go 3 m", [go(20, 0.326)]),  # just there when time is up
    (CHEETAH, "walk slowly", [go(8, 0.37)]),
    (CHEETAH, "run forward and come back", [go(3, 2.2, stride_hz=2), STILL]),
    (CHEETAH, "run forward and come back", [go(3, 2.2, stride_hz=2), go(20, -2.2)]),
    (CHEETAH, "run forward and come back", [STILL]),
    (ANT, "run forward without turning", [go(8, 1.0, turn_rps=1.0, stride_hz=3)]),
    (ANT, "run forward without jumping", [jumps(8, 8, 0.7, forward_mps=1.2)]),
    (ANT, "stand without moving more than 0.5 m", [go(8, 0.24)]),
    (ANT, "stand upright on two legs", [STILL]),
    (CHEETAH, "run on the hind legs", [go(8, 3.2, stride_hz=2)]),
    (HUMANOID, "stand still", [Motion(seconds=8, turn_rps=1.5), STILL]),
    (ANT, "stand still", [Motion(seconds=3, turn_rps=1.5), STILL]),
    (CHEETAH, "stand still", [jumps(1.2, 1, 1.0, pitch_turns=-1), STILL]),
    (CHEETAH, "stand still", [jumps(1, 1, 0.6), STILL]),
    (CHEETAH, "stand still", [go(1, 2.0, stride_hz=1), STILL]),
    (ANT, "walk in a circle to the left", [go(3, 0.9), go(3, -0.9), STILL]),
    (CHEETAH, "jump every 2 seconds", [jumps(1.5, 1, 0.7), STILL]),
    (CHEETAH, "jump every 2 seconds", [jumps(9, 9, 0.7)]),
    (CHEETAH, "jump every 2 seconds", [jumps(6, 2, 0.7), STILL]),
    (CHEETAH, "jump, then stand still", [STILL]),
    (CHEETAH, "jump, then stand still", [JUMP] * 8),
    (CHEETAH, "jump, then stand still", [Motion(seconds=11.5), JUMP, STILL]),
    (CHEETAH, "run forward for 3 seconds, then stop", [RUN]),
    (CHEETAH, "run forward for 3 seconds, then stop", [go(5.5, 2.2, stride_hz=2), STILL]),
    (CHEETAH, "run forward for 3 seconds, then stop", [RUN, Motion(seconds=0.6), RUN, STILL]),
    (CHEETAH, "jump twice, then run forward", [RUN, JUMP, JUMP]),
    (CHEETAH, "jump twice, then run forward", [JUMP, RUN]),
    (CHEETAH, "stand still for 2 seconds, then jump", [JUMP] * 8),
]


SHOWN: dict[tuple[str, str], list[tuple[bool, list[Motion] | None]]] = {}
"""by environment and intent: whether it passes, and the motions; None: the composer's own"""
for passes, cases in ((True, GOOD), (False, ALIKE)):
    for robot, printed, moved in cases:
        SHOWN.setdefault((robot, printed), []).append((passes, moved))


QUICK = {"turn 180 degrees left", "walk 2 m", "stand upright on two legs", "walk in a circle"}
"""of the intents on large robots, those that the quick suite tries"""
LIKE_OTHERS = {"run forward fast", "jump", "go at least 3 m", "walk 3 m", "jump, then stand still"}
"""of the intents on small robots, those that the quick suite leaves out"""


@pytest.mark.parametrize(
    ("env", "intent"),
    [
        pytest.param(
            *each,
            marks=[pytest.mark.slow]
            * (each[1] not in QUICK if each[0] in (ANT, HUMANOID) else each[1] in LIKE_OTHERS),
            id=each[1],
        )
        for each in SHOWN
    ],
)
def test_the_real_thing_is_recognized_and_what_only_looks_like_it_is_not(env, intent):
    made, shown = compose(intent, spec_of(env)), SHOWN[env, intent]
    motions = {str(k): tuple(each or made.motions) for k, (_, each) in enumerate(shown)}
    examples = demonstrate(env, made.env_args, motions)
    for k, (passes, _) in enumerate(shown):
        assert (judged_as(made, examples.trajectory(str(k))).score >= 0.8) is passes, shown[k]


@pytest.mark.parametrize(
    "env", [HOPPER, *(pytest.param(env, marks=pytest.mark.long) for env in (WALKER, CHEETAH))]
)
@pytest.mark.parametrize("intent", ["hop in place", pytest.param("hop", marks=pytest.mark.long)])
def test_standing_still_earns_far_less_than_hopping(env, intent):
    """A reward mostly for not falling would discourage hopping."""
    made = compose(intent, spec_of(env))
    examples = demonstrate(env, made.env_args, {"hops": made.motions, "stands": (STILL,)})
    reward = load_reward(made.reward)
    reward.decide(TransitionRecording(examples.recording.transitions[:8]))
    reward.start(2, "cpu")
    paid = torch.zeros(2)
    for moment in examples.recording.transitions:
        step = reward(moment.obs, moment.action, moment.next_obs, moment.info, moment.env_reward)
        paid += step.total
    assert paid[1] < 0.5 * paid[0]


# Habits that truly are what was asked for: pushing all joints one way folds the cheetah's legs.
TRULY = {
    (CHEETAH, "stand still"): {"does nothing"},
    (CHEETAH, "crouch"): {"pulls"},
    (CHEETAH, "lie down"): {"pushes", "lies on its back", "topples over"},
    (CHEETAH, "lift a foot"): {"pulls"},
    (ANT, "stand still"): {"does nothing", "pushes", "pulls"},
    (ANT, "lie down"): {"lies on its back", "topples over"},
    (ANT, "lift a foot"): {"pushes"},
    (HOPPER, "lie down"): {"pushes", "lies on its back"},
}
TEMPTING = [
    "run forward fast",
    "go 3 m",
    "jump",
    "jump three times",
    "jump forward",
    "hop in place",
    "do a backflip",
    "roll over",
    "stand still",
    "crouch",
    "squat three times",
    "lie down",
    "wave",
    "kick",
    "lift a foot",
    "jump, then stand still",
    "run for 3 seconds, then stop",
]
CALLED_OFF = {(HOPPER, "kick"), (HOPPER, "lift a foot")}


@pytest.mark.parametrize(
    ("env", "tempting"),
    [
        (CHEETAH, TEMPTING[::8]),
        pytest.param(CHEETAH, TEMPTING, marks=pytest.mark.slow),
        *(pytest.param(each, TEMPTING, marks=pytest.mark.long) for each in (ANT, HOPPER)),
    ],
)
def test_no_failure_mode_passes(env, tempting):
    known = {}
    for intent in tempting:
        if (env, intent) in CALLED_OFF:
            continue
        made = compose(intent, spec_of(env))
        key = str(sorted(made.env_args.items()))
        if key not in known:
            known[key] = failure_modes(env, made.env_args)
        judge = JudgeCode(made.judge)
        passing: set[str] = set()
        for name in known[key].names:
            verdict = judge(known[key].trajectory(name), known[key].spec)
            assert verdict.score is not None, verdict.reason
            passing |= {name} if verdict.score >= 0.8 else set()
        assert passing == TRULY.get((env, intent), set()), intent


# ---- episodes that are changed by hand


def test_travel_is_what_the_place_says_whatever_the_velocity_at_the_end_of_a_step():
    made = compose("run forward fast", spec_of(CHEETAH))
    still = demonstration(CHEETAH, made.env_args, [STILL])
    still.columns["qvel"][:, 0] = 5.0
    still.columns["cvel"][:, :, 3] = 5.0
    assert judged_as(made, still).score < 0.1


@pytest.mark.parametrize(("share", "passes"), [(0.05, True), (0.6, False)])
def test_sliding_on_the_head_is_not_running_but_a_short_touch_is_fine(share, passes):
    made = compose("run forward at 1 m/s", spec_of(CHEETAH))
    run = demonstration(CHEETAH, made.env_args, [go(8, 1.0, stride_hz=1)])
    torso = spec_of(CHEETAH).body_names.index("torso")
    run.columns["cfrc_ext"][: int(share * len(run)), torso, 5] = 100.0
    assert (judged_as(made, run).score >= 0.8) is passes


@pytest.mark.parametrize(
    ("env", "intent", "down"),
    [(ANT, "balance on two legs", 2), (HUMANOID, "stand on your left leg", 1)],
)
def test_a_foot_that_hovers_or_rests_without_weight_is_not_up(env, intent, down):
    made, spec = compose(intent, spec_of(env)), spec_of(env)
    stands = demonstration(env, made.env_args, [STILL])
    feet = list(spec.feet)
    mine = [foot for foot in feet if "left" in foot] if "left" in intent else feet[:down]
    for foot in feet:
        place = spec.body_names.index(foot)
        stands.columns["cfrc_ext"][:, place] = 0.0
        stands.columns["cfrc_ext"][:, place, 5] = 100.0 if foot in mine else 0.0
    others = [spec.body_names.index(foot) for foot in feet if foot not in mine]
    assert judged_as(made, stands).score < 0.8
    stands.columns["xpos"][:, others, 2] += 0.005
    assert judged_as(made, stands).score < 0.8
    stands.columns["xpos"][:, others, 2] += 0.25
    assert judged_as(made, stands).score >= 0.8


GUARDS = ("does not slide along", "does not vibrate in place", "takes steps")


@pytest.mark.parametrize(
    ("env", "intents"),
    [
        (CHEETAH, ("walk forward", "run forward")),
        pytest.param(ANT, ("walk forward", "crawl", "trot"), marks=pytest.mark.slow),
        pytest.param(WALKER, ("walk forward", "run forward"), marks=pytest.mark.slow),
        pytest.param(HUMANOID, ("walk forward",), marks=pytest.mark.slow),
    ],
)
def test_a_demonstrated_gait_passes_and_the_same_pose_gliding_does_not(env, intents):
    for intent in intents:
        verdict = judged(env, intent)
        held = {each.title: each.credit for each in verdict.criteria if each.is_guard}
        assert verdict.score >= 0.9, intent
        assert all(held[each] == 1.0 for each in GUARDS if each in held), intent
        motions = compose(intent, spec_of(env)).motions
        glide = [each.model_copy(update={"feet": (), "stride_hz": 0.0}) for each in motions]
        assert judged(env, intent, glide).score < 0.75, intent


@pytest.mark.parametrize(
    ("often", "meant"),
    [
        ("{} three times", {3}),
        ("{} at least three times", {3, 5}),
        ("{} several times", {3, 5}),
        ("{} at most twice", {1, 2}),
    ],
)
@pytest.mark.parametrize(
    ("deed", "shown"),
    [
        ("jump", lambda often: jumps(1.6 * often, often)),
        pytest.param(
            "backflip",
            lambda often: jumps(1.2 * often, often, pitch_turns=-float(often)),
            marks=pytest.mark.slow,
        ),
    ],
    ids=["jump", "backflip"],
)
def test_stated_frequency_is_used_as_stated(deed, shown, often, meant):
    intent = often.format(deed)
    made = compose(intent, spec_of(CHEETAH))
    motions = {str(k): (*([shown(k)] if k else []), STILL) for k in (0, 1, 2, 3, 5)}
    examples = demonstrate(CHEETAH, made.env_args, motions)
    scores = {int(k): judged_as(made, examples.trajectory(k)).score for k in motions}
    assert {k for k, score in scores.items() if score >= 0.8} == meant


def test_jumps_without_enough_time_are_lower_or_refused_and_waiting_is_observed():
    assert "the highest possible" in compose("jump twice per second", spec_of(CHEETAH)).doubts[0]
    with pytest.raises(BadEnvironment, match="shorter than two periods"):
        compose("jump every 20 seconds", spec_of(CHEETAH))
    made = compose("jump every 2 seconds", spec_of(CHEETAH))
    assert load_reward(made.reward).seen_memory and '"waited"' in made.reward
