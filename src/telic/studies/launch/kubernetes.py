"""Start a run as a Kubernetes Job: a rendered manifest, applied once."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

from telic.storage.files import write_text
from telic.studies.errors import EnvironmentBlocked
from telic.studies.launch.job_schema import manifest_problems
from telic.studies.launch.local import call
from telic.studies.launch.order import (
    JobHandle,
    JobReport,
    LaunchOrder,
    LaunchPermit,
    RenderedLaunch,
)

MANIFEST = "job.json"


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
        rendered = self.render(order)
        write_text(order.folder / MANIFEST, rendered.document or "")
        name = call(rendered.argv, order)
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
    container: dict[str, Any] = {
        "name": "run",
        "image": options.get("image"),
        "command": list(order.argv),
        "workingDir": str(options.get("working_dir", order.cwd)),
        "env": [{"name": name, "value": order.changed[name]} for name in sorted(order.changed)],
        "resources": {"limits": {str(k): str(v) for k, v in _limits(order).items()}},
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


def _limits(order: LaunchOrder) -> dict[str, Any]:
    limits = dict(order.options.get("limits", {}))
    if order.gpus:
        limits.setdefault("nvidia.com/gpu", len(order.gpus))
    return limits


def _label(value: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]", "-", value)[:63].strip("-_.")
