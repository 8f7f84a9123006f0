"""What a running server takes, and whether it grows: memory, descriptors, threads, Redis keys."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import psutil
import redis

from bench.chaos.fleet import Fleet

PER_HOUR = {"memory, MB": 60.0, "descriptors": 10.0, "threads": 4.0, "Redis keys": 1e9}
"""Most growth per hour in the second half of a run. Entries of Redis are only reported: records of
new grammars are kept for days."""
SHORTEST = 1200.0
"""Seconds of a run from which growth is judged. Before, caches fill."""


@dataclass(frozen=True)
class Sample:
    at: float
    """Monotonic, in seconds."""
    server: str
    values: dict[str, float]


def sample(fleet: Fleet, steady: Sequence[str]) -> list[Sample]:
    """`steady`: names of the servers that no fault restarts."""
    now, samples = time.monotonic(), []
    for server in fleet.servers:
        if server.name not in steady:
            continue
        values = dict.fromkeys(("memory, MB", "descriptors", "threads"), 0.0)
        for process in server.family():
            try:
                values["memory, MB"] += process.memory_info().rss / 2**20
                values["descriptors"] += process.num_fds()
                values["threads"] += process.num_threads()
            except psutil.NoSuchProcess:
                continue
        samples.append(Sample(now, server.name, values))
    try:
        with redis.Redis.from_url(fleet.redis_url, socket_timeout=1) as client:
            samples.append(Sample(now, "valkey", {"Redis keys": float(client.dbsize())}))
    except redis.RedisError:
        pass
    return samples


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Growth per hour by least squares. `points`: seconds and values."""
    if len(points) < 3:
        return 0.0
    mean_at = sum(at for at, _ in points) / len(points)
    mean = sum(value for _, value in points) / len(points)
    spread = sum((at - mean_at) ** 2 for at, _ in points)
    return 3600 * sum((at - mean_at) * (value - mean) for at, value in points) / spread


def report(samples: Sequence[Sample]) -> tuple[str, list[str]]:
    """A table in Markdown, and what grows too much."""
    rows, wrong = [], []
    began, ended = samples[0].at, samples[-1].at
    names = dict.fromkeys((each.server, name) for each in samples for name in each.values)
    for server, name in names:
        mine = [(s.at, s.values[name]) for s in samples if s.server == server and name in s.values]
        later = [point for point in mine if point[0] >= (began + ended) / 2]
        growth = slope(later)
        most = max(value for _, value in mine)
        rows.append(
            f"| {server} | {name} | {mine[0][1]:,.0f} | {most:,.0f} | {mine[-1][1]:,.0f} | "
            f"{growth:+,.1f} |"
        )
        if ended - began >= SHORTEST and growth > PER_HOUR[name]:
            wrong.append(f"{server}: {name} grows by {growth:.1f} per hour")
    head = ["| server | | first | most | last | growth per hour, second half |"]
    return "\n".join([*head, "|---|---|---|---|---|---|", *rows]), wrong
