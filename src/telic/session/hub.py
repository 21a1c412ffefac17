"""Share exported policies through the Hugging Face Hub, and pull policies of others as runs.

A pulled policy is untrusted data. Only the files of its signed bundle are taken: weights as
safetensors, and code that runs in sandboxed workers. Its verdict is a claim of the publisher until
the policy is judged on this machine (`telic judge`).
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError

from telic.core.config import Record
from telic.envs.simulators.names import named_code
from telic.errors import BadFile, MissingExtra, Refused, TelicError, UsageError
from telic.session.records import OUTCOMES, Outcome
from telic.sim.files import MODEL_FILES
from telic.storage.files import plain, read_fields, read_record, write_bytes, write_json
from telic.storage.keys import signer_of, usable_key, user_key
from telic.storage.layout import MemberFolder, RunFolder, check_name
from telic.storage.reading import file_hash, is_plain, parse_json, without_links
from telic.training.export.bundle import check_bundle
from telic.training.folder import environment_of
from telic.training.policy import PolicyFacts, find_policy, store_policy

WEIGHTS = "policy.safetensors"
_CLAIM, _JUDGED = "claim.json", "judged.json"
_HEAD = "telic"
_TENSORS = ("flat", "shift", "scale", "mask", "action_low", "action_high")
_MAX_BYTES, _MAX_STEPS = 1 << 30, 100_000
_ADDRESS = re.compile(r"hf://(?P<repo>[\w.-]+/[\w.-]+)(?:@(?P<revision>[\w.-]+))?")
_MEMBER = re.compile(r"[\w.-]+_seed_-?[0-9]{1,20}")
_COPIED = ("judge_fn.py", "README.md", "replay.mp4", "bundle.json")


class PublisherClaim(Record):
    """Verdict that the publisher of a pulled policy claims."""

    source: str
    revision: str
    signed_by: str | None
    outcome: Outcome | None
    """claimed outcome of the session, or None if the policy was not judged"""

    @property
    def words(self) -> str:
        """Describe the claim in one phrase."""
        signer = f"key {self.signed_by[:12]}" if self.signed_by else "without a valid signature"
        return f"{self.outcome or 'not judged'}, claimed by the publisher ({signer})"


def shown_verdict(run: RunFolder) -> str | None:
    """Return the verdict on a pulled policy as a phrase, or None for a run of this machine.

    A verdict of this machine counts only if this user signed it for this policy and environment.
    """
    claim, judged, key = run.path / _CLAIM, run.path / _JUDGED, usable_key(run.path)
    if not claim.exists():
        return None
    words = read_record(claim, PublisherClaim).words
    if judged.exists() and key is not None:
        found = read_fields(judged, words=str, sig=str)
        if signer_of(_judged_bytes(run, found["words"]), found["sig"]) == key.public:
            words = f"{words}; {found['words']}"
    return words


def record_verdict(run: RunFolder, words: str) -> None:
    """Add a signed verdict of this machine to the claim about a pulled policy."""
    if (run.path / _CLAIM).exists():
        signature = user_key(run.path).sign(_judged_bytes(run, words))
        write_json(run.path / _JUDGED, {"schema_version": 1, "words": words, "sig": signature})


def _judged_bytes(run: RunFolder, words: str) -> bytes:
    policy = file_hash(find_policy(run.path))
    return json.dumps(["judged", words, policy, environment_of(run)]).encode()


def write_weights(policy: Path, path: Path, env: str, env_args: dict[str, Any]) -> None:
    """Write a policy file as safetensors, with its metadata as JSON in the header."""
    from safetensors.torch import save_file  # pyrefly: ignore[missing-import]

    saved = torch.load(policy, map_location="cpu", weights_only=True)
    tensors = {name: saved[name] for name in _TENSORS if saved[name] is not None}
    facts = {**saved["facts"], "env": env, "env_args": env_args}
    head = {"format": saved["format"], "shape": saved["shape"], "facts": facts}
    save_file(tensors, path, {_HEAD: json.dumps(plain(head))})


def _read_weights(path: Path) -> tuple[dict[str, Any], PolicyFacts]:
    from safetensors import SafetensorError, safe_open  # pyrefly: ignore[missing-import]

    try:
        with safe_open(path, "pt") as file:
            names, head = set(file.keys()), (file.metadata() or {}).get(_HEAD, "")
            tensors = {name: file.get_tensor(name) if name in names else None for name in _TENSORS}
        saved = {**dict(parse_json(head, path.name)), **tensors}
        return saved, PolicyFacts.model_validate(saved.get("facts"))
    except (SafetensorError, ValidationError, TypeError, ValueError) as error:
        raise BadFile(f"{path.name} contains no policy: {str(error)[:200]}.") from None


@contextmanager
def _hub(address: str) -> Generator[tuple[Any, str, str | None]]:
    """Yield a client, the repository and the revision of an address, and convert errors."""
    found = _ADDRESS.fullmatch(address)
    if found is None:
        raise UsageError(f'"{address[:100]}" is not an address.', hint="Use hf://USER/NAME.")
    for package in ("huggingface_hub", "safetensors"):
        if find_spec(package) is None:
            raise MissingExtra(package, "hub", "Sharing policies")
    from huggingface_hub import HfApi, errors  # pyrefly: ignore[missing-import]

    try:
        yield HfApi(endpoint=os.environ.get("HF_ENDPOINT")), found["repo"], found["revision"]
    except (errors.HfHubHTTPError, OSError, ValueError) as error:  # also names of files
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise TelicError(f"{address}: {reason[:300]}", hint="Log in: hf auth login.") from None


def upload_bundle(bundle: Path, address: str) -> str:
    """Upload an exported bundle, which must have weights and no other files. Returns its page."""
    if fault := check_bundle(bundle)[2]:
        raise Refused(
            f"{bundle} was not uploaded: {fault}.", hint="Choose a new folder with --out."
        )
    with _hub(address) as (hub, repo, _):
        page = hub.create_repo(repo, exist_ok=True)
        hub.upload_folder(repo_id=repo, folder_path=bundle, delete_patterns="*")
        return str(page)


def download_policy(address: str, runs_dir: Path) -> tuple[RunFolder, PublisherClaim]:
    """Download a bundle, verify it against its signed list of files, and store it as a run.

    Raises Refused for changed files, and for environments that require code or models of others.
    """
    with _hub(address) as (hub, repo, revision), tempfile.TemporaryDirectory() as place:
        run = RunFolder(runs_dir / check_name(f"pulled-{repo.replace('/', '--')}", "The name"))
        if run.path.exists():
            raise UsageError(f"{run.path} already exists.", hint=f"telic delete {run.name}")
        every = hub.snapshot_download(repo, revision=revision, dry_run=True)
        if sum(file.file_size or 0 for file in every) > _MAX_BYTES:
            raise Refused(f"{address} is larger than {_MAX_BYTES >> 20} MiB.")
        revision, folder = every[0].commit_hash if every else "", Path(place) / "bundle"
        # Downloaded to a cache, whose files are links; only regular files of the bundle are taken.
        found = Path(
            hub.snapshot_download(repo, revision=revision, cache_dir=Path(place) / "cache")
        )
        for file in found.rglob("*"):
            if file.is_file() and file.name != ".gitattributes":
                write_bytes(folder / file.relative_to(found), file.read_bytes())
        return run, _store(without_links(folder), run, address, revision)


def _store(bundle: Path, run: RunFolder, address: str, revision: str) -> PublisherClaim:
    listed, signer, fault = check_bundle(bundle)
    if fault or WEIGHTS not in listed["files"]:
        raise Refused(f"{address} was not stored: {fault or f'it contains no {WEIGHTS}'}.")
    saved, facts = _read_weights(bundle / WEIGHTS)
    env, env_args, name, step = facts.env, facts.env_args, str(listed.get("member")), facts.step
    outcome = listed.get("outcome")
    is_known = _MEMBER.fullmatch(name) and outcome in (None, *OUTCOMES)
    if not is_known or step < 0 or not is_plain(env_args):
        raise Refused(f"{address} was not stored: its files name no policy or no outcome.")
    if large := [x for x in env_args.values() if isinstance(x, int | float) and x > _MAX_STEPS]:
        raise Refused(f"{address} was not stored: its environment has the argument {large[0]:g}.")
    if named_code(env, env_args) or env.endswith((*MODEL_FILES, ".toml")) or "xml_file" in env_args:
        raise Refused(
            f"{address} was trained in {env[:100]}, which requires files of its publisher.",
            hint="Ask for a policy of a registered environment or a robot by name.",
        )
    member = MemberFolder(run.path / name)
    for path in (member.reward_code, member.reward_spec, *(run.path / each for each in _COPIED)):
        if (source := bundle / path.name).exists():
            write_bytes(path, source.read_bytes())
    claim = PublisherClaim(source=address, revision=revision, signed_by=signer, outcome=outcome)
    write_json(run.path / _CLAIM, claim)
    store_policy(run, name, saved, {})
    return claim
