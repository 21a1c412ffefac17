"""Goals of a human size: what fast, high and far are follows from the robot's body."""

import importlib.util
from functools import lru_cache
from pathlib import Path

import mujoco
import pytest

from telic.composer._sizes import jump_height, leap_length, speed
from telic.composer.compose import compose
from telic.composer.lexicon import word_table
from telic.composer.reader import parse
from telic.composer.scene import Scene
from telic.envs import make
from telic.envs.anatomy import robot_of
from telic.judges.code import JudgeCode
from tests.composer.specs import spec_of
from tests.judges.playing import demonstration

ROBOTS = ("HalfCheetah-v5", "Hopper-v5", "Walker2d-v5", "Ant-v5", "Humanoid-v5", "Swimmer-v5")
LEGGED = ROBOTS[:-1]


def meant(words, spec, measure=speed):
    return measure(parse(words, spec).frames[0], Scene.of(spec))


def quadruped(scale, gravity=9.81):
    """Describe a plain quadruped with straight legs, every length times a scale."""
    leg = """<body pos='{x} {y} 0'><joint axis='0 1 0'/>
      <geom type='capsule' fromto='0 0 0 0 0 {low}' size='{thin}'/>
      <body pos='0 0 {low}'><joint axis='0 1 0'/>
        <geom type='capsule' fromto='0 0 0 0 0 {low}' size='{thin}'/></body></body>"""
    places = [(x, y) for x in (0.2, -0.2) for y in (0.1, -0.1)]
    legs = "".join(
        leg.format(x=x * scale, y=y * scale, low=-0.15 * scale, thin=0.02 * scale)
        for x, y in places
    )
    model = mujoco.MjModel.from_xml_string(
        f"""<mujoco><option gravity='0 0 {-gravity}'/><worldbody>
        <geom type='plane' size='5 5 .1'/><body pos='0 0 {0.32 * scale}'><freejoint/>
        <geom type='box' size='{0.2 * scale} {0.1 * scale} {0.04 * scale}'/>{legs}</body>
        </worldbody></mujoco>"""
    )
    return spec_of("Ant-v5").model_copy(update={"id": "Quadruped", "robot": robot_of(model)})


@pytest.mark.parametrize("env", ROBOTS)
def test_faster_words_ask_for_faster_robots(env):
    ways = ("crawl", "walk", "jog", "run", "sprint")
    speeds = [meant(way, spec_of(env)).value for way in ways]
    assert speeds == sorted(speeds) and len(set(speeds)) == len(speeds)
    for way in ("walk", "run", "go"):
        manners = ("very slowly", "slowly", "", "fast", "very fast")
        speeds = [meant(f"{way} {how}", spec_of(env)).value for how in manners]
        assert speeds == sorted(speeds), (way, speeds)
    assert meant("walk as slowly as possible", spec_of(env)).is_open is False


@pytest.mark.parametrize("scale", [0.25, 4.0])
def test_speeds_go_with_the_root_of_the_size_and_jumps_with_the_size(scale):
    one, other = quadruped(1.0), quadruped(scale)
    for way in ("crawl", "walk", "run fast", "sprint", "go as fast as possible"):
        assert meant(way, other).value == pytest.approx(scale**0.5 * meant(way, one).value)
    for words, measure in (("jump", jump_height), ("jump far", leap_length)):
        ratio = meant(words, other, measure).value / meant(words, one, measure).value
        assert ratio == pytest.approx(scale)
    moon = meant("walk", quadruped(1.0, 1.62)).value
    assert moon == pytest.approx(meant("walk", one).value * (1.62 / 9.81) ** 0.5)


@pytest.mark.parametrize("env", LEGGED)
def test_high_is_higher_than_a_jump_and_a_small_one_lower(env):
    spec = spec_of(env)
    ways = ("jump a little", "jump", "jump high")
    heights = [meant(words, spec, jump_height).value for words in ways]
    assert heights == sorted(heights) and heights[0] < heights[1] < heights[2]


def test_a_goal_says_where_it_comes_from_before_training():
    made = compose("run forward", spec_of("Humanoid-v5"))
    assert '"run": at least 2 m/s (Froude 0.5 with legs of 0.83 m)' in made.doubts
    assert any("reference speed is 0.6 m/s" in doubt for doubt in made.doubts)
    assert "Froude 0.5" in made.criteria[0].source
    printed = compose("run at 3 m/s", spec_of("Humanoid-v5"))
    assert printed.criteria[0].source == "as given"
    assert made.steps > word_table("calibration")["Humanoid-v5"]["learns"]


def test_what_is_open_ended_names_the_best_that_is_known_or_says_that_none_is():
    cheetah = compose("run as fast as possible", spec_of("HalfCheetah-v5"))
    speed = cheetah.criteria[0]
    assert speed.is_open and speed.best > speed.goal and speed.best_source
    assert any("the best known: 9" in doubt for doubt in cheetah.doubts)
    unknown = compose("go as fast as possible", quadruped(1.0)).criteria[0]
    assert unknown.is_open and unknown.best is None
    assert not any(each.is_open for each in compose("run fast", spec_of("Ant-v5")).criteria)


def test_the_table_of_goals_in_the_documentation_is_up_to_date():
    script = Path(__file__).parents[2] / "scripts" / "goals_table.py"
    spec = importlib.util.spec_from_file_location("goals_table", script)
    goals_table = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(goals_table)
    written = goals_table.PAGE.read_text()
    assert goals_table.page(written) == written, "Write it anew: python scripts/goals_table.py"


@lru_cache
def run_at_three():
    made = compose("run forward at 3 m/s", spec_of("HalfCheetah-v5"))
    motions = [each.model_copy(update={"forward_mps": 3.0}) for each in made.motions]
    return demonstration("HalfCheetah-v5", made.env_args, motions), made.env_args


@pytest.mark.parametrize(
    ("rule", "passes", "fails"),
    [
        ("at", (2.6, 3.0, 3.5), (1.5, 2.0, 4.5, 6.0)),
        ("at at least", (1.0, 2.0, 3.0, 3.4), (4.5, 6.0)),
        ("faster than", (1.0, 3.0), (4.5, 9.0)),
        ("slower than", (3.1, 4.0, 5.0), (1.0, 2.0, 2.6)),
    ],
)
def test_stated_speed_must_be_reached_to_pass(rule, passes, fails):
    run, env_args = run_at_three()
    env = make("HalfCheetah-v5", num_envs=1, **env_args)
    env.close()
    for printed in (*passes, *fails):
        made = compose(f"run forward {rule} {printed} m/s", spec_of("HalfCheetah-v5"))
        assert made.env_args == env_args
        verdict = JudgeCode(made.judge)(run, env.spec)
        assert verdict.score is not None, verdict.reason
        assert (verdict.score >= 0.8) == (printed in passes), printed
