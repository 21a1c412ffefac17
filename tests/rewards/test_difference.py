from telic.rewards import compare_rewards, load_reward

BEFORE = """
class Run(RewardFunction):
    weights = {"speed": 1.0, "control": 0.1}
    latex = "r = v"
    terms = {"speed": "go", "control": "effort"}

    def compute(self, obs, action, next_obs, info):
        speed = info["x_velocity"]
        cost = (action ** 2).sum(-1)
        terms = {"speed": self.weights["speed"] * speed, "control": -cost}
        return sum(terms.values()), terms
"""
AFTER = (
    BEFORE.replace('info["x_velocity"]', 'info["x_velocity"].clamp(max=3.0)')
    .replace('"control": 0.1}', '"control": 0.2}')
    .replace('"control": -cost', '"jump": next_obs[:, 0]')
    .replace('"control": "effort"', '"jump": "height"')
    .replace('"r = v"', '"r = v + z"')
)


def test_changes_are_told_term_by_term():
    difference = compare_rewards(load_reward(BEFORE), load_reward(AFTER))
    terms = {each.name: each for each in difference.terms}
    assert {name: each.change for name, each in terms.items()} == {
        "speed": "changed",
        "control": "removed",
        "jump": "added",
    }
    assert terms["speed"].formula == (
        "self.weights['speed'] * info['x_velocity']",
        "self.weights['speed'] * info['x_velocity'].clamp(max=3.0)",
    )
    assert terms["control"].formula == ("-(action ** 2).sum(-1)", None)
    assert terms["jump"].description == (None, "height")
    assert [(w.name, w.before, w.after) for w in difference.weights] == [("control", 0.1, 0.2)]
    assert difference.latex == ("r = v", "r = v + z")
    assert '-    latex = "r = v"' in difference.source
    assert not difference.is_empty


def test_equal_rewards_do_not_differ():
    assert compare_rewards(load_reward(BEFORE), load_reward(BEFORE)).is_empty
    tuned = load_reward(BEFORE, weights={"speed": 2.0})
    assert [w.name for w in compare_rewards(load_reward(BEFORE), tuned).weights] == ["speed"]


def test_formulas_do_not_grow_without_end():
    lines = "".join(f"    x{i + 1} = x{i} + x{i}\n" for i in range(60))
    text = (
        "def reward_fn(obs, action, next_obs, info):\n    x0 = obs[0]\n"
        f"{lines}    return x60, {{'a': x60}}\n"
    )
    reward = load_reward(text)
    assert len(compare_rewards(reward, reward).terms[0].formula[0]) < 5_000
