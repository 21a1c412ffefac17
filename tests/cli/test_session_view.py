"""The output of a session is concise."""

import pytest

from telic.cli._views import ProgressView
from telic.core.events import BenchEvent, TrainProgress
from telic.envs.spec import RewardFinding
from telic.llm.records import ModelFailed, ModelSent
from telic.rewards.probe import ProbeReport
from telic.session.budget import Forecast, MeasuredForecast
from telic.training.results import Finding
from tests.session.sessions import asked


def finding(name, member="reward_seed_1"):
    return Finding(member=member, name=name, message=name)


def progress(seconds, rate=1000.0):
    return TrainProgress(
        step=int(seconds * rate),
        total_steps=10**6,
        seconds=seconds,
        steps_per_second=rate,
        seconds_left=None,
        returns={},
    )


def test_terms_that_stay_zero_are_hidden_and_the_others_printed(capsys):
    view = ProgressView(is_session=True)
    view(finding("dead_term:body"))
    view(finding("plateau"))
    findings = (
        RewardFinding(name="dead_term", message="was 0"),
        RewardFinding(name="dominant", message="96 %"),
    )
    view(
        ProbeReport.model_construct(
            reward="reward", mode="batched", microseconds_per_step=1.0, findings=findings
        )
    )
    printed = capsys.readouterr().out
    assert "dead_term" not in printed and "was 0" not in printed
    assert "plateau" in printed and "96 %" in printed and "probed reward" in printed


def test_a_host_reads_with_every_line_that_an_order_waits(capsys):
    view, own = ProgressView(is_session=True), {"role": "vision_judge", "model": "host"}
    for key in ("a", "b"):
        view(ModelSent(key=key, attempt=1, system=None, prompt="", **own))
    view(ModelSent(key="c", attempt=1, system=None, prompt="", role="judge", model="other:one"))
    view(progress(1.0))
    assert "– left · 2 orders for you" in capsys.readouterr().out
    view(ModelFailed(key="a", kind="", error="", **own))
    view._last_line = 0.0
    view(progress(2.0))
    assert "· 1 order for you" in capsys.readouterr().out


@pytest.mark.parametrize("is_case", [False, True])
def test_a_finding_of_many_members_is_one_line(is_case, capsys):
    def emit(event):
        view(BenchEvent(case="x", inner=event) if is_case else event)

    with ProgressView() as view:
        for member in range(40):
            emit(finding("plateau", f"reward_seed_{member}"))
        emit(finding("kl_blow_up"))
        emit(progress(1.0))
        emit(finding("plateau", "reward_seed_41"))
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("!")]
    assert lines == ["! reward_seed_0: plateau", "! reward_seed_1: kl_blow_up"]


def test_a_session_on_a_new_machine_knows_its_time_after_ten_seconds_of_training(capsys):
    received = []
    emit = MeasuredForecast(received.append, asked(max_hours=1.0))
    unknown = Forecast(
        iterations=4,
        first_steps=30_000,
        most_steps=9_000_000,
        steps_per_second=None,
        measured_runs=0,
        first_seconds=None,
        most_seconds=None,
        calls=0,
        usd=0.0,
        short=(),
    )
    for event in (unknown, *map(progress, (1.0, 9.9, 10.0, 11.0, 20.0))):
        emit(event)
    reported = [event for event in received if isinstance(event, Forecast)]
    assert [event.first_seconds for event in reported] == [None, 30.0]
    assert reported[1].most_seconds == 9000.0 and reported[1].short == ("hours",)
    view = ProgressView(is_session=True)
    for event in reported:
        view(event)
    printed = capsys.readouterr().out
    assert "available after ten seconds of training" in printed
    assert "about 30.0 s if the first iteration passes, at most 2 h 30 min" in printed
