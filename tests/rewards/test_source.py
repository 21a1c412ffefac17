import ast

import pytest

from telic.rewards.source import kept_state, scan


def of(text):
    return scan(ast.parse(text))


def test_terms_are_found_on_their_lines():
    found = of(
        "class R:\n"
        "    terms = {'declared': 'only'}\n"
        "    def compute(self, obs, action, next_obs, info):\n"
        "        terms = {\n"
        "            'a': 1.0,\n"
        "        }\n"
        "        other = {'b': 2}\n"
        "        terms['c'] = 3.0\n"
        "        return sum(terms.values()), terms\n"
    )
    assert found.terms == {"a": 5, "c": 8}
    assert found.term_line("b") == 7
    assert found.term_line("none") is None


@pytest.mark.parametrize(
    "line, what",
    [
        ("x = torch.exp(obs)", "torch"),
        ("x = obs.sum(dim=-1)", "dim="),
        ("x = obs[:, 3]", "obs[:, 3]"),
        ("x = obs[..., 3]", "obs[..., 3]"),
    ],
)
def test_signs_of_a_batched_author(line, what):
    assert [each.what for each in of(line).batched] == [what]


def test_plain_numpy_shows_no_sign_of_batches():
    assert of("x = np.sum(obs[3:5]) + obs[2] + action.mean()").batched == []


def test_reductions_over_everything_are_found():
    found = of("a = obs.mean()\nb = obs.sum(-1)\nc = torch.sum(obs)\nd = obs.std(dim=1)\n")
    assert [(each.line, each.what) for each in found.reductions] == [
        (1, "obs.mean()"),
        (3, "torch.sum(obs)"),
    ]


@pytest.mark.parametrize(
    "text", ["info.items()", "dict(info)", "info[f'{side}_foot']", "[k for k in info]"]
)
def test_info_read_by_unknown_names_is_noticed(text):
    assert of(text).open_info is not None


def test_info_read_by_constants_is_not():
    assert of("info['a'] + info.get('b', 0) + ('c' in info)").open_info is None


def test_chance_and_the_clock_are_noticed():
    found = of("a = np.random.rand()\nb = time.time()\nc = torch.randn(3)\nd = math.exp(1)\n")
    assert {each.line for each in found.random} == {1, 2, 3}


def wrap(body):
    return "def f(obs, action, next_obs, info):\n" + "".join(f"    {x}\n" for x in body)


@pytest.mark.parametrize(
    "text",
    [
        "def make():\n    n = 0\n    def f(obs):\n        nonlocal n\n        n += 1\n",
        "class R:\n    def compute(self, obs):\n        self.n += 1\n",
        "class R:\n    def compute(self, obs):\n        d = self.x\n        self.x = obs\n",
        "class R:\n    def compute(self, obs):\n        self.seen.append(obs)\n",
        wrap(["state['x'] = 1"]),
        wrap(["f.count = f.count + 1"]),
        wrap(["history.append(1)"]),
        wrap(["global n", "n = 1"]),
        "def f(obs, cache={}):\n    cache['x'] = obs\n",
        wrap(["x = next(counter)"]),
    ],
)
def test_values_kept_between_calls_are_found(text):
    assert kept_state(ast.parse(text))


@pytest.mark.parametrize(
    "text",
    [
        wrap(["terms = {}", "terms['a'] = 1.0", "terms.update(b=2)"]),
        wrap(["x = np.append(obs, 1)", "y = torch.add(obs, obs)"]),
        "class R:\n    def __init__(self):\n        self.x = 1\n        self.x += 1\n",
        "class R:\n    def compute(self, obs):\n        self.memory['a'] = obs\n",
        "class R:\n    def compute(self, obs):\n        self.memory['a'][obs > 0] = 1.0\n",
        "class R:\n    def compute(self, obs):\n        self.last_terms = obs\n",
    ],
)
def test_local_values_memory_and_notes_are_not_state(text):
    assert kept_state(ast.parse(text)) == []
