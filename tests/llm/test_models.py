import asyncio
import json
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from telic.llm import (
    Budget,
    CallLimits,
    Cancelled,
    ModelAnswerError,
    ModelUnavailable,
    Outage,
    RawReply,
    Tokens,
)
from telic.testing.models import Scripted

from .conftest import FAST, GOOD, Plan, question

ROOT = Path(__file__).parents[2]
PRICED = RawReply(
    text=GOOD.model_dump_json(),
    tokens=Tokens(input=100, output=20, reasoning=5, cached=50),
    price_usd=0.01,
)


MALFORMED = 'Sure! Here is the answer: {"value": 1,,}'


class Slow:
    """Script whose first answer is slow, or every answer if it has only one."""

    def __init__(self, seconds, *later):
        self.seconds, self.later = seconds, list(later)
        self.asked = 0

    async def __call__(self, request):
        self.asked += 1
        if self.asked == 1 or not self.later:
            await asyncio.sleep(self.seconds)
        return GOOD


def names(events):
    return [each["event"] for each in events]


def test_an_answer_is_the_record_with_everything_it_took(models):
    reply = models(Scripted([PRICED])).ask(question())
    assert reply.answer == GOOD and isinstance(reply.answer, Plan)
    assert reply.tokens == PRICED.tokens and reply.price_usd == 0.01
    assert (reply.model, reply.attempts, reply.cached) == ("scripted", 1, False)
    assert reply.latency_s >= 0


def test_a_paid_reply_is_never_paid_again(models):
    models(Scripted([PRICED])).ask(question())
    after_a_crash = Scripted([])
    reply = models(after_a_crash).ask(question())
    assert after_a_crash.requests == []
    assert reply.answer == GOOD and reply.cached and reply.price_usd == 0.01


def test_a_killed_process_does_not_pay_again(models, tmp_path):
    code = """
import os, pathlib, signal, sys
from telic.llm.records import ModelReply
from telic.llm import Models
from telic.testing.models import Scripted
from tests.llm.conftest import GOOD, question

def die(event):
    if isinstance(event, ModelReply):
        os.kill(os.getpid(), signal.SIGKILL)

Models(Scripted([GOOD]), pathlib.Path(sys.argv[1]), on_event=die).ask(question())
"""
    command = [sys.executable, "-c", code, str(tmp_path)]
    assert subprocess.run(command, cwd=ROOT).returncode == -signal.SIGKILL
    reply = models(Scripted([])).ask(question())
    assert reply.answer == GOOD and reply.cached


def test_a_wrong_answer_is_repaired_once_with_the_reason(models, events):
    provider = Scripted([{"titel": "run"}, PRICED])
    reply = models(provider).ask(question())
    assert reply.answer == GOOD and reply.attempts == 2
    assert "title: Field required" in provider.requests[1].prompt
    assert '{"titel": "run"}' in provider.requests[1].prompt
    assert names(events) == ["model.sent", "model.rejected", "model.sent", "model.reply"]
    assert reply.price_usd is None, "one part is unknown"


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (MALFORMED, "Invalid JSON"),
        (RawReply(text=GOOD.model_dump_json()[:9], finish="length"), "truncated"),
        (RawReply(text="I am sorry.", finish="refusal"), "declined"),
        ('"' + "a" * 1_000_000 + '"', "at most 1,000,000"),
    ],
    ids=["malformed", "truncated", "refused", "too long"],
)
def test_bad_answers_are_repaired_or_fail_with_the_reason(models, fault, reason):
    assert models(Scripted([fault, GOOD])).ask(question("one")).answer == GOOD
    with pytest.raises(ModelAnswerError, match=reason) as caught:
        models(Scripted([fault, fault])).ask(question("two"))
    assert "elicitor" in str(caught.value) and "Plan" in str(caught.value)


def test_an_answer_that_never_became_valid_is_asked_for_again_but_stays_in_the_account(models):
    bad = PRICED.model_copy(update={"text": "{}"})
    for paid in (0.02, 0.04):
        budget = Budget()
        with pytest.raises(ModelAnswerError):
            models(Scripted([bad, bad]), budget=budget).ask(question())
        assert budget.spent.usd == pytest.approx(paid)


@pytest.mark.parametrize("error", [Outage("busy", retry_after_s=0), ConnectionError("reset")])
def test_temporary_failures_are_retried(models, events, error):
    provider = Scripted([error, error, GOOD])
    reply = models(provider).ask(question())
    assert reply.attempts == 3 and len(provider.requests) == 3
    assert names(events).count("model.retry") == 2


def test_a_wait_beyond_the_deadline_is_not_begun(models):
    with pytest.raises(ModelUnavailable, match="Too many requests"):
        models(Scripted([Outage("Too many requests.", retry_after_s=3600), GOOD])).ask(question())


def test_an_outage_is_an_error_after_all_attempts_and_costs_nothing(models, events, tmp_path):
    provider = Scripted([Outage("The service is down.")] * 3)
    path = models(provider)
    with pytest.raises(ModelUnavailable, match=r"after 3 attempts.*is down"):
        path.ask(question())
    assert len(provider.requests) == 3
    assert path.budget.spent.calls == 0
    assert not list(tmp_path.rglob("*.json"))
    assert events[-1]["event"] == "model.failed" and events[-1]["kind"] == "ModelUnavailable"


def test_waits_grow_with_full_jitter():
    limits = CallLimits(first_wait_s=1, longest_wait_s=10)
    rng = random.Random(0)
    longest = [max(limits.wait_s(n, None, rng) for _ in range(300)) for n in (1, 2, 3, 9)]
    assert longest == pytest.approx([1, 2, 4, 10], rel=0.05)
    assert min(limits.wait_s(9, None, rng) for _ in range(300)) < 0.5
    assert limits.wait_s(1, 30.0, rng) >= 30


def test_a_slow_attempt_is_given_up_and_tried_again(models):
    provider = Scripted(Slow(60, GOOD))
    limits = FAST.replace(attempt_s=1.0)
    assert models(provider, limits=limits).ask(question()).attempts == 2


@pytest.mark.parametrize("is_slow", [True, False], ids=["slow answer", "wait to retry"])
def test_stopping_does_not_wait_for_the_answer(models, is_slow):
    asked = time.monotonic() + 0.3
    provider = Scripted(Slow(1e6, GOOD) if is_slow else [Outage("busy", retry_after_s=1e6)])
    limits = CallLimits(deadline_s=1e8, attempt_s=1e8)
    with pytest.raises(Cancelled):
        models(provider, limits=limits, should_stop=lambda: time.monotonic() > asked).ask(
            question()
        )


def test_two_threads_with_the_same_question_pay_once(models):
    provider = Scripted(Slow(0.2))
    path = models(provider)
    threads = [threading.Thread(target=path.ask, args=(question(),)) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(provider.requests) == 1 and path.budget.spent.calls == 1


def test_a_broken_provider_is_an_error_never_an_answer(models):
    def broken(request):
        raise ZeroDivisionError("oops")

    with pytest.raises(ModelUnavailable, match="ZeroDivisionError: oops"):
        models(Scripted(broken)).ask(question())


def test_importing_the_package_does_not_load_the_services():
    heavy = ("pydantic_ai", "genai_prices", "openai", "anthropic", "torch", "mujoco")
    code = f"import sys, telic.llm; print([m for m in {heavy!r} if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_a_lost_call_to_a_metered_model_is_counted_also_after_a_restart(models):
    provider = Scripted(Slow(60, GOOD), name="openai:unheard-of")
    budget = Budget()
    limits = FAST.replace(attempt_s=0.2)
    models(provider, budget=budget, limits=limits).ask(question())
    assert budget.spent.calls == 2 and budget.spent.tokens > 0
    resumed = Budget()
    models(provider, budget=resumed)
    assert resumed.spent == budget.spent


def test_the_trace_has_prompt_answer_tokens_price_and_latency(models, events):
    models(Scripted([PRICED])).ask(question(system="Be brief.", prompt_hash="abc"))
    sent, reply = events
    assert sent["prompt"] == "How?" and sent["system"] == "Be brief."
    assert sent["prompt_hash"] == "abc" and sent["role"] == reply["role"] == "elicitor"
    assert json.loads(reply["answer"])["title"] == "run"
    assert reply["tokens"]["reasoning"] == 5 and reply["price_usd"] == 0.01
    assert reply["latency_s"] >= 0 and reply["cached"] is False
    json.dumps(events)
