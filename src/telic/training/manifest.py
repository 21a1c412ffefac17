"""What a run folder says before training starts: versions, hashes, settings and rewards."""

from __future__ import annotations

import hashlib
import os
import platform
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from telic.storage.files import write_json, write_text
from telic.storage.layout import RunFolder
from telic.training.job import TrainJob

_PACKAGES = ("telic", "torch", "mujoco", "gymnasium", "numpy", "pydantic")


def manifest(job: TrainJob) -> dict[str, Any]:
    """Return what is needed to say later exactly what was run."""
    return {
        "schema_version": 1,
        "key": job.key,
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": versions(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processors": os.cpu_count(),
        "rewards": {
            each.name: None
            if each.source is None
            else hashlib.sha256(each.source.encode()).hexdigest()
            for each in job.rewards
        },
        "seeds": sorted({member.seed for member in job.members}),
    }


def versions() -> dict[str, str | None]:
    """Return the version of every package that decides numbers; None where it is not installed."""
    return {name: _version(name) for name in _PACKAGES}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def write_member_files(job: TrainJob, run: RunFolder) -> None:
    """Write each member's own settings and reward before anything starts."""
    for member in job.members:
        folder = run.member(member.config, member.seed)
        reward = job.rewards[member.reward]
        write_json(
            folder.config,
            {
                "env": job.env,
                "env_args": job.env_args,
                "steps": job.steps,
                "seed": member.seed,
                "reward": reward.name,
                "weights": reward.weights,
                "settings": member.settings,
            },
        )
        source = reward.source or "# The environment's own reward.\n"
        write_text(folder.reward_code, source)
