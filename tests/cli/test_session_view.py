"""The output of a session is concise."""

from telic.cli._views import ProgressView
from telic.core.events import TrainProgress
from telic.llm.records import ModelFailed, ModelSent
from telic.session.budget import Forecast, MeasuredForecast
from tests.session.sessions import asked


def progress(seconds, rate=1000.0):
    return TrainProgress(
        step=int(seconds * rate),
        total_steps=10**6,
        seconds=seconds,
        steps_per_second=rate,
        seconds_left=None,
        returns={},
    )


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
