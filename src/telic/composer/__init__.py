"""Rule-based author that converts an intent to criteria and code without a language model."""
