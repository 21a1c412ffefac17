import numpy as np

TARGET = np.array([0.1, -0.2, 0.3])
GAINS = np.linspace(1.0, 0.5, 6)


def reward_fn(obs, action, next_obs, info):
    joints = next_obs[2:8]
    pose = np.exp(-2.0 * np.linalg.norm(joints[:3] - TARGET))
    spread = np.std(joints) + np.var(joints) + np.mean(joints)
    both = np.concatenate([joints[:2], joints[4:]])
    cosine = np.dot(both, both[::-1]) / (np.linalg.norm(both) ** 2 + 1e-6)
    gait = np.tanh(np.sum(GAINS * action)) * np.sign(next_obs[8])
    near = np.where(np.abs(joints) < 0.2, 1.0, -0.5).mean()
    capped = np.clip(info["x_velocity"], -1.0, 1.0) + np.maximum(next_obs[0], 0.0)
    angle = np.arctan2(np.sin(next_obs[1]), np.cos(next_obs[1]))
    vector = np.array([next_obs[0], angle, 0.5])
    size = np.sqrt(np.square(vector).sum())
    good = float(np.all(np.isfinite(joints)) and np.any(joints > 0.1))
    buffer = np.zeros(3)
    buffer[0] = joints[0]
    buffer[1:] = joints[1:3] * 2.0
    terms = {
        "pose": float(pose),
        "spread": float(spread),
        "cosine": float(cosine),
        "gait": float(gait),
        "near": float(near),
        "capped": float(capped),
        "size": float(size) - float(np.max(vector)),
        "good": good,
        "buffer": float(buffer.sum()) + joints.clip(-0.1, 0.1).max(),
    }
    return float(sum(terms.values())), terms
