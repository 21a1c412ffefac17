from types import SimpleNamespace


def parse_env_cfg(task, *, device, num_envs):
    scene = SimpleNamespace(num_envs=num_envs)
    return SimpleNamespace(
        task=task, device=device, scene=scene, seed=None, episode_length_s=0.5, rewards={"speed": 1}
    )
