"""Contracts of authors, judges, launchers and search proposers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np

from telic.authors.author import Author, Brief
from telic.authors.candidate import RewardCandidate, SessionIteration
from telic.authors.request import SessionConfig
from telic.envs import make
from telic.envs.catalogue import describe
from telic.envs.spec import EnvSpec
from telic.jobs.launcher import JobPlace, Launcher
from telic.jobs.pool import JobPool
from telic.jobs.spec import JobSpec
from telic.judges.code import Judge, JudgeCode
from telic.judges.criteria import Composition
from telic.judges.verdict import Verdict
from telic.rewards.probe import probe
from telic.rewards.reward import load_reward
from telic.search.plan import SearchPlan, make_plan
from telic.search.policies import PolicyFamily
from telic.search.proposers import PolicyDraft, PolicyProposal, Proposer, SearchView
from telic.search.records import (
    History,
    PolicyCandidate,
    SearchConfig,
    SearchIteration,
    TrialEpisodes,
)
from telic.search.task import BatchRecording, PolicyTrial, SearchTask, rollout_seeds
from telic.storage.files import write_json
from telic.storage.layout import SessionFolder
from telic.storage.trajectories import RECORDED, Trajectory, TrajectoryFacts
from telic.testing.contracts import _actions


class JudgeContract:
    """Contract tests for every judge. See `telic.judges.code.Judge`."""

    env: ClassVar[str] = "InvertedPendulum-v5"
    """id of an environment for which the judge can be used"""

    def make(self, spec: EnvSpec) -> Judge:
        """Return the judge under test."""
        raise NotImplementedError

    def test_score_is_in_the_unit_interval_or_has_a_reason(self) -> None:
        verdict = self._judge(25)
        if verdict.score is None:
            assert verdict.reason, "a verdict without a score states a reason"
        else:
            assert 0.0 <= verdict.score <= 1.0
        for each in verdict.criteria:
            assert 0.0 <= each.credit <= 1.0

    def test_verdict_is_deterministic(self) -> None:
        assert self._judge(25) == self._judge(25)

    def test_empty_episode_has_no_score(self) -> None:
        verdict = self._judge(0)
        assert verdict.score is None and verdict.reason

    def test_episode_is_not_modified(self) -> None:
        spec, episode = recorded_episode(self.env, 25)
        before = {name: np.array(values) for name, values in episode.columns.items()}
        self.make(spec)(episode, spec)
        for name, values in before.items():
            assert np.array_equal(values, episode[name], equal_nan=values.dtype.kind == "f"), name

    def test_verdict_can_be_serialized(self) -> None:
        verdict = self._judge(25)
        assert Verdict.model_validate_json(verdict.model_dump_json()) == verdict

    def _judge(self, steps: int) -> Verdict:
        spec, episode = recorded_episode(self.env, steps)
        return self.make(spec)(episode, spec)


class AuthorContract:
    """Contract tests for every session author. See `telic.authors.author.Author`."""

    intent: ClassVar[str] = "balance the pole"
    env: ClassVar[str] = "InvertedPendulum-v5"

    def make(self, brief: Brief) -> Author:
        """Return the author under test."""
        raise NotImplementedError

    def test_criteria_can_be_measured(self, tmp_path: Path) -> None:
        wanted = self.make(self._brief(tmp_path)).read()
        titles = [criterion.title for criterion in wanted.criteria]
        assert titles and len(set(titles)) == len(titles)
        assert any(criterion.weight > 0.0 for criterion in wanted.criteria)

    def test_written_reward_passes_the_probe(self, tmp_path: Path) -> None:
        written = self._written(tmp_path)
        env = make(self.env, num_envs=8, **written.env_args)
        assert probe(load_reward(written.reward), env).mode
        assert written.steps > 0
        env.close()

    def test_written_judge_scores_an_episode(self, tmp_path: Path) -> None:
        spec, episode = recorded_episode(self.env, 20)
        verdict = JudgeCode(self._written(tmp_path).judge)(episode, spec)
        assert verdict.score is not None, verdict.reason

    def test_revision_follows_the_history(self, tmp_path: Path) -> None:
        brief = self._brief(tmp_path)
        author, written = self.make(brief), self._written(tmp_path)
        first = RewardCandidate(reward=written.reward, env_args=written.env_args, steps=1000)
        path = brief.folder.iteration(1).candidate
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, first)
        write_json(brief.folder.author, written)
        tried = SessionIteration(
            number=1,
            parent=None,
            change="first try",
            passed=False,
            score=0.3,
            variant=0,
            best=None,
            tags=("falls",),
            members=(),
            steps=1000,
            training_s=1.0,
            judging_s=1.0,
        )
        revision = author.revise([tried], ())
        assert load_reward(revision.reward) and revision.steps > 0 and revision.change

    def test_watching_no_episodes_returns_no_verdicts(self, tmp_path: Path) -> None:
        assert self.make(self._brief(tmp_path)).watch([], []) == []

    def _brief(self, folder: Path) -> Brief:
        session = SessionFolder(folder / "session")
        session.path.mkdir(exist_ok=True)
        config = SessionConfig(intent=self.intent, env=self.env, vision=False)
        return Brief(config, describe(self.env), session)

    def _written(self, folder: Path) -> Composition:
        author = self.make(self._brief(folder))
        return author.write(author.read())


class LauncherContract:
    """Contract tests for every launcher. See `telic.jobs.launcher.Launcher`."""

    def make(self) -> Launcher:
        """Return the launcher under test."""
        raise NotImplementedError

    def test_job_transfers_files_and_reports_its_exit_code(self, tmp_path: Path) -> None:
        (tmp_path / "given").write_text("given")
        made = "import pathlib; given = pathlib.Path('given').read_text(); print(given)"
        write = f"{made}; pathlib.Path('out/made').write_text(given + '!'); raise SystemExit(3)"
        with self._pool(tmp_path) as pool:
            record = pool.submit(self._job("makes", write, tmp_path)).result(60)
            log = pool.board.log("makes")
        assert (record.state, record.code, len(record.attempts)) == ("done", 3, 1)
        assert (tmp_path / "out" / "made").read_text() == "given!" and log == "given\n"

    def test_job_resumes_after_a_crash(self, tmp_path: Path) -> None:
        die = "len(had) < 2 and os.kill(os.getpid(), 9)"
        grow = "open('out/had', 'a').write('x'); had = open('out/had').read()"
        with self._pool(tmp_path) as pool:
            job = self._job("dies", f"import os; {grow}; {die}", tmp_path)
            record = pool.submit(job).result(60)
        assert (record.state, record.code, len(record.attempts)) == ("done", 0, 2)
        assert "killed by signal 9" in str(record.attempts[0].ended)
        assert (tmp_path / "out" / "had").read_text() == "xx"

    def test_stopped_job_can_save_first(self, tmp_path: Path) -> None:
        save = "(open('out/saved', 'w').close(), sys.exit(5))"
        wait = "open('out/begun', 'w').close(); time.sleep(60)"
        code = f"import signal, sys, time; signal.signal(15, lambda *_: {save}); {wait}"
        with self._pool(tmp_path) as pool:
            future = pool.submit(self._job("waits", code, tmp_path))
            while not (tmp_path / "out" / "begun").exists():
                time.sleep(0.05)
            pool.board.stop("waits")
            record = future.result(60)
        assert (record.state, record.code) == ("stopped", 5)
        assert (tmp_path / "out" / "saved").exists()

    def _pool(self, folder: Path) -> JobPool:
        place = JobPlace(at_once=2)
        return JobPool(place, folder / "runs", launcher=self.make())

    def _job(self, name: str, code: str, cwd: Path) -> JobSpec:
        (cwd / "out").mkdir(exist_ok=True)
        sends = ("given",) if (cwd / "given").exists() else ()
        argv = ("python", "-c", code)
        return JobSpec(name=name, argv=argv, cwd=str(cwd), folder="out", sends=sends)


class ProposerContract:
    """Contract tests for every policy search proposer. See `telic.search.proposers.Proposer`."""

    env: ClassVar[str] = "CartPole-v1"
    """id of the policy search task used in the tests"""

    def make(self, task: SearchTask, family: PolicyFamily, seed: int) -> Proposer:
        """Return the proposer under test."""
        raise NotImplementedError

    def test_proposals_have_the_declared_size_and_bounds(self) -> None:
        trial = _ProposerTrial(self, seed=1)
        for _ in range(3):
            count = trial.proposer.at_once
            drafts = trial.advance().drafts
            assert len(drafts) == count >= 1
            for draft in drafts:
                space = trial.plan.policy.space
                assert len(draft.params) == space.rank and draft.origin
                assert all(space.low <= number <= space.high for number in draft.params)

    def test_proposals_depend_only_on_the_seed(self) -> None:
        first, again, other = (_ProposerTrial(self, seed=seed) for seed in (1, 1, 2))
        drafts = [first.advance().drafts for _ in range(3)]
        assert drafts == [again.advance().drafts for _ in range(3)]
        assert drafts != [other.advance().drafts for _ in range(3)]

    def test_resuming_from_the_log_changes_nothing(self) -> None:
        whole = _ProposerTrial(self, seed=4)
        for _ in range(3):
            whole.advance()
        resumed = _ProposerTrial(self, seed=4)
        for iteration, recording in whole.log:
            resumed.take_up(iteration, recording)
        assert resumed.advance().drafts == whole.advance().drafts


class _ProposerTrial:
    """Proposer under test, with a task and the policies evaluated so far."""

    def __init__(self, contract: ProposerContract, seed: int) -> None:
        request = {"env": contract.env, "method": "random", "switches": {"rollouts": 2}}
        self.plan: SearchPlan = make_plan(SearchConfig.parse(request))
        self.proposer = contract.make(self.plan.task, self.plan.policy, seed)
        self.log: list[tuple[SearchIteration, BatchRecording | None]] = []
        self._player, self._seed = self.plan.player(), seed
        self._history, self._tried = History(confirm=0, keeps_losers=True), 0

    def advance(self) -> PolicyProposal:
        """Propose policies, evaluate them, and report the results to the proposer."""
        proposal = self.proposer.propose(self._view())
        candidates, recording = self._try(proposal.drafts)
        self.proposer.observe(candidates, recording)
        self._note(candidates, recording)
        return proposal

    def take_up(self, iteration: SearchIteration, recording: BatchRecording | None) -> None:
        """Restore the proposer's state after a saved iteration."""
        self.proposer.replay(self._view(), iteration.candidates, recording)
        self._note(list(iteration.candidates), recording)

    def _view(self) -> SearchView:
        return SearchView(self._history, len(self.log) + 1, 9, self._seed, 1)

    def _try(
        self, drafts: Sequence[PolicyDraft]
    ) -> tuple[list[PolicyCandidate], BatchRecording | None]:
        seeds = np.stack([rollout_seeds(len(self.log), 2)] * len(drafts))
        params = np.array([draft.params for draft in drafts])
        (rollouts,) = self._player.play([PolicyTrial(params, seeds, is_recorded=True)])
        candidates = [
            PolicyCandidate(
                number=self._tried + row,
                params=draft.params,
                origin=draft.origin,
                tried=TrialEpisodes.of(len(self.log), rollouts, row),
            )
            for row, draft in enumerate(drafts)
        ]
        return candidates, rollouts.recording

    def _note(self, candidates: list[PolicyCandidate], recording: BatchRecording | None) -> None:
        self._tried += len(candidates)
        best = max(candidates, key=lambda candidate: candidate.mean)
        iteration = SearchIteration(
            number=len(self.log) + 1,
            candidates=tuple(candidates),
            selected=best.number,
            winner="first",
            incumbent=best.number,
            incumbent_mean=best.mean,
            episodes=0,
            steps=0,
            model="none",
        )
        self._history.add(iteration)
        self.log.append((iteration, recording))


def recorded_episode(env_id: str, steps: int) -> tuple[EnvSpec, Trajectory]:
    """Return the spec of an environment, and an episode recorded with random actions."""
    env = make(env_id, num_envs=1)
    fields = [name for name in RECORDED if name in env.spec.info_keys]
    rows: dict[str, list[np.ndarray]] = {}
    obs = env.reset()
    for number in range(max(steps, 1)):
        action = _actions(env, number)
        step = env.step(action)
        row = {"obs": obs, "action": action, "next_obs": step.final_obs}
        row |= {"env_reward": step.reward, "terminated": step.terminated}
        row |= {"truncated": step.truncated, **{name: step.info[name] for name in fields}}
        for name, values in row.items():
            rows.setdefault(name, []).append(values[0].cpu().numpy())
        obs = step.obs
    env.close()
    spec, columns = env.spec, {name: np.stack(values)[:steps] for name, values in rows.items()}
    facts = TrajectoryFacts(
        env_id=env_id,
        dt_s=spec.dt_s,
        obs_names=spec.obs_names,
        action_names=spec.action_names,
        body_names=spec.body_names,
        joint_names=spec.joint_names,
    )
    return spec, Trajectory(columns, facts)
