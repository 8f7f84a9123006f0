"""What running servers take, and whether it grows: memory, descriptors, threads, grammars, disk."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil
import redis

from tests.long.chaos.faults import title
from tests.long.chaos.fleet import Fleet
from tests.support import plots

PER_HOUR = {
    "memory, MB": 60.0,
    "descriptors": 10.0,
    "threads": 4.0,
    "sequences": 5.0,
    "pinned grammars": 10.0,
    "running": 5.0,
}
"""Most growth per hour in the second half of a run. Other values are only reported: records of new
grammars are kept in Redis for days."""
ON_DEMAND = ("toolgate_proxy.validation.validator", "toolgate_backend.grammars.examination")
"""Processes that come and go, each with its memory and descriptors. They are not counted."""
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
            if any(name in title(process) for name in ON_DEMAND):
                continue
            try:
                values["memory, MB"] += process.memory_info().rss / 2**20
                values["descriptors"] += process.num_fds()
                values["threads"] += process.num_threads()
            except psutil.NoSuchProcess:
                continue
        samples.append(Sample(now, server.name, values))
    state = fleet.backend_state()
    if state is not None:
        names = ("loaded_grammars", "pinned_grammars", "sequences", "running")
        values = {name.replace("_", " "): float(state[name]) for name in names}
        samples.append(Sample(now, "automata", values))
    try:
        with redis.Redis.from_url(fleet.redis_url, socket_timeout=1) as client:
            memory = float(client.info("memory")["used_memory"]) / 2**20
            values = {"keys": float(client.dbsize()), "data, MB": memory}
    except redis.RedisError:
        return samples
    samples.append(Sample(now, "valkey", values | {"disk, MB": fleet.disk_bytes() / 2**20}))
    return samples


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Growth per hour by least squares. `points`: seconds and values."""
    if len(points) < 3:
        return 0.0
    mean_at = sum(at for at, _ in points) / len(points)
    mean = sum(value for _, value in points) / len(points)
    spread = sum((at - mean_at) ** 2 for at, _ in points)
    return 3600 * sum((at - mean_at) * (value - mean) for at, value in points) / spread


def draw(samples: Sequence[Sample], directory: Path) -> None:
    """Plots of the memory and the descriptors of the servers over the minutes of the run."""
    began = samples[0].at
    for name, unit in (("memory, MB", "MB"), ("descriptors", "descriptors")):
        lines: dict[str, list[tuple[float, float]]] = {}
        for each in samples:
            if name in each.values:
                point = ((each.at - began) / 60, each.values[name])
                lines.setdefault(each.server, []).append(point)
        what = name.partition(",")[0]
        plots.lines(directory / f"soak-{what}.svg", f"Soak: {what}", "minutes", unit, lines)


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
        if ended - began >= SHORTEST and growth > PER_HOUR.get(name, float("inf")):
            wrong.append(f"{server}: {name} grows by {growth:.1f} per hour")
    head = ["| server | | first | most | last | growth per hour, second half |"]
    return "\n".join([*head, "|---|---|---|---|---|---|", *rows]), wrong
