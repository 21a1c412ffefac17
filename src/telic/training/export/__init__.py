"""Policies leave the house: ONNX, TorchScript and NumPy files, a card, a bundle of all."""
