"""Policy search: numbers of a small policy, proposed by a model or an optimiser, tried, revised."""
