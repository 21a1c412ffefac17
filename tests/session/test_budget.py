"""The spending of a session is on disk even if its process dies."""

import multiprocessing
import os
import platform
import signal
import time

import pytest

from telic.llm.answers import Replies, StoredReply
from telic.llm.budget import Charge
from telic.llm.records import RawReply, Tokens
from telic.session import budget as forecasts
from telic.session.budget import (
    BudgetUsedUp,
    SessionAccount,
    session_forecast,
    steps_taken,
)
from telic.storage.files import write_json
from telic.storage.layout import RunFolder
from tests.session.sessions import add_iteration, add_run, asked, make_session, until

PROCESSES = multiprocessing.get_context("fork")


def pay(folder, key, usd, tokens=(100, 50)):
    raw = RawReply(text="{}", tokens=Tokens(input=tokens[0], output=tokens[1]), price_usd=usd)
    Replies(folder.path / "replies").keep(
        StoredReply(
            key=key,
            role="author",
            model="anthropic:x",
            prompt_hash=None,
            raw=raw,
            charge=Charge(usd=usd),
            latency_s=1.0,
            attempts=1,
        )
    )


def test_everything_spent_is_found_on_disk(tmp_path):
    folder = make_session(tmp_path)
    add_iteration(folder, 1)
    add_run(folder.iteration(2).path / "train", steps=1000, members=3, finished=False)
    pay(folder, "a", 0.25)
    pay(folder, "b", 0.50)
    spent = SessionAccount(folder, asked()).spending()
    assert spent.steps == 256 + 3 * 1000
    assert spent.usd == pytest.approx(0.75) and spent.calls == 2
    pay(folder, "c", None)
    assert SessionAccount(folder, asked()).spending().usd is None  # nobody knows


def test_a_branch_does_not_pay_for_what_it_was_given(tmp_path):
    folder = make_session(tmp_path)
    add_iteration(folder, 0)
    assert steps_taken(folder) == 0


def work(folder, seconds):
    account = SessionAccount(folder, asked())
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        account.tick()
        time.sleep(0.01)


def test_the_clock_survives_being_killed_and_waiting_is_free(tmp_path, monkeypatch):
    monkeypatch.setattr("telic.session.budget._SAVE_EVERY_S", 0.05)
    folder = make_session(tmp_path)
    process = PROCESSES.Process(target=work, args=(folder, 60))
    process.start()
    until(lambda: SessionAccount(folder, asked()).seconds > 0.4)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    account = SessionAccount(folder, asked())
    assert 0.4 < account.seconds < 30
    before = account.seconds
    with account.paused():
        time.sleep(0.5)
    assert account.seconds - before < 0.4
    time.sleep(0.1)
    assert account.seconds - before > 0.09


def test_hours_that_are_used_up_are_named(tmp_path):
    folder = make_session(tmp_path)
    SessionAccount(folder, asked(max_hours=1)).check()
    slow = SessionAccount(folder, asked(max_hours=1e-12))
    assert slow.is_out_of_time()
    with pytest.raises(BudgetUsedUp, match="hours is used up") as hours:
        slow.check()
    assert hours.value.kind == "hours" and hours.value.exit_code == 3


def test_the_last_training_is_shortened_to_what_is_left_unless_that_says_nothing(tmp_path):
    folder = make_session(tmp_path)
    add_iteration(folder, 1)  # 256 steps
    account = SessionAccount(folder, asked(max_steps=256 + 600))
    run = RunFolder(folder.iteration(2).path / "train")
    assert account.fit(100, 6, run) == 100
    assert account.fit(200, 6, run) == 100
    with pytest.raises(BudgetUsedUp, match="600 of the budget of 856") as steps:
        account.fit(500, 6, run)
    assert steps.value.kind == "steps"
    assert SessionAccount(folder, asked()).fit(10**9, 6, run) == 10**9


def test_an_interrupted_training_keeps_the_length_it_began_with(tmp_path):
    """Its own steps are spent by now; counting them would make it another job."""
    folder = make_session(tmp_path)
    run = add_run(folder.iteration(1).path / "train", steps=90, finished=False)
    write_json(run.config, {"env": "HalfCheetah-v5", "steps": 100})
    assert SessionAccount(folder, asked(max_steps=100)).fit(300, 1, run) == 100
    assert SessionAccount(folder, asked(max_steps=10_000)).fit(300, 1, run) == 100


# ---------------------------------------------------------------------------- forecast


def add_measured(path, rate, members=3, cpus=None, **facts):
    run = add_run(path, steps=10, members=members, steps_per_second=rate, **facts)
    here = {"processors": cpus or os.cpu_count(), "platform": platform.platform()}
    write_json(run.manifest, here)
    return RunFolder(path)


def test_the_forecast_uses_what_was_measured_here(tmp_path):
    add_measured(tmp_path / "run_1", 1000.0)
    session = make_session(tmp_path)
    add_measured(session.iteration(1).path / "train", 3000.0)
    request = asked(steps=10_000, iterations=2, max_steps=50_000, max_hours=10)
    made = session_forecast(request, 1, tmp_path)
    assert made.measured_runs == 2 and made.steps_per_second == 2000.0
    assert made.first_steps == 30_000 and made.first_seconds == 15.0
    # 3 seeds: 30 % of the revision's steps with 4 variants, the rest with one
    assert made.most_steps == 30_000 + 30_000 * (0.3 * 4 + 0.7)
    assert made.most_seconds == made.most_steps / 2000.0
    assert made.usd == 0.0 and made.short == ("steps",)
    longer = session_forecast(request.replace(steps=None), 10_000, tmp_path)
    assert longer.most_steps > made.most_steps == session_forecast(request, 9, tmp_path).most_steps


def test_what_was_never_measured_is_unknown(tmp_path):
    add_measured(tmp_path / "elsewhere", 1e6, cpus=999)
    add_measured(tmp_path / "other", 1e6, config={"env": "Ant-v5"})
    add_measured(tmp_path / "gpu", 1e6, config={"device": "cuda"})
    add_measured(tmp_path / "blink", 1e6, training_time_s=0.5)
    made = session_forecast(asked(max_hours=1), 30_000, tmp_path)
    assert made.steps_per_second is None and made.first_seconds is None
    assert made.short == ()  # nobody can say


def test_a_run_that_was_stopped_resumed_and_killed_counts_what_its_metrics_say(tmp_path):
    folder = make_session(tmp_path)
    run = add_run(folder.iteration(1).path / "train", steps=1000, members=2)
    write_json(run.summary, {"total_timesteps": 600, "training_time_s": 1.0})
    with run.members()[0].scalars.open("ab") as file:
        file.write(b'{"global_step": 99')  # torn by the kill
    assert steps_taken(folder) == 2000


def test_dollars_are_calls_by_tokens_by_price(tmp_path, monkeypatch):
    session = make_session(tmp_path)
    pay(session, "a", 0.1, tokens=(1000, 500))
    monkeypatch.setattr(
        forecasts, "price_usd", lambda model, read, written: (read + 2 * written) / 1e4
    )

    def usd(model):
        return session_forecast(asked(model=model, vision=False), 10, tmp_path).usd

    calls = 6 + 4 * 4
    assert usd("anthropic:x") == pytest.approx(0.2 * calls)
    assert usd("host") == 0.0 and usd(None) == 0.0
    monkeypatch.setattr(forecasts, "price_usd", lambda *_: None)
    assert usd("anthropic:x") is None
