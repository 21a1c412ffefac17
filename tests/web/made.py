"""Write what a server shows, without training anything."""

import json
from pathlib import Path

SESSION = "session_20260101_000000_aaaa1111"
RUN = "run_20260101_000000_aaaa"
SEARCH = "search_20260101_000000_bbbb2222"
VIDEO = bytes(range(256)) * 40


def write(path: Path, value) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = value if isinstance(value, str | bytes) else json.dumps(value)
    part = path.with_name(f".unfinished-{path.name}")  # by rename, as everything we write
    part.write_bytes(text if isinstance(text, bytes) else text.encode())
    part.replace(path)


def lines(rows) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def scalars(count: int, seed: int = 1):
    for n in range(1, count + 1):
        row = {"global_step": n * 1000, "iteration": n, "episodic_return": float(n * seed)}
        yield {**row, "policy_loss": -0.1, "elapsed_time": n * 0.5, "sps": 2000.0}
        if n % 10 == 0:
            row = {"type": "eval", "global_step": n * 1000, "mean_return": float(n), "episodes": 4}
            yield {**row, "interval": [n - 1.0, n + 1.0]}


def make_member(folder: Path, seed: int, count: int = 50) -> None:
    write(folder / "metrics/scalars.jsonl", lines(scalars(count, seed)))
    write(folder / "videos/eval_10000_median.mp4", VIDEO)
    write(folder / "reward_fn.py", "class Own: ...\n")
    facts = {"env": "HalfCheetah-v5", "seed": seed, "reward": "own", "settings": {}}
    write(folder / "config.json", facts)


def make_run(path: Path, status: str = "completed", seeds=(1, 2), count: int = 50) -> Path:
    for seed in seeds:
        make_member(path / f"own_seed_{seed}", seed, count)
    write(path / "config.json", {"env": "HalfCheetah-v5", "steps": count * 1000, "members": []})
    write(path / "manifest.json", {"command": "telic train HalfCheetah-v5", "key": "k"})
    write(path / "status.json", {"status": status})
    facts = {"status": status, "best_return": 12.5, "total_timesteps": 1000, "training_time_s": 2.0}
    write(path / "summary.json", facts)
    start = {"event": "train.start", "time": 1.0, "run": path.name, "members": ["own_seed_1"]}
    more = {"step": 0, "total_steps": count * 1000, "device": "cpu", "resumed": False}
    write(path / "events.jsonl", lines([start | more]))
    return path


def make_session(path: Path, intent: str = "run forward fast", score: float = 0.9) -> Path:
    config = {"intent": intent, "env": "HalfCheetah-v5", "seeds": [1, 2]}
    write(path / "session.json", config)
    start = {"event": "session.start", "session": path.name, "path": str(path), "intent": intent}
    asked = {"event": "session.asked", "criteria": [], "doubts": ["how fast"]}
    sent = {"event": "model.sent", "role": "reward", "key": "k1", "model": "scripted", "attempt": 1}
    reply = {"event": "model.reply", "role": "reward", "key": "k1", "model": "scripted"}
    cost = {"tokens": {"input": 10, "output": 5}, "price_usd": 0.25, "latency_s": 1.5}
    rows = [
        start | {"env": "HalfCheetah-v5", "resumed": False},
        asked,
        sent | {"system": "be an author", "prompt": "write a reward"},
        reply | cost | {"answer": "done", "attempts": 1, "cached": False},
        {"event": "session.iteration", "number": 1, "change": "first try"},
    ]
    write(path / "events.jsonl", lines(rows))
    make_run(path / "iter_1" / "train")
    reward = 'class Own:\n    weights = {"speed": 1.0}\n'
    for number, text in ((1, reward), (2, reward.replace("1.0", "2.0"))):
        candidate = {"reward": text, "env_args": {}, "steps": 1000, "change": f"try {number}"}
        candidate |= {"parent": None if number == 1 else 1}
        write(path / f"iter_{number}/candidate.json", candidate)
        write(path / f"iter_{number}/reward_fn.py", text)
    facts = {"number": 1, "parent": None, "change": "first try", "passed": False, "score": score}
    judged = {"variant": 0, "best": "own_seed_1", "tags": ["too_slow"], "members": []}
    write(path / "iter_1/judgment.json", facts | judged | {"training_s": 1.0, "judging_s": 0.5})
    return path


def make_search(path: Path) -> Path:
    write(path / "search.json", {"method": "cma", "env": "CartPole-v1"})
    start = {"event": "search.start", "search": path.name, "env": "CartPole-v1", "label": "cma"}
    write(path / "events.jsonl", lines([start | {"runs": 1, "left": 1}]))
    return path


def make_workspace(root: Path) -> Path:
    runs = root / "runs"
    make_run(runs / RUN)
    make_session(runs / SESSION)
    make_search(runs / SEARCH)
    write(root / "secret.txt", "outside of the workspace")
    return root
