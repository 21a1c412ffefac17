"""Export of policies: ONNX and NumPy files, a model card, a bundle of all."""
