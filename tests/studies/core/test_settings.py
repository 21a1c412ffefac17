"""A setting that people write and nobody reads is a lie: every field of every document is read."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel

from telic.studies.documents import adapter, candidate, contract, metrics
from telic.studies.evidence import curriculum, probes

SOURCE = Path(adapter.__file__).parents[1]
FOR_PEOPLE = {
    "Seeds.deterministic": "what an audit found out; shown with the adapter",
    "Quote.quote_hash": "proves where in the repository a finding was made",
    "ContractException.approved_by": "whose exception it is; approved with the scope",
    "TaskSection.card_hash": "the card itself is hashed into its approval",
    "Network.purposes": "what a destination is for; approved with the network",
    "Component.kernel": "how a term is shaped; approved with the metrics",
    "Normalisation.basis": "what 0 and 1 stand for; approved with the metrics",
    "MetricSpec.no_guardrails_because": "approved with the metrics",
    "Protocol.deterministic": "part of the protocol's hash: what differs is not compared",
    "Times.planned_at": "when a run was announced; the ledger has it, too",
    "StudyRun.cmd_hash": "what a run was started with; the ledger has it, too",
    "BatchCandidate.expected_output": "a plan for people",
    "BatchCandidate.promotion_criteria": "a plan for people",
    "Idea.idea": "a plan for people",
    "Experiments.backlog": "a plan for people",
    "Learnability.case_set": "which cases are meant",
    "ProbedPolicy.checkpoint_sha": "which policy was probed; part of the evidence",
    "ParameterSummary.cliffs": "a finding for people",
    "CommandSpec.shell": "can only be false: whoever writes true is told so",
    "Commands.resume": "what an audit found; a lost run is started anew",
    "ConfigSpec.roots": "what an audit found; shown with the adapter",
    "RepositoryOutputs.run_dir_template": "what an audit found; shown with the adapter",
    "TaskSection.env_ids": "which environments are meant; approved with the contract",
    "Protocol.env_ids": "part of the protocol's hash: what differs is not compared",
    "Automation.micro_trials": "of work that is told from elsewhere: what it might try",
    "Origin.work_order": "where a candidate comes from",
    "Origin.prompt_hash": "where a candidate comes from",
    "Origin.imported_from": "where a candidate comes from",
    "Candidate.created_at": "when; the ledger has it, too",
    "Candidate.base_revision": "which revision was changed; checked when it is written",
    "StudyRun.created_at": "when; the ledger has it, too",
    "StudyRun.resources": "what was set aside for a run; the ledger has it, too",
    "Evidence.created_at": "when; the ledger has it, too",
    "Evidence.producer": "who measured; part of the evidence",
    "Decision.created_at": "when; the ledger has it, too",
    "QueueBatch.goal": "a plan for people",
    "QueueBatch.created_at": "a plan for people",
    "ProbePlan.one_at_a_time": "can only be true: whoever writes false is told so",
    "ProbeSummary.worst": "a finding for people",
}
"""fields that no rule reads, each with what it is good for"""


def names_read(tree: ast.AST) -> Iterator[str]:
    """Yield what a module reads: attributes, and texts that stand where names are looked up.

    What is only written, as a keyword or as the key of a table, is not read.
    """
    for node in ast.walk(tree):
        texts: list[ast.expr] = []
        match node:
            case ast.Attribute(ctx=ast.Load()):
                yield node.attr
            case ast.Subscript():
                texts = [node.slice]
            case ast.Call():
                texts = node.args
            case ast.Tuple() | ast.List() | ast.Set():
                texts = node.elts
            case ast.Compare():
                texts = [node.left, *node.comparators]
            case _:
                pass
        for text in texts:
            if isinstance(text, ast.Constant) and isinstance(text.value, str):
                yield from text.value.split(".")


@pytest.fixture(scope="module")
def read() -> set[str]:
    """Every name that the code of studies reads, outside of the documents and the scanner."""
    files = [x for x in SOURCE.rglob("*.py") if not {"documents", "scan"} & {*x.parts}]
    found = {name for path in files for name in names_read(ast.parse(path.read_text()))}
    return {*found, *contract.RESOURCES}


def test_every_field_of_every_document_is_read_or_is_for_people(read):
    unread = set()
    for module in (adapter, contract, metrics, candidate, curriculum, probes):
        for name, kind in vars(module).items():
            is_own = isinstance(kind, type) and getattr(kind, "__module__", "") == module.__name__
            if not is_own or not issubclass(kind, BaseModel):
                continue
            for field in kind.model_fields:
                if field not in read:
                    unread.add(f"{name}.{field}")
    assert unread == set(FOR_PEOPLE)


def test_a_field_that_is_only_written_is_not_read():
    tree = ast.parse("a.b = c.d; f(e=1); g = {'h': 1}; i['j']; k.get('l'); m in ('n', 'o')")
    assert set(names_read(tree)) == {"d", "j", "get", "l", "n", "o"}
