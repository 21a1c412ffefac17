"""Batches: candidates tried side by side, each with its own worktree and GPU; the plan of people.

experiments.yaml changes nothing by itself: what runs is in the queue.
"""

from __future__ import annotations

from collections.abc import Sequence

from telic.studies.candidate_files import current_candidate, known
from telic.studies.clock import utc_now
from telic.studies.documents.base import Actor
from telic.studies.documents.candidate import CandidateStatus
from telic.studies.documents.runs import Batch, BatchCandidate, Experiments, Slot
from telic.studies.errors import GateRefused
from telic.studies.ledger import Ledger
from telic.studies.names import check_slug
from telic.studies.queueing import plan_candidate
from telic.studies.yaml_files import read_document, write_yaml

_PLANNABLE = (CandidateStatus.VALIDATED, CandidateStatus.LAUNCHED)


def read_experiments(ledger: Ledger) -> Experiments:
    """Return the plan of people; an empty one when there is no file."""
    path = ledger.folder.experiments
    return read_document(path, Experiments) if path.is_file() else Experiments()


def plan_batch(
    ledger: Ledger, batch_id: str, goal: str, candidates: Sequence[str], actor: Actor
) -> Batch:
    """Give each candidate its place, queue them all, and write the plan down.

    A batch of the same name is replaced; other batches and the backlog stay.
    """
    check_slug("batch", batch_id)
    with ledger.locked():
        for name in candidates:
            if known(ledger, name).status not in _PLANNABLE:
                raise GateRefused(
                    "E_QUEUE",
                    f"{name} is {known(ledger, name).status}; a batch takes validated candidates.",
                    hint=f"Run: telic study candidate validate {name}",
                )
        gpus = ledger.folder.read_contract().hardware.gpus
        rows = [
            _row(ledger, name, gpus[place % len(gpus)] if gpus else None)
            for place, name in enumerate(candidates)
        ]
        batch = Batch(batch_id=batch_id, goal=goal, created_at=utc_now(), candidates=tuple(rows))
        for row in rows:
            slot = Slot(gpu=row.gpu, worktree=row.worktree)
            plan_candidate(ledger, row.id, actor, batch=batch_id, slot=slot)
        held = read_experiments(ledger)
        kept = tuple(each for each in held.batches if each.batch_id != batch_id)
        write_yaml(
            ledger.folder.experiments, held.model_copy(update={"batches": (*kept, batch)}).as_data()
        )
    return batch


def _row(ledger: Ledger, name: str, gpu: int | None) -> BatchCandidate:
    found, held = current_candidate(ledger, name), known(ledger, name)
    phase = held.phase or found.plan.phases[0]
    own_tree = found.isolation.mode == "worktree"
    return BatchCandidate(
        id=name,
        seeds=found.plan.seeds.get(phase, ()),
        phase=phase,
        worktree=f"{name}-r{held.revision}" if own_tree else None,
        gpu=gpu if found.isolation.gpu is None else found.isolation.gpu,
        expected_output=found.hypothesis.statement,
        promotion_criteria=found.plan.promotion_rule or None,
    )
