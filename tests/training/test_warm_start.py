"""A member may go on from a policy that was trained before."""

import torch

from telic.storage.layout import RunFolder
from telic.training.plan import plan
from telic.training.policy import load_policy
from telic.training.run import execute
from tests.heard import Heard

SMALL = {"num_envs": 4, "horizon": 16, "minibatch_size": 32, "hidden": (8,), "overlap": False}


def job(steps, **changes):
    asked = {
        "steps": steps,
        "seeds": (1, 2),
        "settings": SMALL,
        "evaluations": 1,
        "eval_episodes": 2,
        "env_args": {"max_episode_steps": 20},
        "threads": 1,
    }
    return plan("InvertedPendulum-v5", **{**asked, **changes})


def newest(run, seed):
    [member] = [each for each in RunFolder(run.path).members() if each.name.endswith(f"_{seed}")]
    return member.checkpoints()[-1].path


def test_training_goes_on_from_the_policy_it_is_given(tmp_path):
    first = execute(job(256), tmp_path, name="first")
    # A learning rate too small to change anything shows where training began.
    frozen = {**SMALL, "learning_rate": 1e-12, "schedule": "constant"}
    starts = {(0, 1): newest(first, 2)}
    second = execute(job(64, settings=frozen, starts=starts), tmp_path, name="second")
    before, warm, cold = (
        load_policy(path) for path in (newest(first, 2), newest(second, 1), newest(second, 2))
    )
    assert torch.allclose(warm.flat, before.flat, atol=1e-6)
    assert torch.allclose(warm.actor.scaling.shift, before.actor.scaling.shift, atol=0.01)
    assert not torch.allclose(cold.flat, before.flat, atol=1e-3)


def test_a_policy_of_another_size_is_left_and_said_so(tmp_path):
    first = execute(job(64), tmp_path, name="first")
    told = Heard()
    starts = {(0, 1): newest(first, 1)}
    bigger = job(64, settings={**SMALL, "hidden": (16,)}, starts=starts)
    run = execute(bigger, tmp_path, name="second", on_event=told)
    assert run.status == "completed"
    assert any("begins anew" in str(event.get("message")) for event in told)


def test_a_folder_that_was_moved_holds_the_same_job(tmp_path):
    def key(root, iteration):
        place = f"iter_{iteration}/train/reward_seed_1/checkpoints/policy_64.pt"
        return job(64, starts={(0, 1): tmp_path / root / "session_1" / place}).key

    assert key("here", 1) == key("there", 1)
    assert key("here", 1) != key("here", 2) and key("here", 1) != job(64).key
