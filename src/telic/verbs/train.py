"""Train a population of policies with rewards."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from telic import training
from telic.core.events import LogMessage
from telic.core.verb import verb
from telic.envs.access import MODEL_FILES
from telic.envs.simulators.names import permit_env
from telic.jobs.launcher import read_place
from telic.report.sinks import logs
from telic.storage.layout import RunFolder, file_name
from telic.training import plan
from telic.training.job import TrainRequest
from telic.verbs.elsewhere import do_elsewhere, do_parts, require_completed

if TYPE_CHECKING:
    from telic.core.events import Listener
    from telic.training.job import TrainJob
    from telic.training.run import Run

_EXAMPLES = """
telic train HalfCheetah-v5                                   built-in reward, tuned settings
telic train HalfCheetah-v5 --reward reward.py --seeds 1,2,3  your reward, three seeds at once
telic train Ant-v5 -r a.py -r b.py --vary gamma=0.98,0.99    2 rewards x 2 settings = 4 policies
telic train Ant-v5 --vary learning_rate=1e-4..1e-2 --sampler optuna --samples 20
telic train robot.xml hidden=128,128 --reward walk.py --steps 2M
Run the same command again to resume an interrupted run. Settings: telic envs --presets
"""


@verb(
    TrainRequest,
    examples=_EXAMPLES,
    exit_code=lambda made: getattr(made, "status", "completed") != "completed",
)
@logs
def train(request: TrainRequest) -> Run | TrainJob:
    """Train one policy per reward, variant and seed. Seeds of a reward are trained together."""
    permit_env(request.env, {"python": request.python, **(request.env_args or {})})
    if request.sampler == "optuna":
        return _train_rounds(request)
    return _train_once(training.sweep.sampled(request))


def _train_rounds(request: TrainRequest) -> Run | TrainJob:
    """Train the combinations that Optuna proposes in rounds and join the rounds into one run.

    A repeated request uses its finished rounds, whose names contain the keys of their jobs.
    """
    at_once = None if request.on is None else read_place(request.on).at_once
    rounds, runs_dir = training.sweep.OptunaRounds(request, at_once), Path(request.runs_dir)
    runs: list[Run] = []
    while proposed := rounds.propose():
        key = plan.plan.do(proposed).key
        name = None if request.fresh else f"sweep-{key}"
        run = training.videos.find_run(key, runs_dir, name) if name else None
        if run is None:
            made = _train_once(proposed.replace(videos="none", name=name))
            if not isinstance(made, training.run.Run) or made.status != "completed":
                return made
            run = RunFolder(made.path)
        rounds.learn(run, proposed.variants)
        runs.append(training.videos.finished_run(run))
    return _joined(rounds.whole, runs)


def _joined(request: TrainRequest, runs: list[Run]) -> Run:
    job, runs_dir = plan.plan.do(request), Path(request.runs_dir)
    run = training.run.join(job, runs, runs_dir, request.name, request.command, request.on_event)
    return training.videos.draw_run(run, request.videos, request.on_event, request.should_stop)


def _train_once(request: TrainRequest) -> Run | TrainJob:
    if request.on is not None:
        return _train_on(request)
    job = plan.plan.do(request)
    if request.dry_run:
        return job
    emit_assumptions(job.env, job.env_args, request.on_event)
    runs_dir, name = Path(request.runs_dir), request.name
    wanted = None if request.videos == "none" else request.videos
    if (
        wanted
        and not request.fresh
        and (undrawn := training.videos.find_run(job.key, runs_dir, name, lacks_videos=True))
    ):
        run = training.videos.finished_run(undrawn)
        return training.videos.draw_run(run, wanted, request.on_event, request.should_stop)
    run = training.run.execute(
        job,
        runs_dir,
        name=name,
        fresh=request.fresh,
        confined=request.confined,
        on_event=request.on_event,
        should_stop=request.should_stop,
        command=request.command,
        videos=wanted,
    )
    return training.videos.draw_run(run, request.videos, request.on_event, request.should_stop)


def _train_on(request: TrainRequest) -> Run:
    """Train on other machines: one job per policy on CPUs, and one population on GPUs."""
    chosen = list(itertools.product(request.rewards, request.variants, request.seeds))
    names = [file_name(Path(str(reward)).stem) for reward in request.rewards]
    is_whole = len(chosen) == 1 or len(set(names)) < len(names) or request.dry_run
    if is_whole or {request.device, *request.devices} != {"cpu"}:
        return do_elsewhere(request, ("train",), "train:train")
    job = plan.plan.do(request)
    same = {"learner": job.settings.learner, "videos": "none", "name": None}
    parts = [
        {**same, "reward": [reward] if reward else None, "variants": (variant,), "seeds": (seed,)}
        for reward, variant, seed in chosen
    ]
    joint = training.run.JointProgress([1] * len(parts), len(parts))
    runs = do_parts(request, ("train",), "train:train", parts, joint.translate)
    require_completed([run.status for run in runs])
    return _joined(request, runs)


def emit_assumptions(env: str, env_args: Mapping[str, Any], emit: Listener) -> None:
    """Report the assumptions about a robot file before a long training run."""
    if not env.endswith(MODEL_FILES):
        return
    from telic.envs.factory import make

    example = make(env, num_envs=1, **env_args)
    example.close()
    for note in example.spec.notes:
        emit(LogMessage(message=note))
