"""What a scripted host does with a study: set it up, then do what next_step says."""

from telic.studies.documents.base import put_at, read_yaml, write_yaml
from tests.mcp.toy import CONTRACT, FIELDS, METRIC_SPEC

ESTIMATE = {"est": {"wall_clock_h": 0.1}}


async def set_up(call) -> None:
    """From an empty repository to an approved contract and a drafted baseline."""
    await call("study_init", task="toy", study="gain", says="reach the goal")
    path = call.root / ".telic/tasks/toy/adapter.yaml"
    adapter = read_yaml(path)
    for field, value in FIELDS.items():
        section = field if field.startswith("commands.") else field.partition(".")[0]
        adapter["provenance"][section] = {"status": "confirmed"}
        put_at(adapter, field, value)
    write_yaml(path, adapter)
    assert (await call("study_adapter"))["check"]["ok"]
    protocol = {"schema": "telic.eval_protocol/1", "episodes": 10}
    checked = await call(
        "study_contract",
        answers=CONTRACT,
        metric_spec=METRIC_SPEC,
        protocol=protocol,
        evaluator=["evaluate.py"],
        amend="the first agreement",
    )
    assert checked["result"]["questions"] == []
    assert (await call("study_approve"))["status"] == "agreed"
    await call("study_run")


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


async def go_on(call, most: int = 60) -> list[str]:
    """Let the study run until it wants an idea; returns what was asked."""
    done = []
    for _ in range(most):
        step = (await call("study_run", confirm="RUN_CANDIDATE"))["result"]["next"]
        if step["action"] == "propose":
            return done
        assert step["action"] == "decide", step
        await decide(call, step["args"])
        done.append(step["action"])
    raise AssertionError(f"it does not end: {done[-10:]}")


async def decide(call, args):
    given = {key: args[key] for key in ("candidate", "verdict", "audit", "cause") if key in args}
    found = await call("study_decide", because="the evidence says so", **given)
    assert found["result"]["recorded"]
