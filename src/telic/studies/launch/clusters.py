"""Start a run on a cluster: on Slurm through submitit, or as a Kubernetes Job.

What scripts and manifests may hold is listed here as data, and they are checked against it before.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from telic.jobs.slurm import slurm_script
from telic.jobs.spec import JOB_FILE, JobSpec, job_command
from telic.studies.errors import EnvironmentBlocked
from telic.studies.launch.launchers import LocalLauncher, call, submit
from telic.studies.launch.order import (
    JobHandle,
    JobReport,
    JobState,
    LaunchOrder,
    LaunchPermit,
    RenderedLaunch,
    supervised,
)

MANIFEST = "job.json"

# Directives that a job may carry, by what their values look like. What is not listed is refused:
# an array or a dependency would start more, or later, than the gates looked at.
_VALUES: dict[str | None, str] = {
    r"telic-[a-z0-9]+": "job-name",
    r"[A-Za-z0-9_.,:/+=@%-]+": "output error chdir partition account qos reservation wckey "
    "gpus gpus-per-node gpus-per-task nodelist exclude",
    r"\d+(:\d{2}(:\d{2})?)?|\d+-\d{1,2}(:\d{2}(:\d{2})?)?": "time",
    r"[A-Za-z0-9_.,&|*()-]+": "constraint",
    r"[1-9]\d*": "nodes ntasks ntasks-per-node cpus-per-task",
    r"\d+[KMGT]?": "mem mem-per-cpu mem-per-gpu",
    r"gpu(:[A-Za-z0-9_.-]+)?(:\d+)?": "gres",
    r"[BR:]*[A-Z0-9]+(@\d+)?": "signal",
    r"[^\n]*": "comment",
    r"ALL|NONE": "export",
    r"append|truncate": "open-mode",
    None: "exclusive no-requeue requeue",
}
DIRECTIVES = {name: pattern for pattern, names in _VALUES.items() for name in names.split()}
_WARNED_S = 90
"""seconds before its limit at which submitit has Slurm warn a job; the run must be over by then"""
_STATES: dict[str, JobState] = {
    **dict.fromkeys(("PENDING", "CONFIGURING", "SUSPENDED", "REQUEUED"), "waiting"),
    **dict.fromkeys(("RUNNING", "COMPLETING", "STAGE_OUT"), "running"),
}


class SlurmLauncher:
    """Submits one job per run through submitit; the job is found again by its name.

    Args:
        options: `sbatch` are directives; `cluster: local` runs on this machine instead, through the
            same package, to try an adapter without a cluster.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._is_local = options.get("cluster") == "local"

    def render(self, order: LaunchOrder) -> RenderedLaunch:
        """Return the job's file; what it makes of the script for sbatch is checked."""
        spec, path = _job(order), order.folder / JOB_FILE
        problems = () if self._is_local else tuple(sbatch_problems(slurm_script(spec, path)))
        return RenderedLaunch(job_command("submit", path), spec.as_text(), JOB_FILE, problems)

    def start(self, permit: LaunchPermit, order: LaunchOrder) -> JobHandle:
        """Submit it, unless a job of that name is known already."""
        permit.spend(order.nonce, order.argv_hash)
        report = self.report(order.nonce, order.folder)
        if report.state != "unknown":
            raise EnvironmentBlocked("E_LAUNCHED", f"Job {order.job_name} exists: {report.detail}.")
        number = submit(order, self.render(order)).splitlines()[-1]
        return JobHandle(job_id=number, attach=f"squeue --name={order.job_name}")

    def report(self, nonce: str, folder: Path) -> JobReport:
        """Ask the queue, then the accounting; on this machine the process table."""
        if self._is_local:
            return LocalLauncher().report(nonce, folder)
        name = f"telic-{nonce}"
        queued = call(("squeue", "--noheader", f"--name={name}", "--format=%i %T"))
        if queued:
            number, _, state = queued.splitlines()[0].partition(" ")
            return JobReport(_STATES.get(state.strip(), "ended"), f"job {number} is {state}")
        listing = ("sacct", "--noheader", "--parsable2", "--allocations")
        past = call((*listing, f"--name={name}", "--format=JobID,State"))
        if past:
            number, _, state = past.splitlines()[-1].partition("|")
            return JobReport("ended", f"job {number} is {state}")
        return JobReport("unknown", f"no job named {name}")

    def stop(self, nonce: str, folder: Path) -> None:
        """Cancel it; TERM first, so that the supervisor can stop it in order."""
        if self._is_local:
            LocalLauncher().stop(nonce, folder)
            return
        call(("scancel", "--signal=TERM", "--full", f"--name=telic-{nonce}"))


def sbatch_problems(script: str) -> list[str]:
    """Return what in an sbatch file is not a directive we know with a value of its kind."""
    problems: list[str] = []
    seen: set[str] = set()
    for line in script.splitlines():
        if not line.startswith("#SBATCH"):
            continue
        name, equals, value = line.removeprefix("#SBATCH").strip().removeprefix("--").partition("=")
        pattern = DIRECTIVES.get(name, "")
        if name not in DIRECTIVES:
            problems.append(f"--{name} is not a directive that a run may carry")
        elif pattern is None and equals:
            problems.append(f"--{name} takes no value")
        elif pattern is not None and not re.fullmatch(pattern, value):
            problems.append(f"--{name}={value} is not a valid value")
        if name in seen:
            problems.append(f"--{name} is given twice")
        seen.add(name)
    problems += [f"--{name} is missing" for name in ("job-name", "output") if name not in seen]
    if {"requeue", "no-requeue"} <= seen:
        problems.append("--requeue and --no-requeue contradict each other")
    return problems


def _job(order: LaunchOrder) -> JobSpec:
    """Return the file of a run: its command under the supervisor, and what it asks of Slurm."""
    # A job that Slurm starts again by itself would be a launch that no gate has seen.
    asks: dict[str, Any] = {"requeue" if order.options.get("resume_safe") else "no-requeue": True}
    if order.gpus:
        asks["gres"] = f"gpu:{len(order.gpus)}"
    asks |= {str(name): value for name, value in order.options.get("sbatch", {}).items()}
    ends_s = order.timeout_s + order.grace_s + _WARNED_S if order.timeout_s else None
    return JobSpec(
        name=order.job_name,
        argv=supervised(order),
        cwd=str(order.folder),
        env=order.changed,
        cluster="local" if order.options.get("cluster") == "local" else "slurm",
        asks=asks,
        minutes=0 if ends_s is None else math.ceil(ends_s / 60) + 1,
    )


class KubernetesLauncher:
    """Creates one Job per run; its name is the nonce, so a second create is a conflict.

    The container runs the command itself: its image need not hold this tool. Kubernetes then plays
    the supervisor's part, and its log and exit code are read through kubectl.
    """

    def render(self, order: LaunchOrder) -> RenderedLaunch:
        """Return the manifest, as JSON, which kubectl reads like YAML."""
        manifest = job_manifest(order)
        text = json.dumps(manifest, indent=2, sort_keys=True) + "\n"
        # create, not apply: apply would change a Job that runs already.
        start = ("kubectl", "create", "-f", str(order.folder / MANIFEST), "-o", "name")
        return RenderedLaunch(start, text, MANIFEST, tuple(manifest_problems(manifest)))

    def start(self, permit: LaunchPermit, order: LaunchOrder) -> JobHandle:
        """Create the Job; a name conflict means that it was launched before."""
        permit.spend(order.nonce, order.argv_hash)
        name = submit(order, self.render(order))
        return JobHandle(job_id=name, attach=f"kubectl logs -f {name}")

    def report(self, nonce: str, folder: Path) -> JobReport:
        """Ask for the Job's status."""
        try:
            text = call(("kubectl", "get", "job", f"telic-{nonce}", "-o", "json"))
        except EnvironmentBlocked as error:
            if "NotFound" in str(error):
                return JobReport("unknown", f"no Job named telic-{nonce}")
            raise
        status = json.loads(text).get("status", {})
        if status.get("succeeded") or status.get("failed"):
            good = bool(status.get("succeeded"))
            return JobReport("ended", "succeeded" if good else "failed", code=0 if good else 1)
        return JobReport("running" if status.get("active") else "waiting", f"Job telic-{nonce}")

    def stop(self, nonce: str, folder: Path) -> None:
        """Delete it, and wait until its pods are gone."""
        call(("kubectl", "delete", "job", f"telic-{nonce}", "--cascade=foreground"))


def job_manifest(order: LaunchOrder) -> dict[str, Any]:
    """Return the Job as plain data."""
    options = order.options
    limits = dict(options.get("limits", {}))
    if order.gpus:
        limits.setdefault("nvidia.com/gpu", len(order.gpus))
    container: dict[str, Any] = {
        "name": "run",
        "image": options.get("image"),
        "command": list(order.argv),
        "workingDir": str(options.get("working_dir", order.cwd)),
        "env": [{"name": name, "value": order.changed[name]} for name in sorted(order.changed)],
        "resources": {"limits": {str(name): str(value) for name, value in limits.items()}},
    }
    pod: dict[str, Any] = {"restartPolicy": "Never", "containers": [container]}
    if "secret" in options:  # keys stay in the cluster; the manifest only names them
        container["envFrom"] = [{"secretRef": {"name": options["secret"]}}]
    if "volume_claim" in options:
        container["volumeMounts"] = [{"name": "work", "mountPath": str(options["mount_path"])}]
        claim = {"claimName": str(options["volume_claim"])}
        pod["volumes"] = [{"name": "work", "persistentVolumeClaim": claim}]
    labels = {"app": "telic", **{name: _label(value) for name, value in order.labels.items()}}
    spec: dict[str, Any] = {
        "backoffLimit": 0,
        "completions": 1,
        "parallelism": 1,
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }
    if order.timeout_s:
        spec["activeDeadlineSeconds"] = math.ceil(order.timeout_s)
    metadata: dict[str, Any] = {"name": order.job_name, "labels": labels}
    if "namespace" in options:
        metadata["namespace"] = str(options["namespace"])
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def _label(value: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]", "-", value)[:63].strip("-_.")


_NAME = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_LABEL = r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?"
_QUANTITY = r"\d+(\.\d+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?"
_PATH = r"/[^\0:]*"
_VARIABLE = r"[-._a-zA-Z][-._a-zA-Z0-9]*"
_RESOURCE = r"([a-z0-9.-]+/)?[A-Za-z0-9][-A-Za-z0-9_.]*"

# The part of the Job schema that we write. A schema is a type, a pattern for text, a list with the
# schema of its elements, or a dict of fields; "?" marks optional fields and "*" is the schema of
# keys that are free, after a pattern.
_LABELS = {"*": (r"([a-z0-9.-]+/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", _LABEL)}
_CONTAINER = {
    "name": _NAME,
    "image": r"[a-z0-9][A-Za-z0-9._:/@-]*",
    "command": [str],
    "workingDir?": _PATH,
    "env?": [{"name": _VARIABLE, "value": str}],
    "envFrom?": [{"secretRef": {"name": _NAME}}],
    "resources?": {"limits?": {"*": (_RESOURCE, _QUANTITY)}},
    "volumeMounts?": [{"name": _NAME, "mountPath": _PATH}],
}
_POD = {
    "restartPolicy": r"Never",
    "containers": [_CONTAINER],
    "volumes?": [{"name": _NAME, "persistentVolumeClaim": {"claimName": _NAME}}],
}
JOB = {
    "apiVersion": r"batch/v1",
    "kind": r"Job",
    "metadata": {"name": _NAME, "namespace?": _NAME, "labels": _LABELS},
    "spec": {
        "backoffLimit": r"0",
        "completions": r"1",
        "parallelism": r"1",
        "activeDeadlineSeconds?": int,
        "template": {"metadata": {"labels": _LABELS}, "spec": _POD},
    },
}


def manifest_problems(manifest: Any) -> list[str]:
    """Return where a Job manifest departs from the schema."""
    return list(_problems(manifest, JOB, "job"))


def _problems(value: Any, schema: Any, place: str) -> Iterator[str]:
    if isinstance(schema, type):
        if not isinstance(value, schema) or isinstance(value, bool):
            yield f"{place} must be {schema.__name__}, not {value!r}"
    elif isinstance(schema, str):
        if not isinstance(value, str | int) or not re.fullmatch(schema, str(value)):
            yield f"{place}={value!r} does not look like {schema}"
    elif isinstance(schema, list):
        if not isinstance(value, list) or not value:
            yield f"{place} must be a list that is not empty"
            return
        inner = cast("list[Any]", schema)[0]
        for number, item in enumerate(cast("list[Any]", value)):
            yield from _problems(item, inner, f"{place}[{number}]")
    elif not isinstance(value, dict):
        yield f"{place} must hold keys and values"
    else:
        yield from _field_problems(cast("dict[str, Any]", value), schema, place)


def _field_problems(value: dict[str, Any], schema: dict[str, Any], place: str) -> Iterator[str]:
    if "*" in schema:
        key_pattern, inner = schema["*"]
        for key, item in value.items():
            if not re.fullmatch(key_pattern, key):
                yield f"{place} has the impossible key {key!r}"
            yield from _problems(item, inner, f"{place}.{key}")
        return
    fields = {name.rstrip("?") for name in schema}
    for key in value:
        if key not in fields:
            yield f"{place}.{key} is not a field we write"
    for name, inner in schema.items():
        key = name.rstrip("?")
        if key in value:
            yield from _problems(value[key], inner, f"{place}.{key}")
        elif not name.endswith("?"):
            yield f"{place}.{key} is missing"
