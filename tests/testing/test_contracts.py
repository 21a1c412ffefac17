"""Our own authors, judges and proposers keep the contracts."""

from telic.authors._cast import RoleModels
from telic.authors._model import ModelAuthor
from telic.authors.composer import ComposerAuthor
from telic.judges.code import JudgeCode
from telic.llm import Models
from telic.search.proposers import Ars, Climb, Cma, Random, Tabular
from telic.testing.models import Scripted
from tests.authors.scripts import REVISION, SCRIPT
from tests.testing.contracts import AuthorContract, JudgeContract, ProposerContract

JUDGE = """
from telic import require, score


def judge(episode):
    return [
        score("stays up", episode.seconds, zero=0.1, goal=2.0, unit="s", tag="falls"),
        require("is somewhere", float(episode["qpos"].shape[1]), zero=0.0, goal=1.0),
    ]
"""


class TestCodeJudge(JudgeContract):
    def make(self, spec):
        return JudgeCode(JUDGE)


class TestComposer(AuthorContract):
    def make(self, brief):
        return ComposerAuthor(brief)


class TestModel(AuthorContract):
    intent, env = "run forward", "HalfCheetah-v5"

    def make(self, brief):
        script = {**SCRIPT, "reviser": REVISION}
        return ModelAuthor(RoleModels(Models(Scripted(script), brief.folder.path)), brief)


class TestRandom(ProposerContract):
    def make(self, task, family, seed):
        return Random(task, family, seed)


class TestClimb(ProposerContract):
    def make(self, task, family, seed):
        return Climb(task, family, seed)


class TestArs(ProposerContract):
    def make(self, task, family, seed):
        return Ars(task, family, seed)


class TestCma(ProposerContract):
    env = "MountainCarContinuous-v0"

    def make(self, task, family, seed):
        return Cma(task, family, seed)


class TestTabular(ProposerContract):
    env = "FrozenLake-v1"

    def make(self, task, family, seed):
        return Tabular(task, family, seed)
