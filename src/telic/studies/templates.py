"""Files that a new study starts from: valid as they are, with what is known of the repository."""

from __future__ import annotations

from telic.storage.files import write_text
from telic.storage.reading import file_hash
from telic.studies.documents.adapter import Adapter
from telic.studies.documents.base import read_yaml
from telic.studies.documents.metrics import MetricSpec, Protocol
from telic.studies.folder import StudyFolder

_KINDS = {
    "csv": ("csv", "progress.csv"),
    "json": ("jsonl", "metrics.jsonl"),
    "tensorboard": ("tensorboard", "."),
    "stdout": ("regex_stdout", "stdout.log"),
}
METRIC_SPEC = """\
# What is measured, and which number decides. Check: telic study contract --sample LOG
schema: telic.metric_spec/1
primary:
  key: {key}                  # the number that decides, as the log calls it
  direction: max
  aggregate: last             # mean | median | iqm | last | auc
  min_effect_abs: 0.0         # the smallest gain that counts
replication_unit: training_seed
components: []                # terms of the reward: {{key: reward/track}}
guardrails: []                # {{key: falls, direction: min, rule: non_inferior, margin: 0.1}}
no_guardrails_because: nobody has named one yet
extractor: {{kind: {kind}, path: {path}}}   # in the folder of a run
"""
PROTOCOL = """\
# How a result is measured; what is measured otherwise is not compared.
schema: telic.eval_protocol/1
command:                      # null: the numbers come from the training run itself
evaluator_files: {files}
eval_seeds: []                # seeds that no training sees
episodes: 10
"""


def write_templates(folder: StudyFolder) -> tuple[str, ...]:
    """Write the metric and protocol files that are not there yet; returns their names."""
    adapter = folder.read_adapter() if folder.adapter.is_file() else None
    texts = {
        folder.metric_spec: _metric_spec(adapter),
        folder.protocol: PROTOCOL.format(files=_evaluators(folder, adapter)),
    }
    written = [path for path in texts if not path.exists()]
    for path in written:
        write_text(path, texts[path])
    if folder.metric_spec in written:
        MetricSpec.parse(read_yaml(folder.metric_spec), str(folder.metric_spec))
    if folder.protocol in written:
        Protocol.parse(read_yaml(folder.protocol), str(folder.protocol))
    return tuple(path.name for path in written)


def _metric_spec(adapter: Adapter | None) -> str:
    logged = adapter.metrics.map if adapter else {}
    key = next((name for name in ("success", "return") if name in logged), "return")
    sources = [source.kind for source in adapter.logging.sources] if adapter else []
    kind, path = next((_KINDS[each] for each in sources if each in _KINDS), _KINDS["json"])
    return METRIC_SPEC.format(key=key, kind=kind, path=path)


def _evaluators(folder: StudyFolder, adapter: Adapter | None) -> str:
    globs = adapter.files.evaluator.globs if adapter else ()
    files = {path for pattern in globs for path in folder.root.glob(pattern) if path.is_file()}
    if not files:
        return "{}"
    lines = [f"  {path.relative_to(folder.root).as_posix()}: {file_hash(path)}" for path in files]
    return "\n" + "\n".join(sorted(lines))
