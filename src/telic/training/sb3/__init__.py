"""Stable-Baselines3's PPO on the same environments and rewards, for comparison."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from telic.core.events import Listener, ignore
from telic.errors import ConfigError, MissingExtra
from telic.storage.files import read_table, write_json
from telic.storage.layout import RunFolder
from telic.training.folder import create, new_run, set_status, working_on
from telic.training.job import TrainJob
from telic.training.run import Run


def execute_sb3(
    job: TrainJob,
    runs_dir: Path,
    *,
    name: str | None = None,
    fresh: bool = False,
    defaults: bool = False,
    confined: bool = True,
    on_event: Listener = ignore,
    should_stop: Callable[[], bool] = lambda: False,
    command: str | None = None,
    videos: str | None = None,
) -> Run:
    """Train the members one after another with Stable-Baselines3's PPO, into the usual run folder.

    Such a run cannot be resumed: when asked to stop it keeps the policies trained so far, and the
    same call starts a new run. Weights and normalisers are converted, so that evaluation,
    `load_policy`, export and play work as for our own trainer; SB3's own `final.zip` lies beside
    its checkpoints (loading it runs what it holds).

    Args:
        job: what to train; settings that SB3 does not have are reported and left out.
        runs_dir: where run folders are.
        name: name of the run folder; None: made from the time.
        fresh: accepted for symmetry; every SB3 run is a fresh one.
        defaults: ignore the job's settings and train as SB3 does by default: one environment, its
            own hyperparameters, nothing normalised, actions in the environment's own range.
        confined: work in the confined worker; False: in this process.
        on_event: called with every event.
        should_stop: polled between updates.
        command: the command line that asked for this, kept in the manifest.
        videos: those that are drawn afterwards; until they are, the run's status says so.

    Raises:
        MissingExtra: stable-baselines3 is not installed.
    """
    if find_spec("stable_baselines3") is None:
        raise MissingExtra("stable-baselines3", "sb3", "The trainer sb3")
    if len(job.devices) > len(job.members):
        raise ConfigError(
            f"There are more devices ({len(job.devices)}) than members ({len(job.members)}), and "
            "Stable-Baselines3 trains a member on one.",
            hint="Name as many devices as members at most.",
        )
    from telic.training.run import work

    if defaults:
        job = with_defaults(job)
    folder = new_run(runs_dir, name)
    lost = "A Stable-Baselines3 run cannot be resumed."
    with working_on(folder, is_new=True, if_interrupted=lost):
        _create(job, folder, command, confined=confined)
        summary = work(
            "telic.training.sb3.worker",
            job,
            folder,
            on_event,
            should_stop,
            confined=confined,
            native=defaults,
        )
        is_whole = summary["status"] == "completed"
        note = "Stopped on request; a Stable-Baselines3 run cannot be resumed."
        set_status(folder, summary["status"], None if is_whole else note, videos)
    return Run(folder.path, summary)


def with_defaults(job: TrainJob) -> TrainJob:
    """Return the job with SB3's own default settings for every member."""
    from telic.training.sb3.conversion import DEFAULTS

    members = [member.model_copy(update={"settings": DEFAULTS}) for member in job.members]
    return TrainJob.parse({**job.model_dump(), "members": [new.model_dump() for new in members]})


def _create(job: TrainJob, folder: RunFolder, command: str | None, *, confined: bool) -> None:
    """Fill the run folder; its key is not our trainer's, which would go on with it otherwise."""
    from importlib.metadata import version

    create(job, folder, command, confined=confined)
    facts = read_table(folder.manifest)
    package = "stable-baselines3"
    facts |= {"trainer": "sb3", "key": f"sb3-{facts['key']}"}
    facts["versions"] |= {package: version(package)}
    write_json(folder.manifest, facts)
