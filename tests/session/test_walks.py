"""No sequence of edits to the files of a session improves its outcome."""

import json
import os
import random
import shutil

import pytest

from telic.authors.request import SessionConfig
from telic.errors import TelicError
from telic.session.control import add_note
from telic.session.labels import add_label, add_veto
from telic.session.loop import resume_session, run_session
from telic.session.records import PASSES, SessionSummary, session_state, verified
from telic.storage.files import read_record
from telic.storage.layout import SessionFolder
from telic.verbs.artifacts import list_artifacts, report, show
from tests.session.quick import at_home
from tests.web.conftest import client_of

WALKS = int(os.environ.get("TELIC_WALKS", "8"))
"""walks of a whole run; each takes ten seconds of a processor"""
ASKED = {
    "passed": {},
    "one seed": {"seeds": (1,)},
    "not passed": {"threshold": 0.999},
}
"""the same words of the same robot, with other terms: their files fit one another"""


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    small = {"steps": 256, "episodes": 4, "iterations": 1, "robustness": False, "first_rewards": 1}
    made = {}
    with at_home():
        for name, terms in ASKED.items():
            folder = tmp_path_factory.mktemp("ended") / "runs"
            request = {**small, "start_seed": 0, **terms}
            session = run_session("stand still", env="HalfCheetah-v5", runs_dir=folder, **request)
            made[name] = SessionFolder(session.path)
    assert [verified(each).outcome for each in made.values()] == [
        "passed",
        "passed",
        "not_passed",
    ]
    return made


class Walk:
    """Session that is randomly operated and edited."""

    def __init__(self, seed, ended, root):
        self.chance = random.Random(seed)
        name = self.chance.choice(list(ended))
        self.others = [each for other, each in ended.items() if other != name]
        self.folder = SessionFolder(root / "runs" / ended[name].name)
        shutil.copytree(ended[name].path, self.folder.path)
        self.root, self.steps = root, [name]
        self.config = read_record(self.folder.config, SessionConfig)
        self.proven = read_record(self.folder.summary, SessionSummary)
        self.before = root / "before"
        shutil.copytree(self.folder.path, self.before)

    def go(self):
        """Edit, resume and act randomly, and yield the steps so far after each."""
        some = self.chance.choices
        forget = [forget_the_end] if self.chance.random() < 0.7 else []
        for step in (
            *some(EDITS, k=2),
            *forget,
            *some(EDITS),
            resume,
            *some((*EDITS, *VERBS), k=3),
        ):
            self.steps.append(step.__name__)
            try:
                step(self)
            except OSError:
                assert step in EDITS, self.steps  # what is gone cannot be edited
            yield self.steps

    def claims_more(self):
        """Look through every window; say whether one shows a pass that was not proven."""
        printed = [
            self.tried(lambda: session_state(self.folder)),
            self.tried(self.outcome),
        ]
        if not any(each in PASSES for each in printed):
            return False
        summary = verified(self.folder)
        asked = self.tried(lambda: read_record(self.folder.config, SessionConfig))
        is_same = summary.low == self.proven.low and summary.score == self.proven.score
        is_limited = set(summary.limits) >= set(self.proven.limits)
        is_asked = asked is None or asked.threshold <= self.config.threshold
        return not (self.proven.outcome in PASSES and is_same and is_limited and is_asked)

    def outcome(self):
        return verified(self.folder).outcome

    def tried(self, work):
        try:
            return work()
        except TelicError as error:
            assert error.message.strip(), self.steps
            return None

    def file(self):
        """Return any file of the session, the ones that say something more often."""
        files = sorted(path for path in self.folder.path.rglob("*") if path.is_file())
        revealing = [path for path in files if path.suffix in (".json", ".py", ".jsonl")]
        path = self.chance.choice(
            (revealing if self.chance.random() < 0.8 else files) or [self.folder.config]
        )
        self.steps[-1] += f" {path.relative_to(self.folder.path)}"
        return path


def remove(walk):
    walk.file().unlink()


def shorten(walk):
    path = walk.file()
    content = path.read_bytes()
    path.write_bytes(content[: walk.chance.randrange(len(content) + 1)])


def put_back(walk):
    path = walk.file()
    shutil.copy2(walk.before / path.relative_to(walk.folder.path), path)


def forget_the_end(walk):
    for path in (walk.folder.summary, walk.folder.certificate):
        path.unlink(missing_ok=True)


def swap(walk):
    path, other = walk.file(), walk.chance.choice(walk.others)
    shutil.copy2(other.path / path.relative_to(walk.folder.path), path)


def swap_all_but_the_request(walk):
    other = walk.chance.choice(walk.others)
    shutil.copytree(
        other.path, walk.folder.path, dirs_exist_ok=True, ignore=lambda *_: {"session.json"}
    )


def swap_the_request(walk):
    shutil.copy2(walk.chance.choice(walk.others).config, walk.folder.config)


def link(walk):
    path = walk.file()
    path.unlink()
    other = walk.chance.choice(walk.others).path / path.relative_to(walk.folder.path)
    path.symlink_to(walk.chance.choice((other, path, "/dev/zero", walk.folder.path)))


def protect(walk):
    os.chmod(walk.file(), walk.chance.choice((0o444, 0)))


def pipe(walk):
    path = walk.file()
    path.unlink()
    walk.chance.choice((os.mkfifo, os.mkdir))(path)


def bend(walk):
    path = walk.file()
    value = json.loads(path.read_text()) if path.suffix == ".json" else None
    if not isinstance(value, dict) or not value:
        return
    key = walk.chance.choice(sorted(value))
    new = walk.chance.choice(
        ("NaN", "1e999", "null", "[]", "{}", '"passed"', "true", "-1", "0", '"/etc/passwd"', "[[]]")
    )
    text = json.dumps(value)
    how = walk.chance.randrange(4)
    walk.steps[-1] += f" {key}={new} {how}"
    if how == 0:
        text = json.dumps({**value, "another": 1})
    elif how == 1:
        text = f'{text[:-1]}, "{key}": {new}}}'
    else:
        value[key] = "@here@"
        text = json.dumps(value).replace('"@here@"', new)
    path.write_text(text)


def lower(walk):
    """Ask for less, or for more, after the fact."""
    value = json.loads(walk.folder.config.read_text())
    value.update(
        walk.chance.choice(({"threshold": 0.5}, {"threshold": 0.999}, {"seeds": [1, 2, 3]}))
    )
    walk.folder.config.write_text(json.dumps(value))


def look(walk):
    runs = walk.folder.path.parent
    walk.tried(lambda: show(walk.folder.name, runs_dir=runs))
    walk.tried(lambda: list_artifacts(runs_dir=runs))


def browse(walk):
    client = client_of(walk.root)
    for path in ("artifacts", f"artifacts/{walk.folder.name}"):
        answer = client.get(f"/api/{path}")
        assert answer.status_code < 500, (walk.steps, answer.text)


def note(walk):
    walk.tried(lambda: add_note(walk.folder, "slower"))


def label(walk):
    walk.tried(lambda: add_label(walk.folder, walk.chance.random() < 0.5))


def veto(walk):
    walk.tried(lambda: add_veto(walk.folder, "it slides"))


def emit(walk):
    walk.tried(lambda: report(walk.folder.name, runs_dir=walk.folder.path.parent))


def resume(walk):
    with at_home():
        walk.tried(lambda: resume_session(walk.folder))


def stop_at_once(walk):
    with at_home():
        walk.tried(lambda: resume_session(walk.folder, should_stop=lambda: True))


EDITS = (
    remove,
    shorten,
    put_back,
    forget_the_end,
    forget_the_end,
    swap,
    swap_all_but_the_request,
    swap_the_request,
    link,
    protect,
    pipe,
    bend,
    bend,
    lower,
)
VERBS = (look, browse, note, label, veto, emit, resume, resume, stop_at_once)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(WALKS))
def test_no_walk_ends_with_more_than_was_proven(seed, ended, tmp_path):
    walk = Walk(seed, ended, tmp_path)
    for steps in walk.go():
        assert not walk.claims_more(), steps
