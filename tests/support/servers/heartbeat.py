"""The longest pause of a server's event loop, as seen through a connection of its own, and the
memory that its process adds.

A pause counts as far as the server's process used the processor in it. The rest of it is the time
in which other processes ran, on a busy machine.
"""

import http.client
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

import psutil

PERIOD = 0.01
"""Seconds between two looks."""


@dataclass
class Found:
    longest: float = 0.0
    """Seconds of the longest pause."""
    growth: int = 0
    """Bytes, at most: what was freed at the end counts as well."""


@contextmanager
def heartbeat(url, pid):
    """Runs in a thread, so that what the test does itself does not count as a pause. At the end it
    waits for the response to the last beat."""
    process, found = psutil.Process(pid), Found()
    before, ended, begun = process.memory_info().rss, threading.Event(), threading.Event()

    def beat():
        connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
        while not ended.is_set():
            began, worked = time.perf_counter(), processor_seconds(process)
            connection.request("GET", "/health/liveliness")
            connection.getresponse().read()
            pause = time.perf_counter() - began
            pause = min(pause, processor_seconds(process) - worked)
            found.longest = max(found.longest, pause)
            begun.set()
            ended.wait(PERIOD)
        connection.close()

    def weigh():
        while not ended.wait(PERIOD):
            found.growth = max(found.growth, process.memory_info().rss - before)

    threads = [threading.Thread(target=each, daemon=True) for each in (beat, weigh)]
    for thread in threads:
        thread.start()
    begun.wait(60)
    found.longest = 0.0
    try:
        yield found
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def processor_seconds(process):
    """Of all threads, in steps of 10 ms."""
    times = process.cpu_times()
    return float(times.user + times.system)
