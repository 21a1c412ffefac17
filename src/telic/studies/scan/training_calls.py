"""Which calls train a policy, and which load or run a trained one."""

from __future__ import annotations

import re

from telic.studies.scan.syntax import Call

_TRAINER = re.compile(
    r"(trainer|runner|agent|algo|algorithm|learner|experiment|solver|player|ppo|sac|td3|ddpg|dqn)\w*$",
    re.I,
)
_MODES = re.compile(
    r"(model|net|network|actor|critic|policy|module|encoder|decoder|self|nn)\w*$", re.I
)
_ALWAYS = {
    "learn",
    "run_experiment",
    "train_agent",
    "train_model",
    "run_training",
    "train_policy",
    "start_training",
    "train_loop",
    "learn_one_epoch",
    "fit_online",
    "run_rl",
}
_GRADIENT = {"backward", "apply_gradients", "apply_updates", "value_and_grad", "minimize"}
_LOADS = re.compile(
    r"^(load\w*|restore\w*|from_pretrained|get_inference_policy|load_state_dict|predict|"
    r"act_inference|get_policy|evaluate\w*|eval|run_policy|get_checkpoint\w*)$"
)


def trains(call: Call) -> bool:
    """Whether a call hands over to a trainer."""
    owner = call.name.rpartition(".")[0]
    if call.last in _ALWAYS:
        return True
    if call.last in {"train", "run", "fit"} and owner:
        given = [each for each in call.args if not isinstance(each, bool)]
        receiver = owner.rpartition(".")[2].removesuffix("()")
        if call.last == "run":
            return bool(re.search(r"(trainer|learner|experiment|algo)", receiver, re.I))
        if _TRAINER.search(receiver) and not isinstance(call.args[:1] and call.args[0], bool):
            return True
        return bool(given or call.keywords) and not _MODES.match(receiver)
    return False


def takes_gradient_steps(call: Call) -> bool:
    """Whether a call is part of a hand-written optimisation loop."""
    owner = call.name.rpartition(".")[0].lower()
    return call.last in _GRADIENT or (call.last in {"step", "update"} and "optim" in owner)


def loads_policy(call: Call) -> bool:
    """Whether a call loads or runs a trained policy."""
    return bool(_LOADS.match(call.last)) and "." in call.name and "yaml" not in call.name
