import pytest
import torch

from telic.errors import ConfigError, RefusedCode, RewardError
from telic.rewards.reward import load_reward

from .conftest import REFERENCE, RUN_FORWARD

GOOD = """
class Good(RewardFunction):
    weights = {"speed": 1.0, "control": 0.1}

    def __init__(self):
        self.double = 2.0 * self.weights["speed"]

    def compute(self, obs, action, next_obs, info):
        speed = self.double * info["x_velocity"]
        return speed, {"speed": speed}
"""


def test_a_missing_file_is_named_with_the_closest_ones(tmp_path):
    (tmp_path / "reward.py").write_text(GOOD)
    with pytest.raises(RewardError, match=r'not found: ".*rewrd.py"\. Closest: reward.py'):
        load_reward(tmp_path / "rewrd.py")


@pytest.mark.parametrize("trusted", [False, True])
def test_a_syntax_error_shows_its_line(tmp_path, trusted):
    path = tmp_path / "reward.py"
    path.write_text("import math\n\ndef reward_fn(obs, action, next_obs, info)\n    return 0\n")
    with pytest.raises(RewardError) as caught:
        load_reward(path, trusted=trusted)
    assert caught.value.line == 3
    assert "reward.py line 3 is not valid Python" in str(caught.value)
    assert "def reward_fn(obs, action, next_obs, info)" in str(caught.value)


def test_a_file_without_a_reward_says_what_to_define():
    with pytest.raises(RewardError, match=r"defines no reward \(only helper\).*reward_fn\("):
        load_reward("def helper(x):\n    return x\n")
    with pytest.raises(RewardError, match="reward_fn is int, not a function"):
        load_reward("x = 1\nreward_fn = 3\n")


def test_an_unknown_weight_gets_the_closest_names():
    with pytest.raises(ConfigError, match=r'no weight named "sped"\. Closest: speed'):
        load_reward(GOOD, weights={"sped": 2.0})
    with pytest.raises(ConfigError, match="not a finite number"):
        load_reward(GOOD, weights={"speed": float("nan")})
    with pytest.raises(ConfigError, match="has no weights"):
        load_reward(None, weights={"speed": 2.0})


def test_weights_are_in_place_before_init_reads_them(small):
    reward = load_reward(GOOD, weights={"speed": 3.0})
    assert reward.weights == {"speed": 3.0, "control": 0.1}
    reward.decide(small)
    reward.start(8, "cpu")
    moment = small.transitions[0]
    total = reward(moment.obs, moment.action, moment.next_obs, moment.info).total
    torch.testing.assert_close(total, 6.0 * moment.info["x_velocity"])


@pytest.mark.parametrize(
    "text, message",
    [
        ("def reward_fn(obs, action, info):\n    return 0.0, {}\n", r"takes \(obs, action, info\)"),
        (
            "def reward_fn(obs, action, next_obs, info, mj_data, mj_model):\n    pass\n",
            r'info\["qpos"\], info\["xpos"\] and others contain the simulation state',
        ),
        ("x = 1 / 0\ndef reward_fn(obs, action, next_obs, info):\n    pass\n", "line 1: ZeroDiv"),
        (
            "class R(RewardFunction):\n  def __init__(self, k):\n    self.k = k\n",
            "__init__ requires k. Give all",
        ),
        ("class R(RewardFunction):\n  def __init__(self):\n    {}['x']\n", 'line 3: no key "x"'),
        ("class R(RewardFunction):\n  weights = {'a': 'b'}\n", "dictionary of numbers"),
        (
            "class R(RewardFunction):\n  memory = {'n': [0.0]}\n",
            'The memory "n" has an invalid declaration',
        ),
        ("class R(RewardFunction):\n  memory_to = 'all'\n", 'memory_to is "all"'),
        ("class R(RewardFunction):\n  memory_to = ('beat',)\n", "memory_to is "),
        ("class R(RewardFunction):\n  memory = {'beat': 0.0}\n  memory_to = 'beat'\n", '"beat"'),
        ("class R(RewardFunction):\n  memory = {'beat': 0.0}\n  memory_to = 7\n", 'is "7"'),
    ],
)
def test_what_cannot_be_a_reward_is_explained(text, message):
    with pytest.raises(RewardError, match=message):
        load_reward(text)


def test_foreign_code_is_checked_and_trusted_code_is_not():
    text = "import os\ndef reward_fn(obs, action, next_obs, info):\n    return 0.0, {}\n"
    with pytest.raises(RefusedCode):
        load_reward(text)
    assert load_reward(text, trusted=True).name == "reward_fn"


def described(spec):
    return {each.name: (each.description, each.latex, each.weight) for each in spec.terms}


def test_attributes_describe_a_reward_and_a_docstring_what_they_leave_out():
    spec = load_reward(REFERENCE / "class_with_properties.py").spec
    assert spec.latex == r"r = v_x + e^{-\theta^2}"
    assert spec.description == "Gallop with a level back."
    assert described(spec)["speed"] == ("forward speed", None, None)
    assert load_reward(REFERENCE / "forward_bare.py").spec.description == "Reward running forward."
    spec = load_reward(RUN_FORWARD, weights={"speed": 2.5}).spec
    assert described(spec)["speed"] == ("forward velocity in m/s", None, 2.5)


def test_folders_and_binary_files_are_refused(tmp_path):
    with pytest.raises(RewardError, match="is a folder"):
        load_reward(tmp_path)
    (tmp_path / "reward.py").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RewardError, match="not UTF-8 text"):
        load_reward(tmp_path / "reward.py")


def test_an_import_of_the_base_class_from_elsewhere_keeps_the_line_numbers():
    text = (
        "from some.system.rewards import (\n    RewardFunction,\n)\n"
        "class R(RewardFunction):\n"
        "    def compute(self, obs, action, next_obs, info):\n"
        "        return {}['missing']\n"
    )
    reward = load_reward(text)
    assert reward.code.line(6) == "return {}['missing']"
    assert len(reward.source.splitlines()) == len(text.splitlines())


def test_a_text_is_called_by_its_label():
    with pytest.raises(RewardError, match=r"mine\.py line 1 is not valid Python"):
        load_reward("def\n", label="mine.py")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("x = 1\n\0", "null bytes"),
        ("x = " + "(" * 300 + "1" + ")" * 300 + "\nimport math\n", r"\S"),
        (3, "A int is not a reward"),
    ],
)
def test_what_cannot_be_read_is_refused(source, message):
    with pytest.raises((RewardError, RefusedCode), match=message):
        load_reward(source)
