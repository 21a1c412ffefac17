"""The report is reproducible, complete and self-contained."""

import re
from html.parser import HTMLParser

import pytest

from telic.studies.next import NextAction
from telic.studies.report import write_study_report
from tests.studies.evidence.claimed_study import established_study
from tests.studies.evidence.report_study import write_documents
from tests.studies.fresh import FreshStudy

TITLES = [
    "Status",
    "Contract and approvals",
    "Budget",
    "Candidates",
    "Last audit",
    "Reward reflection",
    "Robustness",
    "Next",
    "Reproduction",
]


ACTION = NextAction(action="propose", why="no budget is left", command="telic study propose FILE")


@pytest.fixture
def study(kept):
    """A study that has much to tell."""
    return kept("told", lambda root: write_documents(established_study(root)))


def markdown(study):
    return write_study_report(study, ACTION).report.read_text()


def test_equal_facts_give_equal_bytes_and_no_event(study):
    head = study.ledger.head
    first = write_study_report(study, ACTION)
    before = first.report.read_bytes(), first.report_page.read_bytes()
    write_study_report(FreshStudy(study.folder), ACTION)
    assert (first.report.read_bytes(), first.report_page.read_bytes()) == before
    assert study.ledger.head == head


def test_foreign_words_stay_words(study):
    folder = write_study_report(study, ACTION)
    assert "<b>prevents" not in folder.report.read_text()
    page = folder.report_page.read_text()
    assert "<b>prevents" not in page and "&lt;b&gt;prevents" in page


class _Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.seen, self.asks = [], [], []

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        self.asks += [
            v for k, v in attrs if k in ("src", "srcset") or (k == "href" and v[0] != "#")
        ]
        if tag not in ("meta", "br", "hr", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_page_is_complete_and_makes_no_requests(study):
    page = write_study_report(study, ACTION).report_page.read_text()
    found = _Tags()
    found.feed(page)
    assert found.open == [] and found.asks == [] and "script" not in found.seen
    assert "default-src &#39;none&#39;" in page and found.seen.count("svg") >= 4
    for title in ("Results", *TITLES[1:]):
        assert f"<h2>{title}</h2>" in page
    assert "nan" not in re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL).lower().split()
