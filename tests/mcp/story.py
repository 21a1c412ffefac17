"""What a scripted host does with a study: set it up, then do what loop_step says."""

import asyncio
import hashlib

from tests.mcp.toy import CONTRACT, EVALUATOR, FIELDS, METRIC_SPEC

PROTOCOL = {
    "schema": "telic.eval_protocol/1",
    "evaluator_files": {"evaluate.py": hashlib.sha256(EVALUATOR.encode()).hexdigest()},
    "episodes": 10,
}
ESTIMATE = {"est": {"wall_clock_h": 0.1}}


async def set_up(call) -> None:
    """From an empty repository to an approved contract and a drafted baseline."""
    await call("init_study", task="toy", study="gain", says="reach the goal")
    await call("audit_repo", write=True)
    for field, value in FIELDS.items():
        given = {} if value is None else {"value": value}
        assert (await call("request_confirmation", field=field, **given))["status"] == "agreed"
    await call("draft_metrics", metric_spec=METRIC_SPEC, protocol=PROTOCOL)
    checked = await call("draft_contract", answers=CONTRACT)
    assert checked["check"]["questions"] == []
    await call("request_amendment", because="the first agreement")
    assert (await call("request_approval"))["status"] == "agreed"
    await call("draft_candidate", draft={"kind": "baseline", "plan": ESTIMATE}, key="baseline")


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


async def go_on(call, ideas: list[dict], most: int = 300) -> list[str]:
    """Do what loop_step says until it wants more ideas than there are; returns the actions."""
    done = []
    for _ in range(most):
        step = await call("loop_step")
        if step["action"] == "propose" and not ideas:
            return done
        await ACTIONS[step["action"]](call, step["args"], ideas)
        done.append(step["action"])
    raise AssertionError(f"it does not end: {done[-10:]}")


async def validate(call, args, ideas):
    found = await call("validate_candidate", candidate=args["candidate"])
    assert found["ok"], [each for each in found["outcome"]["checks"] if not each["passed"]]
    await call("request_approval", keys=["experiment"], candidate=args["candidate"])


async def plan(call, args, ideas):
    state = await call("get_state")
    incumbent = (state["incumbent"] or {}).get("candidate")
    if args["candidate"] == incumbent:
        await call("check_incumbent")
    else:
        await call("plan_queue", candidate=args["candidate"])


async def launch(call, args, ideas):
    found = await call(
        "launch_candidate", candidate=args["candidate"], phase=args["phase"], seed=args["seed"],
        confirm="RUN_CANDIDATE",
    )  # fmt: skip
    assert found["status"] == "started"


async def settle(call, args, ideas):
    await asyncio.sleep(0.05)
    await call("settle_runs")


async def ingest(call, args, ideas):
    for run in (args["run"], *args["others"]):
        await call("analyze_run", run=run)


async def watch(call, args, ideas):
    await call("monitor_run", run=args["run"])


async def audit(call, args, ideas):
    await call("audit_result", candidate=args["candidate"])


async def advance(call, args, ideas):
    if args.get("more_seeds"):  # this host leaves an open question open
        await propose_verdict(call, args | {"verdict": "inconclusive"}, ideas)
    else:
        await call("advance_queue")


async def decide(call, args, ideas):
    if args["verdict"] == "accept":
        found = await call(
            "request_decision", candidate=args["candidate"], verdict="accept",
            because="the audit says so",
        )  # fmt: skip
        assert found["decision"]["recorded"]
    else:
        await propose_verdict(call, args, ideas)


async def propose_verdict(call, args, ideas):
    given = {key: args[key] for key in ("audit", "cause") if key in args}
    found = await call(
        "propose_decision", candidate=args["candidate"], verdict=args["verdict"],
        because="the evidence says so", **given,
    )  # fmt: skip
    assert found["recorded"]


async def propose(call, args, ideas):
    found = (await call("next_work_order"))["order"]
    assert found["role"] == "candidate_proposer"
    state = await call.read("telic://toy/gain/state")
    evidence = [name for name, each in state["evidence"].items() if each["kind"] == "audit"]
    answer = {**ideas.pop(0), "evidence_refs": evidence[:1]}
    await call("submit_work_order", order=found["id"], answer=answer)


ACTIONS = {
    "validate": validate, "plan": plan, "launch": launch, "wait": settle, "reconcile": settle,
    "ingest": ingest, "monitor": watch, "audit": audit, "advance": advance, "decide": decide,
    "propose": propose,
}  # fmt: skip
