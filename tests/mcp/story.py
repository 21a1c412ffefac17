"""Scripted host that sets up a study and then follows next_step."""

import shlex
from typing import NamedTuple

import pytest

from telic.studies.documents.base import read_yaml, value_at, write_yaml
from tests.mcp import toy as blink
from tests.mcp.host import Refusal
from tests.studies.toy import making as point_mass
from tests.studies.toy.driver import IDEAS

ESTIMATE = {"est": {"wall_clock_h": 0.1}}


class Subject(NamedTuple):
    """Target repository and contract of the study."""

    task: str
    study: str
    fields: dict
    metric_spec: dict
    evaluator: list[str]
    protocol: dict
    contract: dict
    plan: dict


BLINK = Subject(
    "toy",
    "gain",
    blink.FIELDS,
    blink.METRIC_SPEC,
    ["evaluate.py"],
    {"episodes": 10},
    blink.CONTRACT,
    ESTIMATE,
)
POINT_MASS = Subject(
    "reach",
    "weights",
    {
        "commands.train": point_mass.COMMAND,
        "metrics.map.return": "return",
        "seeds": None,
        "outputs.checkpoint_glob": "policy.json",
    },
    point_mass.METRIC_SPEC,
    ["evaluate.py", "pointmass.py"],
    {"env_ids": ["PointMass"], "eval_seeds": [12345], "episodes": 200, "horizon": 24},
    point_mass.CONTRACT,
    {"est": {"wall_clock_h": 0.02}, "steps": point_mass.STEPS},
)


async def set_up(call, subject: Subject = BLINK) -> None:
    """From an empty repository to an approved contract and a drafted baseline."""
    await call("study_init", task=subject.task, study=subject.study, behavior="reach the goal")
    path = call.root / f".telic/tasks/{subject.task}/adapter.yaml"
    adapter = read_yaml(path)
    for field, value in subject.fields.items():
        section = field if field.startswith("commands.") else field.partition(".")[0]
        adapter["provenance"][section] = {"status": "confirmed"}
        if isinstance(value, str) and field.startswith("commands."):
            value = {"argv": shlex.split(value)}
        if value is not None:
            section, _, last = field.rpartition(".")
            (value_at(adapter, section) if section else adapter)[last] = value
    write_yaml(path, adapter)
    assert (await call("study_adapter"))["check"]["ok"]
    protocol = {"schema": "telic.eval_protocol/1", **subject.protocol}
    checked = await call(
        "study_contract",
        answers=subject.contract,
        metric_spec=subject.metric_spec,
        protocol=protocol,
        evaluator=subject.evaluator,
        amend="the first agreement",
    )
    assert checked["result"]["questions"] == []
    assert (await call("study_approve"))["status"] == "agreed"
    await call("study_run")


def weights() -> list[dict]:
    """Return the ideas of the toy study: one that changes nothing, a hack, a better one."""
    return [
        {
            "title": each.title,
            "kind": "reward_tuning",
            "hypothesis": {
                "statement": each.because,
                "mechanism": "The terms pull against each other.",
                "expected": {"metric": "success", "direction": "max", "magnitude": 0.1},
                "falsifier": "success does not rise by 0.05",
            },
            "change": {"overrides": {each.param: {"from": each.was, "to": each.to}}},
            "plan": POINT_MASS.plan,
        }
        for each in IDEAS
    ]


def idea(title: str, gain: float) -> dict:
    return {
        "title": title,
        "kind": "config",
        "hypothesis": {
            "statement": f"A gain of {gain} reaches further.",
            "mechanism": "The score is proportional to the gain.",
            "expected": {"metric": "success", "direction": "max", "magnitude": 0.1},
            "falsifier": "success does not rise by 0.01",
        },
        "change": {"overrides": {"gain": {"from": 1.0, "to": gain}}},
        "plan": ESTIMATE,
    }


async def run_until(call, ideas: list[dict], most: int = 60) -> list[str]:
    """Let the study run until it wants more ideas than there are; returns what was asked."""
    done = []
    for _ in range(most):
        step = (await call("study_run", confirm="RUN_CANDIDATE"))["result"]["next"]
        if step["action"] == "propose" and not ideas:
            return done
        await ACTIONS[step["action"]](call, step["args"], ideas)
        done.append(step["action"])
    raise AssertionError(f"it does not end: {done[-10:]}")


async def agree(call, args, ideas):
    await call("study_approve", keys=["experiment"], candidate=args["candidate"])


async def advance(call, args, ideas):
    # this host leaves an open question open
    await propose_verdict(call, args | {"verdict": "inconclusive"}, ideas)


async def review(call, args, ideas):
    finding = "Racing pays, but let what was agreed on decide: success on fresh seeds."
    with pytest.raises(Refusal, match="may be the author"):
        await call("study_audit", about=args["candidate"], finding=finding, exploit=False)
    await agree(call, args, ideas)


async def decide(call, args, ideas):
    if args["verdict"] in ("accept", "keep"):
        found = await call(
            "study_decide",
            candidate=args["candidate"],
            verdict=args["verdict"],
            because="the audit says so",
        )
        assert found["result"]["recorded"]
    else:
        await propose_verdict(call, args, ideas)


async def propose_verdict(call, args, ideas):
    given = {key: args[key] for key in ("audit", "cause") if key in args}
    found = await call(
        "study_decide",
        candidate=args["candidate"],
        verdict=args["verdict"],
        because="the evidence says so",
        **given,
    )
    assert found["result"]["recorded"]


async def propose(call, args, ideas):
    study = (await call("study_status"))["study"]
    state = await call.read(f"telic://{study}/state")
    evidence = [name for name, each in state["evidence"].items() if each["kind"] == "audit"]
    await call("study_propose", draft={**ideas.pop(0), "evidence_refs": evidence[:1]})


ACTIONS = {
    "agree": agree,
    "advance": advance,
    "decide": decide,
    "propose": propose,
    "review": review,
}
