"""A session from its first word to its verdict, in a browser: the composer, real training."""

import os

import pytest

from tests.web.browser.conftest import ENDED, video_plays

pytestmark = pytest.mark.long


def test_words_become_a_judged_policy_that_is_stopped_resumed_and_labeled(fresh, tmp_path):
    page = fresh.page
    fresh.open("/", "What should the robot do?")
    page.get_by_role("button", name="keep the pole upright").click()
    page.get_by_role("checkbox", name="Use criterion: ").first.wait_for()
    page.get_by_text("Options and limits").click()
    page.get_by_label("Steps per policy").fill("40k")
    page.get_by_label("Maximum iterations").fill("1")
    page.get_by_role("button", name="Start", exact=True).click()
    page.wait_for_url("**/runs/session_*")
    place = page.url

    page.get_by_role("img", name="Training curve").wait_for()
    fresh.picture(tmp_path, "living-training")
    points = "() => document.querySelector('[aria-label^=\"Training curve\"]').ariaLabel"
    first = page.evaluate(points)
    page.wait_for_function(f"seen => ({points})() !== seen", arg=first)

    page.get_by_role("button", name="Stop").click()
    page.get_by_role("dialog").get_by_role("button", name="Stop").click()
    page.get_by_role("button", name="Resume").wait_for()
    page.goto("about:blank")
    page.goto(place)  # nothing is kept in the page
    page.get_by_role("button", name="Resume").click()
    page.get_by_role("dialog").get_by_role("button", name="Resume").click()

    page.get_by_role("list", name="Stages").get_by_text(ENDED).wait_for()
    video_plays(page)
    page.get_by_role("link", name="Iterations", exact=True).click()
    page.get_by_role("button", name="episode 1, score").click()
    page.locator("body").press("y")
    page.get_by_text("Labeled as wanted").first.wait_for()
    fresh.picture(tmp_path, "living-judged")
    [session] = (tmp_path / "runs").glob("session_*")
    assert (session / "labels.jsonl").exists() and (session / "judge_fn.py").exists()
    assert not fresh.faults


def test_criteria_wait_for_approval_and_can_be_edited(fresh, tmp_path):
    from telic.verbs.background import start_verb

    values = {"intent": "keep the pole upright", "env": "InvertedPendulum-v5", "approve": True}
    values |= {"steps": 2000, "iterations": 1, "seeds": [1]}
    start_verb(("run",), "session:run", values, tmp_path / "runs")
    while not (found := list((tmp_path / "runs").glob("session_*/waiting.json"))):
        fresh.page.wait_for_timeout(300)
    fresh.open(f"/runs/{found[0].parent.name}", "Approve the criteria before training")
    fresh.page.get_by_label("Target of", exact=False).first.fill("0.9")
    fresh.page.get_by_role("button", name="Approve with changes").click()
    fresh.page.get_by_text("Training is starting").wait_for()
    fresh.page.get_by_role("list", name="Stages").get_by_text(ENDED).wait_for()
    approval = (found[0].parent / "approval.json").read_text()
    assert '"edited": true' in approval and os.environ["XDG_RUNTIME_DIR"] == str(tmp_path)
