"""Train a population of policies with rewards."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from telic import training
from telic.core.events import LogMessage
from telic.core.verb import verb
from telic.envs.access import MODEL_FILES
from telic.envs.simulators.names import permit_env
from telic.report.sinks import logs
from telic.training import plan
from telic.training.job import TrainRequest
from telic.verbs.elsewhere import do_elsewhere

if TYPE_CHECKING:
    from telic.core.events import Listener
    from telic.training.job import TrainJob
    from telic.training.run import Run

_EXAMPLES = """
telic train HalfCheetah-v5                                   its own reward, tuned settings

telic train HalfCheetah-v5 --reward reward.py --seeds 1,2,3  your reward, three seeds at once

telic train Ant-v5 -r a.py -r b.py --vary gamma=0.98,0.99    2 rewards x 2 settings = 4 policies

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
    """Train one policy per reward, variant and seed. A reward's policies are trained together."""
    permit_env(request.env, {"python": request.python, **(request.env_args or {})})
    if request.on is not None:
        return do_elsewhere(request, ("train",), "train:train")
    job = plan.plan.do(request)
    if request.dry_run:
        return job
    tell_what_is_assumed(job.env, job.env_args, request.on_event)
    runs_dir, name = Path(request.runs_dir), request.name
    wanted = None if request.videos == "none" else request.videos
    if (
        wanted
        and not request.fresh
        and (undrawn := training.videos.find_undrawn(job.key, runs_dir, name))
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


def tell_what_is_assumed(env: str, env_args: Mapping[str, Any], tell: Listener) -> None:
    """Report the assumptions about a robot file before a long training run."""
    if not env.endswith(MODEL_FILES):
        return
    from telic.envs.factory import make

    example = make(env, num_envs=1, **env_args)
    example.close()
    for note in example.spec.notes:
        tell(LogMessage(message=note))
