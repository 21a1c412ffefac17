"""Export a policy and run it without torch."""

import numpy as np
import onnxruntime

import telic

if __name__ == "__main__":
    run = telic.train("Reacher-v5", steps=10_000, videos="none")
    file = run.policy().export("reacher.onnx")  # compared with the policy to 1e-5 before it is kept
    session = onnxruntime.InferenceSession(str(file))
    (action,) = session.run(None, {"obs": np.zeros((1, 10), np.float32)})
    print(f"{file}: action {action}")
