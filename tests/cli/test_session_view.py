"""What a session prints is worth a person's time."""

from telic.cli.views import SessionView
from telic.core.events import ProbeDone, ProbeFinding, TrainFinding


def finding(name):
    return TrainFinding(member="reward_seed_1", name=name, message=name)


def test_terms_that_stay_zero_are_left_to_the_records_and_the_rest_is_said(capsys):
    view = SessionView()
    view(finding("dead_term:body"))
    view(finding("plateau"))
    findings = (
        ProbeFinding(name="dead_term", message="was 0"),
        ProbeFinding(name="dominant", message="96 %"),
    )
    view(ProbeDone(reward="reward", mode="batched", microseconds_per_step=1.0, findings=findings))
    said = capsys.readouterr().out
    assert "dead_term" not in said and "was 0" not in said
    assert "plateau" in said and "96 %" in said and "probed reward" in said
