"""Examples in the skills are valid when copied: documents, drafts and answers."""

import re
from itertools import pairwise

import pytest
from pydantic import TypeAdapter
from ruamel.yaml import YAML

from telic.core.text import pairs
from telic.plugin.package import read_skills
from telic.studies.administration import create_study
from telic.studies.contract import draft_contract
from telic.studies.documents.base import StudyActor
from telic.studies.documents.candidate import Candidate
from telic.studies.documents.contract import MetricSpec, Protocol
from telic.studies.evidence.robustness import Curriculum
from telic.verbs.study_candidates import CandidateDraft
from tests.plugin.pages import commands, program_words

HASH = "a" * 64
PAGES = {skill.name: skill.text for skill in read_skills()}
EXAMPLES = [
    (name, YAML(typ="safe", pure=True).load(re.sub("^   ", "", body, flags=re.MULTILINE)))
    for name, text in PAGES.items()
    for body in re.findall(r"```yaml\n(.*?)```", text.replace("HASH", HASH), re.DOTALL)
]
DRAFTS = [(name, data) for name, data in EXAMPLES if "hypothesis" in data]


@pytest.mark.parametrize(("name", "draft"), DRAFTS, ids=[name for name, _ in DRAFTS])
def test_a_draft_is_one(name, draft):
    CandidateDraft.model_validate(draft)
    authored = {key: value for key, value in draft.items() if key != "title"}
    for key, value in authored.items():
        TypeAdapter(Candidate.model_fields[key].annotation).validate_python(value)
    assert all(draft["hypothesis"].values())
    if "curriculum" in draft:
        assert Curriculum.model_validate(draft["curriculum"]).cases


def test_the_documents_of_the_metrics_are_documents():
    spec, protocol = (data for name, data in EXAMPLES if name == "telic-contract")
    assert MetricSpec.parse(spec, "skill").primary.key == "success"
    assert Protocol.parse(protocol, "skill").checkpoint_selection == "last"


def test_the_answers_of_the_contract_are_taken(tmp_path):
    study = create_study(tmp_path, "walk", "speed", StudyActor(kind="agent", name="coder"))
    lines = [x for x in commands(PAGES["telic-contract"]) if " --set " in x]
    assert len(lines) == 4
    for line in lines:
        words = program_words(line)
        given = [after for word, after in pairwise(words) if word == "--set"]
        made = draft_contract(study, pairs(given, "--set"))
    assert made.scope.params["learning-rate"].max_step_ratio == 4
    assert made.baseline.seeds == (901, 902, 903, 904, 905)
    assert made.budget.launches == 40
