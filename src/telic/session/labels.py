"""Human labels of episodes, and vetoes of verdicts.

    labels.jsonl         one line per label, i.e. whether the episode shows the intended behavior
    preferences.jsonl    one line per pair of episodes, i.e. which one is better
    vetoes.jsonl         one line per veto of a verdict

All files are append-only. A label stores the judges' scores of the episode to record
disagreements. The labels of a judge show whether its threshold is too low (`telic.judges.verdict`).
A veto revokes a pass permanently, and the session can then only be continued in a branch.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Literal

from telic.authors.candidate import SessionIteration
from telic.authors.request import SessionConfig
from telic.errors import BadFile, UnknownName, UsageError
from telic.judges.verdict import PersonCalibration, Verdict, at_quantiles, calibrate
from telic.session.control import Remark
from telic.session.evidence import record_veto
from telic.session.records import Outcome, SessionSummary, outcome_words
from telic.storage.files import read_record
from telic.storage.keys import is_own_folder
from telic.storage.layout import SessionFolder, list_sessions
from telic.storage.locks import RunLock
from telic.storage.reading import MAX_TEXT_BYTES, check_file, file_hash

Speaker = Literal["person", "agent"]


class EpisodeLabel(Remark):
    """Label for one episode, with the scores of the judges."""

    by: Speaker = "person"
    """kind of author, where labels by agents are stored but do not affect scores"""
    iteration: int
    member: str
    episode: int
    """number of the episode from 1, as in the report"""
    recording: str | None
    """SHA-256 of the episode's file, or None if unknown"""
    judge: str
    """SHA-256 of the judge's source"""
    is_wanted: bool
    why: str | None = None
    score: float | None
    """combined score of all judges, or None if unknown"""
    code: float | None
    vision: float | None
    threshold: float

    @property
    def passed(self) -> bool | None:
        """Return whether the judges passed the episode, or None if unknown."""
        return None if self.score is None else self.score >= self.threshold

    @property
    def disagrees(self) -> bool:
        """Return whether the label contradicts the judges."""
        return self.passed is not None and self.passed != self.is_wanted


class EpisodePreference(Remark):
    """Better one of two judged episodes, with the combined scores of both."""

    by: Speaker = "person"
    iteration: int
    better: str
    """policy and episode number, e.g. reward_seed_1:3"""
    worse: str
    judge: str
    """SHA-256 of the judge's source"""
    why: str | None = None
    score_better: float | None
    score_worse: float | None

    @property
    def agrees(self) -> bool | None:
        """Return whether the scores have the same order, or None for unknown or equal scores."""
        better, worse = self.score_better, self.score_worse
        return None if None in (better, worse) or better == worse else better > worse  # type: ignore[operator]


class Veto(Remark):
    """Veto of a verdict by a person or an agent."""

    by: Speaker = "person"
    why: str
    outcome: Outcome
    """outcome that was vetoed"""
    judge: str | None = None
    """SHA-256 of the judge that gave the vetoed verdict"""

    @property
    def words(self) -> str:
        """Describe the veto in one sentence."""
        author = self.author if self.by == "person" else f"the agent {self.author}"
        return f"vetoed by {author} on {self.time[:10]}: {self.why}"


def add_label(
    folder: SessionFolder,
    is_wanted: bool,
    *,
    iteration: int | None = None,
    member: str | None = None,
    episode: str | None = None,
    why: str | None = None,
    author: str | None = None,
    by: Speaker = "person",
) -> EpisodeLabel:
    """Record a label for an episode, by default for the median episode of the best policy.

    `episode` is a number (starting at 1), "p10", "median" or "p90".
    """
    chosen, name, number, verdict = _find(folder, iteration, member, episode)
    own = verdict.by_judge or {verdict.source: verdict.score}
    label = EpisodeLabel(
        author=author or "",
        by=by,
        iteration=chosen,
        member=name,
        episode=number + 1,
        recording=verdict.recording,
        judge=judge_hash(folder),
        is_wanted=is_wanted,
        why=(why or "").strip() or None,
        score=verdict.score,
        code=own.get("code"),
        vision=own.get("vision"),
        threshold=read_record(folder.config, SessionConfig).threshold,
    )
    label.append(folder.labels)
    return label


def add_preference(
    folder: SessionFolder,
    better: str,
    worse: str,
    *,
    iteration: int | None = None,
    why: str | None = None,
    author: str | None = None,
    by: Speaker = "person",
) -> EpisodePreference:
    """Record which of two episodes is better. Episodes are named [POLICY:]EPISODE."""
    named = [[None, *each.split(":")][-2:] for each in (better, worse)]
    (chosen, first, at, high), (_, second, to, low) = (
        _find(folder, iteration, *each) for each in named
    )
    if (first, at) == (second, to):
        raise UsageError(f"{better} and {worse} are the same episode.")
    preference = EpisodePreference(
        **{"author": author or "", "by": by, "iteration": chosen, "judge": judge_hash(folder)},
        **{"better": f"{first}:{at + 1}", "worse": f"{second}:{to + 1}"},
        why=(why or "").strip() or None,
        score_better=high.score,
        score_worse=low.score,
    )
    preference.append(folder.preferences)
    return preference


def _find(
    folder: SessionFolder, iteration: int | None, member: str | None, episode: str | None
) -> tuple[int, str, int, Verdict]:
    """Return the iteration, policy, index and verdict of a judged episode."""
    files = {number: folder.iteration(number).judgment for number in folder.iterations()}
    judged = {number: file for number, file in files.items() if file.exists()}
    if iteration is not None and iteration not in judged:
        raise UsageError(
            f"{folder.name} has no judged iteration {iteration}. Available: "
            f"{', '.join(map(str, judged)) or 'none yet'}."
        )
    records = [read_record(file, SessionIteration) for file in judged.values()]
    trained = [each for each in records if each.members and iteration in (None, each.number)]
    if not trained:
        raise UsageError(
            f"{folder.name} has no judged episodes to label yet.",
            hint="Episodes are available after the first evaluation (see telic list).",
        )
    chosen = max(trained, key=lambda each: (each.passed, -1 if each.score is None else each.score))
    policies = {score.member: score for score in chosen.members}
    name = str(member or chosen.best)
    if name not in policies:
        raise UnknownName(f"policy of iteration {chosen.number}", name, list(policies))
    verdicts = policies[name].judgment.verdicts
    number = _episode(name, verdicts, episode)
    return chosen.number, name, number, verdicts[number]


def _episode(member: str, verdicts: Sequence[Verdict], episode: str | None) -> int:
    named = choose_episodes(verdicts)
    if (episode or "median") in named:
        return named[episode or "median"]
    if episode is not None and episode.isdigit() and 0 < int(episode) <= len(verdicts):
        return int(episode) - 1
    raise UsageError(
        f"{member} has no episode {episode or 'median'}.",
        hint=f"Available: 1 to {len(verdicts)}. The report shows p10, median and p90."
        if verdicts
        else "None of its episodes was judged.",
    )


def choose_episodes(verdicts: Sequence[Verdict]) -> dict[str, int]:
    """Return the indices of the p10, median and p90 episodes by score."""
    return at_quantiles(worst_first(verdicts))


def worst_first(verdicts: Sequence[Verdict]) -> list[int]:
    """Return episode indices sorted by ascending score, with unknown scores first."""
    scores = [verdict.score for verdict in verdicts]
    return sorted(range(len(scores)), key=lambda at: (scores[at] is not None, scores[at] or 0.0))


def effective_labels(labels: Sequence[EpisodeLabel]) -> list[EpisodeLabel]:
    """Return the latest label that each author gave to each episode."""
    last = {(each.author, each.iteration, each.member, each.episode): each for each in labels}
    return list(last.values())


def calibration_of(folder: SessionFolder, threshold: float) -> PersonCalibration:
    """Calibrate a session's judge with labels of this user's sessions in the runs folder."""
    own, rows = judge_hash(folder), list[tuple[float, bool]]()
    others = {x.path for x in list_sessions(folder.path.parent) if is_own_folder(x.path)}
    for session in map(SessionFolder, others | {folder.path}):
        with suppress(BadFile):  # reported as a doubt, see `vetoed_before`
            rows += [
                (label.score, label.is_wanted)
                for label in effective_labels(EpisodeLabel.read(session.labels))
                if label.judge == own and label.by == "person" and label.score is not None
            ]
    return calibrate(rows, threshold)


def judge_hash(folder: SessionFolder) -> str:
    """Return the SHA-256 of a session's judge."""
    check_file(folder.judge, MAX_TEXT_BYTES)
    return file_hash(folder.judge)


def add_veto(
    folder: SessionFolder, why: str, author: str | None = None, by: Speaker = "person"
) -> Veto:
    """Revoke a session's pass permanently."""
    if not why.strip():
        raise UsageError("A veto requires a reason.", hint='For example: --why "it slides"')
    if not folder.summary.exists():
        raise UsageError(
            f"{folder.name} has no verdict yet.",
            hint='To give feedback: telic note "less bouncing please"',
        )
    with RunLock(folder.lock, folder.name):
        summary = read_record(folder.summary, SessionSummary)  # as claimed
        if summary.outcome in ("not_passed", "stopped"):
            raise UsageError(
                f"{folder.name} {outcome_words(summary.outcome)}, so there is nothing to veto.",
                hint=f"Label an episode instead: telic label no --session {folder.name}",
            )
        veto = Veto(
            author=author or "",
            by=by,
            why=why.strip(),
            outcome=summary.outcome,
            judge=judge_hash(folder) if folder.judge.exists() else None,
        )
        veto.append(folder.vetoes)  # from here on, the veto is effective even if killed
        unproven = {"outcome": "unproven", "low": None}
        record_veto(folder, summary.because(veto.words).model_copy(update=unproven))
    return veto


def vetoed_before(folder: SessionFolder) -> tuple[str, ...]:
    """Return the human vetoes of this judge's passes from all sessions in the runs folder.

    An unchanged judge would pass the same policies, so repeating a request must not undo a veto.
    """
    own, found = judge_hash(folder), list[str]()
    for session in list_sessions(folder.path.parent):
        try:
            EpisodeLabel.read(session.labels)  # labels of the same judge may lower its scores
            found += [
                f"a pass of the same judge in {session.name} was {veto.words}"
                for veto in Veto.read(session.vetoes)
                if veto.judge == own and veto.by == "person"
            ]
        except BadFile as error:
            found.append(f"labels and vetoes of {session.name} cannot be read: {error}")
    return tuple(found)
