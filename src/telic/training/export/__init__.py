"""Policy export: ONNX and NumPy files, the model card, and the bundle of all files."""
