import pytest

from telic.rewards._source import Source


def of(text):
    return Source(text, "reward.py", "<reward.py>")


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
    "line",
    ["x = torch.exp(obs)", "x = obs.sum(dim=-1)", "x = obs[:, 3]", "x = obs[..., 3]"],
)
def test_signs_of_a_batched_author(line):
    assert of(line).is_batched


def test_plain_numpy_shows_no_sign_of_batches():
    assert not of("x = np.sum(obs[3:5]) + obs[2] + action.mean()").is_batched


def test_reductions_over_everything_are_found():
    assert of("b = obs.sum(-1)\nc = torch.sum(obs)\n").reduction() == (2, "torch.sum(obs)")
    assert of("d = obs.std(dim=1)\n").reduction() is None


def test_chance_and_the_clock_are_noticed():
    for line in ("np.random.rand()", "time.time()", "torch.randn(3)"):
        assert of(f"a = {line}\n").chance().line == 1
    assert of("d = math.exp(1)\n").chance() is None
