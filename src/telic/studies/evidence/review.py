"""Reviews of candidates: which of them count, and which hacking risks they settle.

A passing self-review counts only after a person, who could read it, has approved the candidate. A
review that finds an exploit always counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from telic.studies.documents.base import StudyActor
from telic.studies.documents.candidate import Evidence
from telic.studies.errors import GateRefused, StudyError
from telic.studies.evidence.store import add_evidence

if TYPE_CHECKING:
    from telic.studies.study import Study

REVIEW = "telic study audit {} --exploit --finding TEXT"


def review_candidate(
    study: Study, candidate: str, actor: StudyActor, finding: str, *, is_exploit: bool
) -> Evidence:
    """Enter a review of a candidate as it is now.

    A review by an actor who may be its author under another name, such as a second agent of the
    same session, is marked as a self-review. Raises GateRefused E_OWN_REVIEW for the author,
    StudyError E_REASON without a finding.
    """
    author = study.candidate_state(candidate).author
    if not finding.strip():
        raise StudyError("E_REASON", "A review needs a finding.", hint="Add --finding TEXT.")
    if actor.label == author:
        raise GateRefused(
            "E_OWN_REVIEW",
            f"{actor.label} wrote {candidate} and cannot review it.",
            hint="Ask a person or another agent.",
        )
    is_self = may_be_author(study.candidate(candidate).created_by, actor)
    reflections = study.evidence_names("reflection", candidate=candidate)
    # The hash binds a review to this content; `knew` makes the same words about a newer
    # reflection another review.
    facts = {
        "finding": finding,
        "exploit": is_exploit,
        "passed": not is_exploit,
        "self_review": is_self,
        "knew": reflections[-1] if reflections else None,
        "content_hash": study.candidate(candidate).compute_hash(),
    }
    return add_evidence(
        study,
        "review",
        facts,
        actor,
        candidate=candidate,
        producer=actor.label,
        summary=f"{'self-review: ' if is_self else ''}{'exploit' if is_exploit else 'no exploit'}",
    )


def may_be_author(author: StudyActor, reviewer: StudyActor) -> bool:
    """Return whether a reviewer may be the author by another name.

    A person is not an agent, and is known by name. Two agents differ only if both name their
    sessions, and different ones.
    """
    if "human" in (author.kind, reviewer.kind):
        return author.label == reviewer.label
    return author.session is None or reviewer.session in (None, author.session)


def reviews(study: Study, candidate: str) -> Iterator[Evidence]:
    """Yield the reviews of a candidate that count, the newest first; some may be of older content.

    They settle a high hacking risk, and gate G22 asks for one before generated code is run.
    """
    for name in reversed(study.evidence_names("review", candidate=candidate)):
        review = study.sheet(name)
        is_self_praise = review.payload.get("self_review") and not review.payload.get("exploit")
        if not is_self_praise or is_approved_knowing(study, review):
            yield review


def last_review(study: Study, candidate: str) -> Evidence | None:
    """Return the newest review of a candidate that counts; None without one."""
    return next(reviews(study, candidate), None)


def ask_for_review(candidate: str) -> tuple[str, ...]:
    """Return what is needed for a candidate whose reward may be exploited."""
    asked = "a reviewer other than its author decides (--no-exploit: the reward is not exploited)"
    return asked, own_praise_counts(candidate)


def own_praise_counts(candidate: str) -> str:
    """Return how a person accepts a passing self-review."""
    approve = f"telic study approve experiment --candidate {candidate}"
    return f"a passing self-review counts after a person approves: {approve}"


def is_approved_knowing(study: Study, review: Evidence) -> bool:
    """Return whether a person approved the reviewed candidate after the review."""
    entry = study.state.evidence[review.id]
    candidate = entry.candidate
    if candidate is None or study.standing("experiment", candidate).status != "approved":
        return False
    return any(
        event.seq > entry.seq and event.data["key"] == "experiment"
        for event in study.events_of("approval.granted", about=(candidate,))
    )


# ---------------------------------------------------------------------------- hacking risk


def newest_level(study: Study, runs: Iterable[str]) -> str | None:
    """Return the hacking level of the newest reflection on one of the runs; None without one."""
    wanted, entries = set(runs), study.state.evidence
    names = [name for name in study.evidence_names("reflection") if entries[name].run in wanted]
    return _level(study, names[-1]) if names else None


def hacking_levels(study: Study) -> tuple[str, ...]:
    """Return the hacking levels of reflections that no review settled, the oldest first.

    Reflections before a person reopened the study no longer count.
    """
    entries, opened = study.state.evidence, study.state.opened_seq
    names = [name for name in study.evidence_names("reflection") if entries[name].seq > opened]
    about = {name: entries[name].candidate for name in names}
    settled = {each for each in about.values() if each and is_reviewed(study, each)}
    return tuple(_level(study, name) for name, each in about.items() if each not in settled)


def is_reviewed(study: Study, candidate: str) -> bool:
    """Return whether a review of the present content counts since its risk was first high.

    One review settles it, also for further runs of the same content.
    """
    entries, now = study.state.evidence, study.state.candidates[candidate].content_hash
    reflections = study.evidence_names("reflection", candidate=candidate)
    risky = next((name for name in reflections if _level(study, name) == "high"), None)
    return risky is not None and any(
        entries[review.id].seq > entries[risky].seq
        for review in reviews(study, candidate)
        if review.payload.get("content_hash") == now
    )


def is_unreviewed(study: Study, candidate: str) -> bool:
    """Return whether a candidate's last reflection has a high risk without a review."""
    reflections = study.evidence_names("reflection", candidate=candidate)
    is_risky = bool(reflections) and _level(study, reflections[-1]) == "high"
    return is_risky and not is_reviewed(study, candidate)


def _level(study: Study, reflection: str) -> str:
    return study.sheet(reflection).payload["hacking"]["level"]
