"""Export a policy as a bundle with its model card and the files to run and verify it."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import jinja2
from markupsafe import Markup

from telic import __version__
from telic.core.text import number
from telic.envs.spec import RewardSpec
from telic.errors import Refused, TelicError
from telic.report import document as doc
from telic.report.charts import ChartLine, LineChart, Point, picture
from telic.report.markdown import escape_markdown, fenced, formula, render_section, words
from telic.rewards.memory_program import memory_program
from telic.storage.files import (
    TEMPORARY_MARK,
    json_text,
    read_fields,
    read_record,
    replacing,
    require_output,
    write_json,
    write_text,
)
from telic.storage.keys import is_own_list, signed_list, usable_key
from telic.storage.layout import MemberFolder, RunFolder
from telic.storage.locks import RunLock
from telic.storage.reading import check_file, file_hash, read_text, without_links
from telic.storage.scalars import (
    Column,
    EvaluationRow,
    downsample,
    read_columns,
    read_findings,
    read_rows,
)
from telic.training.export import run_policy
from telic.training.export.deployment import FOLDER, RobotCheck, deploy
from telic.training.export.files import export_checked
from telic.training.export.stacks import StackName
from telic.training.folder import environment_of
from telic.training.policy import Policy, find_policy, load_policy
from telic.training.videos import choose_member

Json = dict[str, Any]

_TABLE = dict[str, Any] | None

_MISSING = "not measured"
_LIST = "bundle.json"
_CARD = "README.md"
_WORKSHOP = f"{TEMPORARY_MARK}export"
_MAX_BYTES = 4 << 30
"""maximum size of a file in a bundle"""
_CURVE = "learning_curve.svg"
_CURVE_POINTS = 300
_VIDEO = "replay.mp4"
"""file name expected by model hubs"""
_EXPORTED = {
    "policy.onnx": 'ONNX (opset 18) with input "obs", output "action" and any batch size',
    "policy.npz": "plain NumPy arrays",
}
_COPIED = {
    "policy.pt": "policy in telic's own format",
    "policy.safetensors": "policy for telic pull",
    "run_policy.py": "runs the policy with onnxruntime or only NumPy",
    "reward_fn.py": "the reward used in training",
    "reward_spec.json": "the reward's terms, weights and formula",
    "memory.json": "one update of the reward memory that the policy observes",
}


class Contents(NamedTuple):
    """Bundle files that are listed on the model card."""

    files: dict[str, str]
    """descriptions by file name"""
    deviations: dict[str, float]
    """largest deviation from the torch policy, by exported file"""
    curve: str | None
    video: str | None
    robot: doc.Section | None = None
    """section on deployment, its verification and the license of the robot model"""


class PolicyProof(NamedTuple):
    """Evidence about a policy from the judge of its session."""

    title: str
    """request of the session"""
    session: str
    outcome: str
    """verified outcome of the session"""
    reasons: tuple[str, ...]
    limits: tuple[str, ...]
    """qualifications of a pass"""
    sections: tuple[doc.Section, ...]
    """sections for the top of the card"""
    files: dict[Path, tuple[str, str]]
    """files to copy, each with its name in the bundle and a description"""
    video: Path | None
    """video of a judged episode"""
    other_physics: bool = False
    """True if the evaluation used different physics than training"""


def export_run(
    run: RunFolder,
    *,
    member: str | None = None,
    step: int | None = None,
    out: Path | None = None,
    proof: PolicyProof | None = None,
    check: RobotCheck | None = None,
    stack: StackName | None = None,
    write_weights: Callable[..., None] | None = None,
) -> dict[str, Any]:
    """Export the bundle of one policy and return a summary.

    Policies of position-controlled robots also get a deployment folder. By default, the member and
    step with the best evaluation are exported.

    Args:
        run: run folder of the policy.
        member: name of the member.
        step: checkpoint step.
        out: output folder; defaults to `export` in the run folder.
        proof: evidence of a session that judged this policy.
        check: sim-to-sim verification of the deployment; requires a position-controlled robot.
        stack: deployment stack whose configuration is added; requires the same.
        write_weights: writer of policy.safetensors, which replaces policy.pt in shared bundles.
    """
    folder = choose_member(run, member)
    file = find_policy(folder.path, step)
    with _Bundle.filling(out or run.path / "export") as bundle:
        policy, memory = load_policy(file), "memory.json"
        # Do not trust the environment in the policy file, which was written by the worker.
        policy.facts |= dict(zip(("env", "env_args"), environment_of(run), strict=True))
        evidence = gather(run, folder, policy)
        record = evidence.evaluation or {}
        about = {name: record.get(name) for name in ("mean_return", "interval")}
        about["reward_sha256"] = evidence.reward_sha256
        deviations = {name: export_checked(policy, bundle.place(name), about) for name in _EXPORTED}
        if write_weights is None:
            bundle.copy(file, "policy.pt")
        else:
            write_weights(file, bundle.place("policy.safetensors"), *environment_of(run))
        bundle.copy(Path(run_policy.__file__), "run_policy.py")
        bundle.copy(folder.reward_code, "reward_fn.py")
        bundle.copy(folder.reward_spec, "reward_spec.json")
        if policy.memory_size:
            reward = read_text(folder.reward_code)
            try:
                program = memory_program(reward, *environment_of(run), run_policy.Memory)
                write_text(bundle.place("memory.json"), program.model_dump_json())
            except TelicError as error:
                memory = f"not shipped: {error}"
        for source, (name, _) in (proof.files if proof else {}).items():
            bundle.copy(source, name)
        robot = deploy(policy, environment_of(run), bundle.copy, check, stack)
        label = f"{evidence.env}, {evidence.config['reward']}, seed {evidence.config['seed']}"
        curve = learning_curve(evidence.curve, evidence.evaluations, label)
        if curve:
            write_text(bundle.place(_CURVE), curve)
        videos = {clip.label: clip.path for clip in folder.videos() if clip.step == evidence.step}
        video = videos.get("median") or next(iter(videos.values()), None)
        video = proof.video if proof and proof.video else video
        if video:
            bundle.copy(video, _VIDEO)
        meaning = {**_EXPORTED, **_COPIED, **(dict(proof.files.values()) if proof else {})}
        contents = Contents(
            files={name: meaning[name] for name in bundle.names if name in meaning},
            deviations=deviations,
            curve=_CURVE if curve else None,
            video=_VIDEO if video else None,
            robot=None if robot is None else robot.section,
        )
        write_text(bundle.place(_CARD), card(evidence, contents, proof))
        bundle.finish(
            {
                "schema_version": 1,
                "telic": __version__,
                "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
                "run": run.name,
                "member": folder.name,
                "step": evidence.step,
                "largest_deviation": deviations,
                "session": None if proof is None else proof.session,
                "outcome": None if proof is None else proof.outcome,
                "limits": () if proof is None else proof.limits,
                **({} if robot is None else robot.facts),
            }
        )
    names = [name for name in bundle.names if not name.startswith(f"{FOLDER}/")]
    return {
        "folder": str(bundle.path),
        "member": folder.name,
        "step": evidence.step,
        "return": record.get("mean_return"),
        "largest deviation": float(f"{max(deviations.values()):.1e}"),
        "files": ", ".join([*names, _LIST]),
        **({"outcome": ": ".join((proof.outcome, *proof.reasons, *proof.limits))} if proof else {}),
        **({"memory": memory} if policy.memory_size else {}),
        **({} if robot is None else robot.screen_lines),
    }


def check_bundle(path: Path) -> tuple[dict[str, Any], str | None, str | None]:
    """Verify a bundle and return its files, the signer's public key and the first problem found."""
    listed, signer = signed_list(path / _LIST)
    files = (each for each in path.rglob("*") if each.is_symlink() or not each.is_dir())
    there = {each.relative_to(path).as_posix() for each in files}
    for name in sorted(there - {_LIST} - listed["files"].keys()):
        return listed, signer, f"{name} was added after the export"
    for name, known in listed["files"].items():
        # Reject names outside the bundle and symbolic links.
        if name not in there or (path / name).is_symlink() or _fingerprint(path / name) != known:
            return listed, signer, f"{name} is missing or was modified after the export"
    is_policy = any(name.startswith("policy.") for name in listed["files"])
    return listed, signer, None if is_policy else "it contains no policy"


class ExportEvidence(NamedTuple):
    """Training records of one policy. Missing records are empty."""

    member: str
    step: int
    policy: Policy
    config: Json
    """configuration of the member, with env, env_args, steps, seed, reward, weights and settings"""
    manifest: Json
    reward: Json
    """latex, description and terms of the reward"""
    summary: Json
    curve: dict[str, Column]
    evaluations: list[Json]
    siblings: dict[str, Json]
    """best evaluations of the run's other members, by name"""

    @property
    def evaluation(self) -> Json | None:
        """Evaluation of this checkpoint, or None."""
        return next((row for row in self.evaluations if row["global_step"] == self.step), None)

    @property
    def reward_sha256(self) -> str | None:
        """Hash of the reward's source, or None for a built-in reward."""
        hashes: Json = self.manifest.get("rewards") or {}
        return hashes.get(self.config["reward"])

    @property
    def env(self) -> str:
        """Environment id, class, or the base name of a model file."""
        name = self.config["env"]
        return Path(name).name if _is_own_model(name) else name


def gather(run: RunFolder, member: MemberFolder, policy: Policy) -> ExportEvidence:
    """Read the training records of a policy."""
    others = [folder for folder in run.members() if folder.name != member.name]
    return ExportEvidence(
        member=member.name,
        step=policy.facts["step"],
        policy=policy,
        config=_read(member.config, env=str, seed=int, reward=str, env_args=_TABLE),
        manifest=_read(run.manifest, rewards=dict[str, str | None] | None, versions=_TABLE),
        reward=(
            read_record(member.reward_spec, RewardSpec).model_dump(mode="json")
            if member.reward_spec.exists()
            else {}
        ),
        summary=_read(member.summary, best=EvaluationRow | None)
        | {"findings": read_findings(member.summary)},
        curve=read_columns(member.scalars, ["global_step", "episodic_return"]),
        evaluations=read_rows(member.scalars, "eval"),
        siblings={
            folder.name: _read(folder.summary, best=EvaluationRow | None).get("best") or {}
            for folder in others
        },
    )


def _read(path: Path, **kinds: Any) -> Json:
    return read_fields(path, **kinds) if path.exists() else {}


class _Bundle:
    """Builder for a bundle folder that tracks the created files.

    Files are written to a temporary folder and moved to the output folder when the bundle is
    complete. If the process is killed, the output is unchanged and the command can be repeated.
    """

    def __init__(self, path: Path, building: Path) -> None:
        self.path = path
        self.names: list[str] = []
        self._building = building
        building.mkdir()

    @classmethod
    @contextmanager
    def filling(cls, path: Path) -> Generator[_Bundle]:
        """Yield a bundle to fill while holding a lock on the output folder."""
        require_output(path, _LIST)
        if (path / _LIST).exists() and not is_own_list(path / _LIST):
            raise Refused(f"{path} is not an export of this user.", hint="Use another --out.")
        # Use an existing output folder: its parent may be another file system or read-only.
        workshop = path / _WORKSHOP if path.is_dir() else path.with_name(f"{_WORKSHOP}-{path.name}")
        without_links(workshop)
        with RunLock(workshop / "lock", f"The export to {path}"):
            try:
                building = workshop / "files"
                shutil.rmtree(building, ignore_errors=True)  # leftovers of a killed export
                yield cls(path, building)
            finally:
                shutil.rmtree(workshop)

    def place(self, name: str) -> Path:
        """Register a new file and return its temporary path."""
        self.names.append(name)
        path = self._building / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def copy(self, source: Path, name: str) -> None:
        """Copy a file into the bundle if it exists."""
        if source.exists():
            with replacing(self.place(name)) as temporary:
                shutil.copyfile(source, temporary)

    def finish(self, facts: dict[str, Any]) -> None:
        """Write the signed list of file hashes and move the bundle to the output folder."""
        files = {name: _fingerprint(self._building / name) for name in self.names}
        listed = json.loads(json_text({**facts, "files": files}))
        key = usable_key(self.path.parent)
        if key is not None:
            listed["signature"] = key.sign(json.dumps(listed, sort_keys=True).encode())
        write_json(self._building / _LIST, listed)
        if self.path.is_dir():
            self._move_in(files)
        else:
            os.rename(self._building, self.path)

    def _move_in(self, files: dict[str, Any]) -> None:
        """Move files to an existing folder and delete files of a previous export."""
        earlier = self.path / _LIST
        known = read_fields(earlier, files=dict[str, Any])["files"] if earlier.exists() else {}
        for name in known.keys() - files.keys():
            # Never delete files outside the bundle folder.
            if (self.path / name).resolve().parent.is_relative_to(self.path.resolve()):
                (self.path / name).unlink(missing_ok=True)
        # Move the list first, so that the next export recognizes an incomplete folder.
        for name in (_LIST, *files):
            (self.path / name).parent.mkdir(parents=True, exist_ok=True)
            os.replace(self._building / name, self.path / name)


def _fingerprint(path: Path) -> dict[str, Any]:
    return {"bytes": check_file(path, _MAX_BYTES), "sha256": file_hash(path)}


def learning_curve(
    train: Mapping[str, Sequence[float | None]],
    evaluations: Sequence[Mapping[str, Any]],
    title: str,
) -> str | None:
    """Plot training returns and evaluations with intervals as SVG. Returns None without data."""
    steps = [float(step or 0) for step in train["global_step"]]
    xs, ys = downsample(steps, train["episodic_return"], _CURVE_POINTS)
    marks = [
        Point(float(row["global_step"]), mean, *(row["interval"] or (mean, mean)))
        for row in evaluations
        if (mean := row["mean_return"]) is not None
    ]
    means = [Point(mark.x, mark.y, mark.y, mark.y) for mark in marks]
    returns = [Point(x, y, y, y) for x, y in zip(xs, ys, strict=True)]
    lines = (
        ChartLine("evaluation on fresh seeds, 95 % interval", means, marks),
        ChartLine("training, with exploration noise", returns),
    )
    lines = tuple(line for line in lines if line.points)
    if not lines:
        return None
    best = max(marks, key=lambda mark: mark.y, default=None)
    names = {"x_name": "environment steps", "y_name": "return"}
    return picture(LineChart(title, lines, **names, peak=best, from_zero=True), title)


# ---- model card: every number comes from the records; missing ones are marked "not measured"


def card(evidence: ExportEvidence, contents: Contents, proof: PolicyProof | None = None) -> str:
    """Render the model card. With a proof, the card starts with the request and the verdict."""
    policy, reward = evidence.policy, evidence.reward
    sums = (evidence.evaluation or {}).get("reward_terms") or {}
    terms = {term["name"]: term for term in reward.get("terms", [])}
    names: list[str] = policy.facts["action_names"]
    env, env_args = evidence.config["env"], evidence.config["env_args"]
    algorithm, known = evidence.summary.get("algorithm", "ppo"), gymnasium.registry.get(env)
    sections = (*(proof.sections if proof else ()), *filter(None, [contents.robot]))
    text = _template().render(
        {**evidence._asdict(), **contents._asdict()},
        proof=proof,
        sections=[Markup(render_section(section)) for section in sections],
        env=evidence.env,
        evaluation=evidence.evaluation or {"mean_return": None},
        reward_sha256=evidence.reward_sha256,
        facts=policy.facts,
        algorithm="PPO" if algorithm == "ppo" else algorithm,
        actions=list(zip(names, policy.low.tolist(), policy.high.tolist(), strict=False)),
        terms=[(name, terms.get(name, {}), sums.get(name)) for name in {**terms, **sums}],
        call="policy(obs, memory)" if policy.memory_size else "policy(obs)",
        own_model=_is_own_model(env) or "xml_file" in env_args,
        # a built-in Gymnasium task, not one registered by another package
        gymnasium_task=known is not None and str(known.entry_point).startswith("gymnasium.envs"),
        json=json.dumps,
    )
    return re.sub(r"\n{3,}", "\n\n", text).rstrip() + "\n"


@cache
def _template() -> jinja2.Template:
    folder = jinja2.FileSystemLoader(Path(__file__).parent)
    environment = jinja2.Environment(loader=folder, trim_blocks=True, keep_trailing_newline=True)
    # Text of records, which may be foreign, is escaped unless a filter returns Markdown.
    environment.finalize = lambda text: escape_markdown(text) if type(text) is str else text

    def markdown(render: Callable[..., str]) -> Callable[..., Markup]:
        return lambda *given: Markup(render(*given))

    def shown(value: float | None, missing: str = _MISSING) -> str:
        return number(value, missing=missing)

    def interval(ends: Sequence[float] | None) -> str:
        return f"{number(ends[0])} … {number(ends[1])}" if ends else _MISSING

    environment.filters |= {
        **{"number": shown, "interval": interval},
        "mono": markdown(lambda text: words(doc.Mono(text))),
        **{"fenced": markdown(fenced), "formula": markdown(formula)},
    }
    return environment.get_template("card.md.j2")


def _is_own_model(env: str) -> bool:
    return env.endswith((".xml", ".mjcf", ".mjb", ".urdf"))
