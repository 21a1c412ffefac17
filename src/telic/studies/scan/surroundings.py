"""What surrounds the task: reward wrappers, policy networks, evaluators."""

from __future__ import annotations

import re
from collections import defaultdict

from telic.studies.scan.context import Scan
from telic.studies.scan.records import Evidence, SourceFinding

MOST_FILES = 60
_REWARD_WRAPPER = re.compile(
    r"^(Normalize|Clip|Transform|Scale|Sign|Vec)?\w*(NormalizeReward|ClipReward|TransformReward|"
    r"VecNormalize|RewardScal\w*|ClipRewardEnv|RewardClip\w*|RewardSum)$|^NormalizeReward"
)
_POLICY = re.compile(r"(Actor|Policy|Critic|Agent|QNetwork|ActorCritic|Network)", re.I)
_MODULE_BASES = ("Module", "Model", "Network")


def find_wrappers(scan: Scan) -> SourceFinding:
    """Return where rewards are scaled, clipped or normalised before learning."""
    where: dict[str, Evidence] = {}
    reached = set(scan.files(scan.any_train_reach)) | set(
        scan.source_files if not scan.train else ()
    )
    for path, call in scan.source_calls():
        if _REWARD_WRAPPER.search(call.last) and path in reached:
            where.setdefault(path, Evidence(path=path, line=call.line, note=f"{call.last}(…)"))
    for path in scan.source_files:
        for each in scan.repository.modules[path].classes:
            if path in reached and any(base.endswith("RewardWrapper") for base in each.bases):
                where.setdefault(
                    path, Evidence(path=path, line=each.line, note=f"class {each.name}")
                )
    confidence = 0.7 if where else 0.0
    return SourceFinding(
        files=tuple(where), confidence=confidence, evidence=tuple(where.values())[:8]
    )


def find_policy(scan: Scan) -> SourceFinding:
    """Return where the networks of policies and critics are written."""
    scores: dict[str, list[Evidence]] = defaultdict(list)
    for path in scan.source_files:
        for each in scan.repository.modules[path].classes:
            if _POLICY.search(each.name) and any(
                base.endswith(_MODULE_BASES) for base in each.bases
            ):
                scores[path].append(Evidence(path=path, line=each.line, note=f"class {each.name}"))
    return SourceFinding(
        files=tuple(list(scores)[:MOST_FILES]),
        external=not scores,
        confidence=0.7 if scores else 0.0,
        evidence=tuple(group[0] for group in scores.values())[:8],
    )


def find_evaluator(scan: Scan) -> SourceFinding:
    """Return where trained policies are evaluated."""
    files = dict.fromkeys(entry.path for entry in scan.evaluate)
    evidence = [each for entry in scan.evaluate[:4] for each in entry.evidence[:1]]
    for path in scan.source_files:
        for function in scan.repository.modules[path].functions:
            if re.match(
                r"^(evaluate|eval)(_policy|_agent|_model|_episodes?|_loop)?$", function.name
            ):
                files.setdefault(path)
                evidence.append(
                    Evidence(path=path, line=function.line, note=f"def {function.name}")
                )
    return SourceFinding(
        files=tuple(files)[:MOST_FILES],
        external=not files,
        confidence=0.7 if files else 0.0,
        evidence=tuple(evidence[:8]),
    )
