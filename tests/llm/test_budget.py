import pytest

from telic.llm import Budget, BudgetExceeded, RawReply, Tokens
from telic.llm.budget import Charge, is_metered, price_usd
from telic.testing.models import Scripted

from .conftest import GOOD, question


def test_what_others_have_reserved_is_not_there_for_me():
    budget = Budget(usd=1.0)
    with budget.reserved(Charge(usd=0.6)) as settle:
        with (
            pytest.raises(BudgetExceeded, match=r"may cost 0\.6000 USD, but only 0\.4000 of 1"),
            budget.reserved(Charge(usd=0.6)),
        ):
            pass
        settle(Charge(usd=0.1, tokens=5))
    with budget.reserved(Charge(usd=0.6)):
        pass  # given back
    assert budget.spent.usd == pytest.approx(0.1)
    assert (budget.spent.calls, budget.spent.tokens) == (1, 5)


def test_a_budget_in_dollars_refuses_what_has_no_price():
    budget = Budget(usd=1.0)
    unpriced = pytest.raises(BudgetExceeded, match="price of this model is unknown")
    with unpriced, budget.reserved(Charge()):
        pass
    with budget.reserved(Charge(usd=0.3)) as settle:
        assert settle(Charge(usd=None)).usd == 0.3, "a limit holds"


def test_nothing_is_sent_when_the_budget_is_short(models):
    provider = Scripted([GOOD], name="openai:no-such-model")
    with pytest.raises(BudgetExceeded):
        models(provider, budget=Budget(usd=1.0)).ask(question())
    assert provider.requests == []


def test_budget_is_kept_after_a_restart(models):
    reply = RawReply(text=GOOD.model_dump_json(), tokens=Tokens(input=10, output=5), price_usd=0.25)
    models(Scripted([reply])).ask(question())
    resumed = Budget(calls=1)
    path = models(Scripted([GOOD]), budget=resumed)
    assert (resumed.spent.usd, resumed.spent.calls, resumed.spent.tokens) == (0.25, 1, 15)
    with pytest.raises(BudgetExceeded):
        path.ask(question("Another?"))
    assert path.ask(question()).cached, "what was paid for is free"


def test_only_metered_providers_charge():
    assert is_metered("anthropic:claude-x") and is_metered("openrouter:a/b")
    assert is_metered("openai-compatible:https://api.example.com/v1#m")
    for own in ("host", "scripted", "ollama:http://127.0.0.1:11434/v1#m"):
        assert not is_metered(own)
    for host in ("127.0.0.1:8080", "localhost", "192.168.1.7", "[::1]:80"):
        assert not is_metered(f"openai-compatible:http://{host}/v1#m")


def test_list_prices_are_known_for_known_models():
    pytest.importorskip("genai_prices", reason="needs the extra llm")
    price = price_usd("anthropic:claude-sonnet-5-5", 1_000_000, 0)
    assert price is not None and price > 0.1
    assert price_usd("anthropic:no-such-model", 1, 1) is None
