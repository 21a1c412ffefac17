"""List, show, play, export, report and delete sessions, runs, searches and studies by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import telic.search as searches
from telic import session as sessions
from telic import training
from telic.authors.request import SessionConfig
from telic.core.request import RunsRequest, argument, inner, location, option
from telic.core.text import figure, percent
from telic.core.verb import VerbResult, verb
from telic.envs.spec import RewardSpec
from telic.errors import TelicError, UsageError
from telic.session.records import SessionSummary, is_running, verified
from telic.storage.files import read_fields, read_record
from telic.storage.layout import DAMAGED, MemberFolder, RunFolder, SessionFolder
from telic.storage.scalars import EvaluationRow, columns_of, is_evaluation, read_findings, read_rows
from telic.storage.workspace import WORK, Artifact, ArtifactKind, Workspace, has_begun
from telic.verbs.lines import ArtifactSummary, judged_facts, read_line

if TYPE_CHECKING:
    from telic.search.records import SearchSummary
    from telic.search.runner import Result
    from telic.verbs.study_runs import StatusReport

_NAMED = "Session, run, search, study or policy: an id or its prefix, a path, or 'latest'."
_ALL: tuple[ArtifactKind, ...] = (*WORK, "study", "policy")


class ArtifactRequest(RunsRequest):
    """Request for a session, run, search, study or policy by name."""

    artifact: str = argument(_NAMED, default="latest", metavar="ARTIFACT")
    root: Path | str = location("Repository folder, for studies.", "--root", default=Path())

    def find(self, *kinds: ArtifactKind, prefer_live: bool = False) -> Artifact:
        """Find an artifact by name. "latest" is the most recent artifact of the given kinds."""
        workspace = Workspace(self.runs_dir, self.root)
        if self.artifact == "latest":
            return workspace.find(self.artifact, *kinds, prefer_live=prefer_live)
        artifact = workspace.find(self.artifact, *dict.fromkeys((*kinds, *_ALL)))
        if artifact.kind not in kinds:
            raise UsageError(
                f"{artifact.name} is a {artifact.kind}; expected a {' or '.join(kinds)}.",
                hint=_INSTEAD.get(artifact.kind),
            )
        return artifact


_INSTEAD: dict[ArtifactKind, str] = {
    "study": "See: telic study --help",
    "policy": "Specify the run it belongs to.",
}


class _MemberRequest(ArtifactRequest):
    """Request for a policy of a run or of a session's best run."""

    member: str | None = option(
        "Member of the run. Default: the best member.", "--member", "-m", default=None
    )


class PolicyRequest(_MemberRequest):
    """A single policy."""

    step: int | None = option("Checkpoint step. Default: the best checkpoint.", default=None)
    root: Path | str = inner("Repository folder, for studies.", default=Path())

    def choose(self) -> _PolicyPlace:
        """Locate the requested policy. For a session, this is the judged policy."""
        artifact = self.find("session", "run", "policy", "search")
        if artifact.kind == "session":
            return self._judged(artifact)
        if artifact.kind == "search":
            run, member = searches.found.store_found(_searched(artifact), self.member)
            return _PolicyPlace(run, member, self.step, artifact.path)
        if artifact.kind == "run":
            return _PolicyPlace(RunFolder(artifact.path), self.member, self.step, artifact.path)
        is_file = artifact.path.is_file()
        member = artifact.path.parent.parent if is_file else artifact.path
        step = int(artifact.path.stem.removeprefix("policy_")) if is_file else self.step
        return _PolicyPlace(RunFolder(member.parent), member.name, step, member)

    def _judged(self, artifact: Artifact) -> _PolicyPlace:
        folder = SessionFolder(artifact.path)
        best = {"best_iteration": int | None, "best_step": int | None, "best_member": str | None}
        summary = read_fields(folder.summary, **best) if folder.summary.exists() else {}
        member, iteration = summary.get("best_member"), summary.get("best_iteration")
        if member is None or iteration is None:
            raise UsageError(
                f"{artifact.name} has no judged policy yet.",
                hint="A policy is available after the first judgment.",
            )
        run = folder.iteration(iteration).run
        if self.member is not None:
            return _PolicyPlace(run, self.member, self.step, artifact.path)
        own = summary.get("best_step")
        is_judged = self.step in (None, own)
        return _PolicyPlace(run, member, own if is_judged else self.step, artifact.path, is_judged)


class _PolicyPlace(NamedTuple):
    """Location of a policy. Missing fields are derived from the evaluations of the policy."""

    run: RunFolder
    member: str | None
    step: int | None
    home: Path
    """folder of the requested artifact"""
    is_judged: bool = False
    """whether the policy is the final policy of the session in `home`"""


# -------------------------------------------------------------------------------- list and show


class _ArtifactListRequest(RunsRequest):
    """A list of artifacts."""

    kind: Literal["session", "run", "search", "study"] | None = argument(
        "Kind: session, run, search or study. Default: all kinds.", default=None
    )
    limit: int = option("Maximum number of lines, newest first.", default=20, minimum=0)
    root: Path | str = location("Repository folder, for studies.", "--root", default=Path())


_COLUMNS = (
    *("id", "title", "env", "state", "limits", "score"),
    *("best_return", "labels", "open_orders"),
)


@verb(_ArtifactListRequest)
def list_artifacts(request: _ArtifactListRequest) -> VerbResult[list[ArtifactSummary]]:
    """List sessions, runs, searches and studies with their request, state and score."""
    kinds: tuple[ArtifactKind, ...] = (request.kind,) if request.kind else (*WORK, "study")
    found = Workspace(request.runs_dir, request.root).artifacts(*kinds)
    begun = (x for x in found if x.kind != "session" or has_begun(x.path))
    lines = [read_line(artifact) for artifact in islice(begun, request.limit)]
    return VerbResult(lines, _COLUMNS, "" if lines else 'Start with: telic run "run forward fast"')


class RunPage(NamedTuple):
    """Description of a run and its members."""

    facts: dict[str, Any]
    members: list[dict[str, Any]]
    is_single: bool
    """whether a single member was requested"""

    def as_data(self) -> dict[str, Any]:
        """Return all data except the curves, which are too long."""
        members = [{k: v for k, v in member.items() if k != "curve"} for member in self.members]
        return {**self.facts, "members": members}


@verb(_MemberRequest)
def show(request: _MemberRequest) -> RunPage | dict[str, Any] | SearchSummary | StatusReport:
    """Show the results, findings and files of a session, run, search, study or policy."""
    artifact = request.find(*_ALL)
    return _PAGES[artifact.kind](artifact, request.member)


def _run_page(artifact: Artifact, member: str | None) -> RunPage:
    run = RunFolder(artifact.path)
    members = [_member(folder) for folder in run.members() if member in (None, folder.name)]
    facts = training.folder.run_facts(run)
    if (verdict := sessions.hub.shown_verdict(run)) is not None:
        facts["verdict"] = verdict
    if run.manifest.exists():
        facts["command"] = read_fields(run.manifest, command=str | None)["command"]
    return RunPage(facts, members, len(members) == 1 or member is not None)


def _policy_page(artifact: Artifact, member: str | None) -> RunPage:
    folder = artifact.path.parent.parent if artifact.path.is_file() else artifact.path
    return _run_page(Artifact("run", folder.parent), folder.name)


def _member(folder: MemberFolder) -> dict[str, Any]:
    result = reward = None
    if folder.summary.exists():
        result = read_fields(folder.summary, best=EvaluationRow | None)
        result["findings"] = read_findings(folder.summary)
    if folder.reward_spec.exists():
        reward = read_record(folder.reward_spec, RewardSpec).model_dump(mode="json")
    rows = read_rows(folder.scalars)
    evaluations = [row for row in rows if is_evaluation(row)]
    columns = columns_of([row for row in rows if not is_evaluation(row)], ["episodic_return"])
    return {
        "member": folder.name,
        "path": str(folder.path),
        "summary": result,
        "reward": reward,
        "evaluations": evaluations,
        "curve": columns["episodic_return"],
        "videos": [str(video.path) for video in folder.videos()],
        "checkpoints": [str(checkpoint.path) for checkpoint in folder.checkpoints()],
    }


def _session_page(artifact: Artifact, member: str | None) -> dict[str, Any]:
    folder, line = SessionFolder(artifact.path), read_line(artifact)
    if line.state == DAMAGED:
        raise TelicError(line.error or f"{artifact.name} is damaged.")
    config = read_record(folder.config, SessionConfig)
    journal = sessions.evidence.SessionJournal(folder, config.intent, config.env, config.terms)
    shown = ("number", "change", "score", "best", "tags", "steps", "failure")
    tried = [
        {name: facts.get(name) for name in shown} | {"reached_threshold": facts.get("passed")}
        if journal.is_own(folder.iteration(facts["number"]).judgment)
        else {"number": facts["number"], "failure": "not signed by this user"}
        for facts in judged_facts(folder)
    ]
    report = next((path for path in (folder.page, folder.report) if path.exists()), None)
    has_ended = folder.summary.exists() and not is_running(folder)
    ended = verified(folder) if has_ended else None
    return {
        "session": line.id,
        "path": str(folder.path),
        "intent": line.title,
        **line.model_dump(include={"env", "iterations", "score", "origin", "labels", "disputed"}),
        **({"score": ended.score, "state": ended.outcome} if ended else {"state": line.state}),
        **({"lower_bound": ended.low, "criteria": _criteria(folder, ended)} if ended else {}),
        "rewards_tried": tried,
        **(ended.model_dump(include={"reasons", "limits"}) if ended else {}),
        "report": None if report is None else str(report),
    }


def _criteria(folder: SessionFolder, ended: SessionSummary) -> list[dict[str, str]]:
    """Return the median value and the mean credit of each criterion for the delivered policy."""
    from telic.authors.candidate import SessionIteration  # imports torch

    file = folder.iteration(ended.best_iteration or 0).judgment
    judged = () if ended.low is None else read_record(file, SessionIteration).members
    return [
        {"criterion": title, "measured": figure(value), "credit": percent(credit)}
        for each in judged
        if each.member == ended.best_member
        for title, (credit, value) in each.judgment.criteria.items()
    ]


def _searched(artifact: Artifact) -> Result:
    return searches.runner.load_search(artifact.path.parent, artifact.path.name)


def _study_page(artifact: Artifact, member: str | None) -> StatusReport:
    from telic.verbs.study_runs import status

    return status(**_study(artifact))


def _study(artifact: Artifact) -> dict[str, Any]:
    """Return the fields that identify a study."""
    task, _, study = artifact.name.partition("/")
    return {"root": artifact.path.absolute().parents[4], "task": task, "study": study}


_PAGES: dict[ArtifactKind, Callable[[Artifact, str | None], Any]] = {
    "run": _run_page,
    "session": _session_page,
    "search": lambda artifact, member: _searched(artifact).summary,
    "study": _study_page,
    "policy": _policy_page,
}


# ---------------------------------------------------------------------------------------- share


class _ExportRequest(PolicyRequest):
    """A policy to export."""

    out: Path | None = option("Folder. Default: ARTIFACT/export.", "--out", "-o", default=None)
    verify: bool = option(
        "Evaluate the deployment bundle in plain MuJoCo with the session's judge.",
        "--verify",
        default=False,
    )
    stack: Literal["unitree_sdk2", "rl_sar", "robojudo", "ros2"] | None = option(
        "Also write a configuration for this deployment stack.", "--for", default=None
    )
    push: str | None = option(
        "Also upload to the Hugging Face Hub: hf://USER/NAME.", default=None, metavar="ADDRESS"
    )


@verb(_ExportRequest)
def export(request: _ExportRequest) -> dict[str, Any]:
    """Export a policy to ONNX and NumPy with its normalizer and a model card."""
    policy = request.choose()
    proof = check = None
    if policy.is_judged:
        session = SessionFolder(policy.home)
        if sessions.records.session_state(session) in sessions.records.PASSES:
            sessions.report.rewrite_report(session)  # its video is not signed
        proof = sessions.report.policy_proof(session)
        check = partial(sessions.sim_to_sim.sim_to_sim, session) if request.verify else None
    elif request.verify:
        raise UsageError(
            f"{policy.home.name} has no judge: --verify requires a policy judged by a session.",
            hint="Pass a session, without --member and --step.",
        )
    out, hub = request.out or policy.home / "export", sessions.hub
    made = training.export.bundle.export_run(
        policy.run,
        member=policy.member,
        step=policy.step,
        out=out,
        proof=proof,
        check=check,
        stack=request.stack,
        write_weights=None if request.push is None else hub.write_weights,
    )
    return made if request.push is None else {**made, "page": hub.upload_bundle(out, request.push)}


class _PullRequest(RunsRequest):
    """A shared policy."""

    address: str = argument("Policy on the Hugging Face Hub: hf://USER/NAME, or @REVISION of it.")


@verb(_PullRequest)
def pull(request: _PullRequest) -> VerbResult[dict[str, Any]]:
    """Download a shared policy as a run. Its verdict is unverified until it is judged here."""
    run, claim = sessions.hub.download_policy(request.address, Path(request.runs_dir))
    hint = f"Judge it: telic judge {run.name} --judge FILE. See it: telic play {run.name} --seed 1"
    return VerbResult({"run": run.name, "path": str(run.path), "verdict": claim.words}, hint=hint)


_PLAY_EXAMPLES = """
telic play                                     the best policy of the latest session or run
telic play --seed 7 --view top -o seen.mp4     a new episode, seen from above
telic play --command 0.5,0,0.3                 commanded velocity: forward, left, turn
"""


class _PlayRequest(PolicyRequest):
    """An episode to render."""

    episode: str = option("Recorded episode: p10, median or p90.", default="median")
    seed: int | None = option("Seed of a new episode to render instead.", default=None)
    view: str | None = option(
        "side, front, top, three-quarter or rear-quarter. Default: automatic.", default=None
    )
    size: str | None = option("Image size in pixels, WIDTHxHEIGHT, e.g. 640x480.", default=None)
    out: Path | None = option("Output video file.", "--out", "-o", default=None)
    rerun: Path | None = option("Also write the episode as a Rerun recording (.rrd).", default=None)
    command: str | None = option(
        "Velocity command: forward, left (m/s) and yaw rate (rad/s).", default=None
    )


@verb(_PlayRequest, examples=_PLAY_EXAMPLES)
def play_artifact(request: _PlayRequest) -> dict[str, Any]:
    """Render an episode of a policy, or of the best policy of a session, as an MP4 file."""
    policy = request.choose()
    trajectory: Path | None = None
    if request.command is not None:
        member = training.videos.choose_member(policy.run, policy.member)
        environment = training.folder.environment_of(policy.run)
        trajectory = training.policy.commanded_episode(
            member, policy.step, request.seed or 0, environment, request.command
        )
    made = training.videos.play_run(
        policy.run,
        member=policy.member,
        step=policy.step,
        episode=request.episode,
        seed=request.seed,
        view=request.view,
        size=request.size,
        out=request.out,
        trajectory=trajectory,
    )
    if request.rerun is None:
        return made
    video, episode = Path(made["video"]), Path(made["trajectory"])
    return {**made, "rerun": str(training.videos.write_rerun(episode, video, request.rerun))}


class ReportPlace(NamedTuple):
    """Paths of a report."""

    markdown: str | None
    page: str | None


@verb(ArtifactRequest)
def report(request: ArtifactRequest) -> ReportPlace:
    """Write the report of a session, search or study, and print its path."""
    artifact = request.find("session", "search", "study")
    if artifact.kind == "search":
        return ReportPlace(None, str(searches.report.write_page(_searched(artifact))))
    if artifact.kind == "study":
        from telic.verbs.study_runs import report_study as write_report

        files = write_report(**_study(artifact))
        return ReportPlace(files.markdown, files.page)
    folder = SessionFolder(artifact.path)
    if folder.summary.exists():
        sessions.report.rewrite_report(folder)
    elif not folder.report.exists():
        raise UsageError(
            f"{artifact.name} has no report yet.",
            hint="Reports are written at the end of a run.",
        )
    return ReportPlace(str(folder.report), str(folder.page) if folder.page.exists() else None)


class _DeleteRequest(RunsRequest):
    """Something to delete."""

    artifact: str = argument(
        "Session, run or search: an id or its prefix, or a path.", metavar="ARTIFACT"
    )
    undo: bool = option("Restore a deleted ARTIFACT from the trash, or 'latest'.", default=False)


@verb(_DeleteRequest)
def delete(request: _DeleteRequest) -> VerbResult[dict[str, Any]]:
    """Move a session, run or search to the trash, or restore it with --undo."""
    workspace = Workspace(request.runs_dir)
    if request.undo:
        artifact = workspace.restore(request.artifact)
        path, hint = artifact.path, ""
    else:
        artifact = workspace.find(request.artifact, *WORK)
        path, hint = workspace.delete(artifact), f"Undo: telic delete --undo {artifact.name}"
    moved = {"kind": artifact.kind, "name": artifact.name, "path": str(path)}
    return VerbResult({**moved, "is_deleted": not request.undo}, hint=hint)
