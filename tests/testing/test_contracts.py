"""Our own environments, judges, proposers, providers and launchers keep the shipped contracts."""

import json

import pytest

from telic.authors._cast import RoleModels
from telic.authors._model import ModelAuthor
from telic.authors.composer import ComposerAuthor
from telic.envs import make
from telic.judges.code import JudgeCode
from telic.llm import Host, Models
from telic.search.proposers import Ars, Climb, Cma, Random, Tabular
from telic.testing import EnvironmentContract, JudgeContract
from telic.testing.models import Replay, Scripted
from tests.authors.scripts import REVISION, SCRIPT
from tests.testing.contracts import QUESTION, AuthorContract, ProposerContract, ProviderContract

JUDGE = """
from telic import require, score


def judge(episode):
    return [
        score("stays up", episode.seconds, zero=0.1, goal=2.0, unit="s", tag="falls"),
        require("is somewhere", float(episode["qpos"].shape[1]), zero=0.0, goal=1.0),
    ]
"""
ANSWER = {"title": "Ants"}


@pytest.mark.parametrize("name", ["InvertedPendulum-v5", "Hopper-v5", "CartPole-v1"])
class TestEnvironments(EnvironmentContract):
    @pytest.fixture(autouse=True)
    def _named(self, name):
        self.name = name

    def make(self, num_envs, seed=0):
        return make(self.name, num_envs=num_envs, seed=seed)


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


class TestScripted(ProviderContract):
    def make(self, folder):
        return Scripted(lambda request: ANSWER)


class TestReplay(ProviderContract):
    def make(self, folder):
        if not (folder / "tape").exists():
            Models(Scripted(lambda request: ANSWER), folder / "tape").ask(QUESTION)
        return Replay(folder / "tape" / "replies")

    @pytest.fixture(autouse=True)
    def _recorded(self, tmp_path):
        self.make(tmp_path)


class TestHost(ProviderContract):
    def make(self, folder):
        host = Host(folder / "orders")
        host.folder.mkdir(exist_ok=True)
        (host.folder / f"{QUESTION.key('host')}.answer.json").write_text(json.dumps(ANSWER))
        return host
