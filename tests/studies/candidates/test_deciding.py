import pytest

from telic.storage.files import read_json, write_json
from telic.studies.candidates import new_candidate
from telic.studies.decide import decide_candidate
from telic.studies.documents.candidate import Hypothesis
from telic.studies.errors import BrokenIntegrity, GateRefused, StudyError
from telic.studies.evidence.audit import Audit, audit_result, read_condition
from telic.studies.evidence.review import review_candidate
from telic.studies.next import next_step
from telic.studies.queue import more_seeds, plan_incumbent_check
from telic.studies.rules.checks import validate_candidate
from telic.studies.rules.results import (
    check_incumbent,
    is_checked,
)
from tests.studies.candidates.small_study import (
    AGENT,
    HUMAN,
    change_contract,
    claim,
    complete,
    make,
    measure,
    promoted,
)

SMALLER = {"overrides": {"reward.weight": {"from": 1.0, "to": 0.8}}}


def snapshot(study):
    return {p: p.read_bytes() for p in study.folder.path.rglob("*") if p.is_file()}


COST = {"est": {"gpu_h": 1.0}}
BASELINE, BETTER = "c-0001-as-it-is", "c-0002-more-weight"


def test_an_accepted_baseline_is_the_first_incumbent(based):
    state = based.state
    assert state.incumbent.candidate == state.baseline == BASELINE
    assert state.incumbent.iqm == pytest.approx(0.5, abs=0.01) and state.incumbent.n == 5
    assert state.noise_floor == pytest.approx(0.0158, abs=1e-3)
    (recorded,) = based.events_of("decision.recorded")
    assert recorded.data["decision"] == "d-0001" and recorded.sig is not None
    assert recorded.data["audit"] and recorded.data["evidence"]
    before = snapshot(based)
    with pytest.raises(GateRefused, match="next incumbent is not specified"):
        decide_candidate(based, BASELINE, "revert", HUMAN, "start over")
    with pytest.raises(StudyError, match="E_NO_INCUMBENT"):
        decide_candidate(based, BASELINE, "revert", HUMAN, "start over", to="c-0009-x")
    assert snapshot(based) == before


def test_a_better_candidate_becomes_the_incumbent_until_it_is_reverted(claimed):
    study, name = claimed, BETTER
    assert Audit.parse(audit_result(study, name, AGENT).payload).verdict == "valid_improvement"
    made = decide_candidate(study, name, "accept", AGENT, "it is better")
    assert not made.recorded and "person" in made.why
    assert study.state.candidates[name].status == "completed"
    assert study.events[-1].kind == "decision.proposed"
    made = decide_candidate(study, name, "accept", HUMAN, "all five seeds are better")
    assert made.recorded and made.incumbent == study.state.incumbent.candidate == name
    with pytest.raises(GateRefused, match="agent may not"):
        decide_candidate(study, name, "revert", AGENT, "I changed my mind")
    assert (
        decide_candidate(study, name, "revert", HUMAN, "it broke on the robot").incumbent
        == BASELINE
    )
    assert study.state.candidates[name].status == "reverted"
    assert study.state.incumbent.iqm == pytest.approx(0.5, abs=0.01)


def test_decision_without_a_supporting_audit_is_refused(based):
    name = promoted(based, -0.1, change=SMALLER)
    assert Audit.parse(audit_result(based, name, AGENT).payload).verdict == "no_improvement"
    before = snapshot(based)
    with pytest.raises(GateRefused, match="the audit found no_improvement"):
        decide_candidate(based, name, "accept", HUMAN, "I like it")
    assert snapshot(based) == before
    assert decide_candidate(based, name, "reject", AGENT, "no gain").incumbent == BASELINE


def test_a_decision_needs_evidence_and_a_reason(study):
    name = make(study)
    validate_candidate(study, name)
    (run,) = complete(study, name)
    with pytest.raises(StudyError, match="E_REASON"):
        decide_candidate(study, name, "reject", HUMAN, " ", cause="phase_rule")
    measure(study, run, 0.1)
    with pytest.raises(GateRefused, match="no audit"):
        decide_candidate(study, name, "accept", HUMAN, "it looks good")
    with pytest.raises(GateRefused, match="requires an audit"):
        decide_candidate(study, name, "reject", AGENT, "a feeling")
    assert decide_candidate(study, name, "reject", AGENT, "last", cause="phase_rule").recorded
    name = new_candidate(study, "as it is", {"kind": "baseline", "plan": COST}, AGENT).id
    validate_candidate(study, name)
    complete(study, name)
    with pytest.raises(GateRefused, match="E_NO_EVIDENCE"):
        decide_candidate(study, name, "reject", HUMAN, "no", cause="phase_rule")


def test_an_old_audit_does_not_decide_about_new_runs(claimed):
    study, name = claimed, BETTER
    old = Audit.parse(audit_result(study, name, AGENT).payload).id
    more_seeds(study, name, AGENT, "to be sure")
    claim(study, name, "promotion", {105: 0.1, 106: 0.1, 107: 0.1, 108: 0.1, 109: 0.1})
    with pytest.raises(StudyError, match="E_NO_AUDIT"):
        decide_candidate(study, name, "accept", HUMAN, "the first five were fine", audit=old)
    with pytest.raises(GateRefused, match="no audit"):
        decide_candidate(study, name, "accept", HUMAN, "the first five were fine")


def test_altered_evidence_and_a_broken_ledger_decide_nothing(claimed):
    made = audit_result(claimed, BETTER, AGENT)
    path = claimed.folder.evidence_file(made.id)
    held = read_json(path)
    write_json(path, {**held, "payload": {**held["payload"], "verdict": "no_improvement"}})
    with pytest.raises(BrokenIntegrity, match="missing or was modified"):
        decide_candidate(claimed, BETTER, "reject", HUMAN, "the audit says so")
    text = claimed.folder.ledger.read_text()
    claimed.folder.ledger.write_text(text.replace("five seeds agree", "five seeds argue"))
    with pytest.raises(BrokenIntegrity, match="E_LEDGER_BROKEN"):
        decide_candidate(claimed, BETTER, "accept", HUMAN, "it is better")


NOISE = (0.01, -0.01, 0.0, 0.005, -0.005)
FRESH = (900, 906, 907, 908, 909)


def recheck(study, level, gains):
    """Accept the claim, then measure it and the baseline on fresh seeds."""
    audit_result(study, BETTER, AGENT)
    decide_candidate(study, BETTER, "accept", HUMAN, "better")
    assert not is_checked(study) and check_incumbent(study) is None
    assert plan_incumbent_check(study, AGENT) == FRESH
    assert [(each.candidate, each.seed) for each in study.jobs] == [
        (name, seed) for name in (BETTER, BASELINE) for seed in FRESH
    ]
    assert is_checked(study) and check_incumbent(study) is None
    base = {seed: level + n for seed, n in zip(FRESH, NOISE, strict=True)}
    ours = {seed: base[seed] + gain for seed, gain in zip(FRESH, gains, strict=True)}
    claim(study, BETTER, "incumbent_validation", ours)
    assert check_incumbent(study) is None  # the arm beside it has not run
    claim(study, BASELINE, "incumbent_validation", base)


def test_a_gain_holds_where_the_level_fell_for_both(claimed):
    recheck(claimed, 0.3, [0.2] * 5)
    held = check_incumbent(claimed)
    assert held is not None and (held.outcome, held.control, held.n) == ("holds", BASELINE, 5)
    assert held.claimed == pytest.approx(0.2, abs=0.02) and "the gain is confirmed" in held.why
    assert next_step(claimed).action == "propose"


def test_a_person_keeps_an_incumbent_that_lost_its_gain(claimed):
    recheck(claimed, 0.5, [0.01] * 5)
    found = next_step(claimed)
    assert f"telic study decide {BETTER} keep" in found.blocking[0]
    assert not decide_candidate(claimed, BETTER, "keep", AGENT, "I like it").recorded
    assert next_step(claimed) == found
    with pytest.raises(GateRefused, match="is not the incumbent"):
        decide_candidate(claimed, BASELINE, "keep", HUMAN, "it is mine")
    made = decide_candidate(claimed, BETTER, "keep", HUMAN, "it is cheaper to run")
    assert (made.recorded, made.incumbent) == (True, BETTER)
    assert claimed.state.candidates[BETTER].status == "accepted"
    assert claimed.state.decisions[made.decision].verdict == "keep"
    assert check_incumbent(claimed) is None and next_step(claimed).action == "propose"


def say(study, monkeypatch, **words):
    """Change the decision of the candidate's author."""
    held = study.candidate(BETTER).model_copy(update=words)
    monkeypatch.setattr("telic.studies.study.Study.candidate", lambda *_: held)


def falsifier(text):
    return Hypothesis(statement="it helps", falsifier=text)


def test_a_falsifier_that_is_met_refutes_the_claim(claimed, monkeypatch):
    say(claimed, monkeypatch, hypothesis=falsifier("falls > 0.5"))
    assert audit_result(claimed, BETTER, AGENT).payload["verdict"] == "valid_improvement"
    for text, value in (("gain < 0.3", "0.2"), ("falls < 0.5", "0.1")):
        say(claimed, monkeypatch, hypothesis=falsifier(text))
        audit = Audit.parse(audit_result(claimed, BETTER, AGENT).payload)
        assert audit.verdict == "no_improvement"
        assert audit.reasons[0] == f"its falsifier is met: {text}, and the value is {value}"
    found = next_step(claimed)
    assert (found.action, found.args["verdict"]) == ("decide", "reject")
    assert decide_candidate(claimed, BETTER, "reject", AGENT, "too little").recorded


def test_an_exploit_is_given_up_and_accepted_only_by_a_person(claimed):
    change_contract(claimed, {"automation": {"decide": "auto"}})
    audit_result(claimed, BETTER, AGENT)
    review_candidate(claimed, BETTER, HUMAN, "it stands still", is_exploit=True)
    found = next_step(claimed)
    assert "reports an exploit: it stands still" in found.why
    assert f"decide {BETTER} reject --cause exploit" in (found.command or "")
    with pytest.raises(GateRefused, match="E_EXPLOIT"):
        decide_candidate(claimed, BETTER, "accept", AGENT, "the numbers are good")
    assert decide_candidate(claimed, BETTER, "reject", AGENT, "gamed", cause="exploit").recorded


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("success<0.6", ("success", "<", 0.6)),
        (" gain >= -1e-3 ", ("gain", ">=", -0.001)),
        ("success does not rise by 0.02", None),
        ("success < a lot", None),
    ],
)
def test_a_condition_is_read_and_other_words_are_left_to_people(text, found):
    assert read_condition(text) == found
