"""Measure the reliability of verdicts: flips on fresh episodes, and agreement with people.

    python benchmarks/verdicts.py flips SESSION_FOLDER ...
    python benchmarks/verdicts.py people TASK_FOLDER SESSION_FOLDER ...

A verdict states whether a policy is proven to reach the threshold. It flips if the same judge gives
the opposite verdict on as many fresh episodes. To measure agreement with people, a labeling task is
exported: a folder of contact sheets and a table to fill in, without any scores. With `--publish`,
results are written to docs/results.

<folder>/
    episode_01.png     one episode
    labels.csv         episode, intent and one column per person: yes, no or empty
    key.json           verdict on each episode, hidden from the people
"""

from __future__ import annotations

import argparse
import csv
import io
import random
import shutil
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from published import IS_WANTED, publish, published_rows

from telic.authors.candidate import MemberScore, RewardCandidate, SessionIteration
from telic.authors.footage import Footage
from telic.authors.request import SessionConfig
from telic.bench.results import PassRate
from telic.core.config import Record
from telic.core.seeds import derive
from telic.errors import TelicError, UsageError
from telic.judges.recorder import RolloutSpec, record
from telic.judges.verdict import Verdict, together
from telic.session._judgment import episode_paths, judge_episodes
from telic.storage.files import read_record, write_bytes, write_json, write_text
from telic.storage.layout import IterationFolder, MemberFolder, SessionFolder
from telic.storage.reading import read_text

_EPISODES, _LABELLERS = 60, ("labeller_1", "labeller_2")
_ANSWERS = {"yes": True, "no": False}


class JudgedAgain(Record):
    """Policy that was judged again by code on fresh episodes."""

    session: str
    iteration: int
    member: str
    low: float | None
    """lower bound of its score at that time"""
    low_again: float | None
    flipped: bool


class FlipReport(Record):
    """Fraction of verdicts that flip on fresh episodes, with its 95 % interval."""

    flips: PassRate
    """`passed` counts the verdicts that flip"""
    policies: tuple[JudgedAgain, ...]


def flip_rate(sessions: Sequence[SessionFolder], times: int = 1) -> FlipReport:
    """Judge every policy of sessions again several times, on as many fresh episodes as before."""
    draws = range(times)
    again = [row for folder in sessions for draw in draws for row in _judged_again(folder, draw)]
    if not again:
        raise UsageError("These sessions have no judged policy that is still on disk.")
    flips = sum(row.flipped for row in again)
    return FlipReport(flips=PassRate.of(flips, len(again)), policies=tuple(again))


def _iterations(folder: SessionFolder) -> Iterator[tuple[IterationFolder, SessionIteration]]:
    for number in folder.iterations():
        files = folder.iteration(number)
        if files.judgment.exists() and files.candidate.exists():
            yield files, read_record(files.judgment, SessionIteration)


def _by_code(verdict: Verdict) -> Verdict:
    """Return the verdict of code alone, without querying vision or labels again."""
    return verdict.model_copy(update={"score": verdict.by_judge.get("code", verdict.score)})


def _judged_again(folder: SessionFolder, draw: int) -> Iterator[JudgedAgain]:
    config = read_record(folder.config, SessionConfig)
    for files, iteration in _iterations(folder):
        candidate = read_record(files.candidate, RewardCandidate)
        place, where = files.path / "judged_again", (config.env, candidate.env_args)
        members = {
            each.member: MemberFolder(files.run.path / each.member) for each in iteration.members
        }
        scores = [  # not of an earlier version, and not removed
            each
            for each in iteration.members
            if each.judgment.alpha and members[each.member].checkpoint(each.step).exists()
        ]
        orders = [
            RolloutSpec(
                policy=str(members[score.member].checkpoint(score.step).absolute()),
                env=config.env,
                env_args=candidate.judged_args,
                seed=derive("judged again", folder.name, iteration.number, score.member, draw),
                paths=episode_paths(place / score.member, score.judgment.episodes),
                reward=read_text(members[score.member].reward_code),
                is_kept=False,
            )
            for score in scores
        ]
        try:
            paths = [file.path for order in orders for file in record(order, place)]
            fresh = iter(judge_episodes(folder, config, paths, place / "judge", where))
        finally:
            shutil.rmtree(place, ignore_errors=True)
        for score in scores:
            verdicts = [list(map(_by_code, score.judgment.verdicts))]
            verdicts.append(list(islice(fresh, score.judgment.episodes)))
            alpha = score.judgment.alpha or 0.0
            lows = [together(own, alpha=alpha).low for own in verdicts]
            then, now = ((low or 0.0) >= config.threshold for low in lows)
            yield JudgedAgain(
                session=folder.name,
                iteration=iteration.number,
                member=score.member,
                low=lows[0],
                low_again=lows[1],
                flipped=then != now,
            )


# ---- agreement with people


class LabellingTask(Record):
    """Labeling task that was written."""

    folder: str
    episodes: int
    hint: str = "Fill in labels.csv (yes or no), then run the same command again."


class LabelAgreement(Record):
    """Agreement of the judges with people, and of people with one another."""

    judge: PassRate
    """number of labels that agree with the verdict on their episode"""
    people: PassRate
    """number of episodes with two labels that agree"""
    differ: tuple[str, ...]
    """episodes on which the judge and a label differ"""


class _Key(Record):
    episodes: dict[str, bool]
    """whether the judges passed each episode"""


def labeling(
    sessions: Sequence[SessionFolder], folder: Path, count: int = _EPISODES
) -> LabellingTask | LabelAgreement:
    """Write a labeling task, or measure the agreement if there is a task with labels."""
    if (folder / "key.json").exists():
        return _agreement(folder)
    known = [
        (session, files, score, index)
        for session in sessions
        for files, iteration in _iterations(session)
        for score in iteration.members
        for index, verdict in enumerate(score.judgment.verdicts)
        if verdict.score is not None and files.episode(score.member, index).exists()
    ]
    random.Random(0).shuffle(known)
    # As many that pass as that do not, as far as there are: agreement on one kind says little.
    passing = [row for row in known if _passes(*row)]
    failing = [row for row in known if not _passes(*row)]
    half = max(count // 2, count - len(failing))
    chosen = [*passing[:half], *failing[: count - min(half, len(passing))]]
    if not chosen:
        raise UsageError("These sessions have no judged episode that is still on disk.")
    random.Random(1).shuffle(chosen)
    rows, key = list[tuple[str, ...]](), dict[str, bool]()
    for number, (session, files, score, index) in enumerate(chosen, 1):
        config = read_record(session.config, SessionConfig)
        where = config.env, read_record(files.candidate, RewardCandidate).env_args
        name = f"episode_{number:02d}"
        sheet = Footage(files.episode(score.member, index), folder / "drawn", where).sheet()
        write_bytes(folder / f"{name}.png", sheet.read_bytes())
        rows.append((name, config.intent, *("" for _ in _LABELLERS)))
        key[name] = _passes(session, files, score, index)
    shutil.rmtree(folder / "drawn", ignore_errors=True)
    table = io.StringIO()
    csv.writer(table, lineterminator="\n").writerows([("episode", "intent", *_LABELLERS), *rows])
    write_text(folder / "labels.csv", table.getvalue())
    write_json(folder / "key.json", _Key(episodes=key))
    return LabellingTask(folder=str(folder), episodes=len(rows))


def _passes(session: SessionFolder, files: IterationFolder, score: MemberScore, index: int) -> bool:
    threshold = read_record(session.config, SessionConfig).threshold
    return (score.judgment.verdicts[index].score or 0.0) >= threshold


def _agreement(folder: Path) -> LabelAgreement:
    key = read_record(folder / "key.json", _Key).episodes
    agree, pairs, differ = list[bool](), list[bool](), list[str]()
    for row in csv.DictReader(io.StringIO(read_text(folder / "labels.csv"))):
        given = [(row.get(name) or "").strip().lower() for name in _LABELLERS]
        if wrong := [word for word in given if word and word not in _ANSWERS]:
            raise TelicError(f'{row["episode"]}: "{wrong[0]}" is neither yes nor no.')
        labels = [_ANSWERS[word] for word in given if word]
        agree += [label == key[row["episode"]] for label in labels]
        pairs += [labels[0] == labels[1]] if len(labels) == len(_LABELLERS) else []
        if any(label != key[row["episode"]] for label in labels):
            differ.append(row["episode"])
    if not agree:
        raise UsageError(f"{folder}/labels.csv has no labels yet.", hint="Write yes or no.")
    return LabelAgreement(
        judge=PassRate.of(sum(agree), len(agree)),
        people=PassRate.of(sum(pairs), len(pairs)),
        differ=tuple(differ),
    )


def main() -> None:
    """Print the flip rate of sessions, or write a labeling task and compare its labels."""
    parser = argparse.ArgumentParser(description="Measure the reliability of verdicts.")
    commands = parser.add_subparsers(dest="command", required=True)
    flips = commands.add_parser("flips", help="judge every policy again on fresh episodes")
    flips.add_argument("--times", type=int, default=1, help="number of repetitions (1)")
    people = commands.add_parser("people", help="write a labeling task, or compare its labels")
    people.add_argument("folder", type=Path, help="folder of the labeling task")
    for each in (flips, people):
        each.add_argument("sessions", type=Path, nargs="+", help="folders of sessions")
    given = parser.parse_args()
    sessions = [SessionFolder(path) for path in given.sessions]
    is_flips = given.command == "flips"
    found = flip_rate(sessions, given.times) if is_flips else labeling(sessions, given.folder)
    print(found.model_dump_json(indent=2))
    _publish(
        {"verdicts that flip on fresh episodes": found.flips}
        if isinstance(found, FlipReport)
        else {"labels that agree with the judge": found.judge, "labels that agree": found.people}
        if isinstance(found, LabelAgreement)
        else {}
    )


def _publish(rates: dict[str, PassRate]) -> None:
    """Replace the published rows of some measures."""
    if IS_WANTED and rates:
        rows = {row["measure"]: row for row in published_rows("verdicts")}
        rows |= {name: {"measure": name} | rate.model_dump() for name, rate in rates.items()}
        publish("verdicts", rows.values())


if __name__ == "__main__":
    main()
