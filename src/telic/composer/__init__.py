"""Rule-based author that converts an intent to frames, criteria and code without a model."""
