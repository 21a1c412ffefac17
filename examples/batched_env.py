"""Step 64 Hoppers in one batch and print quantities of their motion."""

import torch

import telic

env = telic.make("Hopper-v5", num_envs=64, seed=0)
obs = env.reset()  # (64, 11)
falls = 0
for _ in range(200):
    action = torch.rand(64, env.act_dim) * 2 - 1
    step = env.step(action)  # episodes that end start anew inside
    falls += int(step.terminated.sum())
speed = step.info["x_velocity"]  # (64,), computed because we ask
torso = step.info.body("torso").xpos  # (64, 3)
print(f"{falls} falls, top speed {speed.max():.2f} m/s, torso at {torso[0].tolist()}")
env.close()
