"""Read a repository without running it: how it trains, evaluates, logs, and what is risky."""
