"""The longest pause of a server's event loop, as seen through a connection of its own.

A pause counts as far as the server's process used the processor in it. The rest of it is the time
in which other processes ran, on a busy machine.
"""

import http.client
import threading
import time
from contextlib import contextmanager
from urllib.parse import urlsplit

import psutil

PERIOD = 0.01
"""Seconds between two requests."""


class Heartbeat:
    """Times of the responses to a cheap route. `longest` is in seconds."""

    def __init__(self):
        self.beats = 0
        self.longest = 0.0

    def note(self, seconds):
        self.beats += 1
        self.longest = max(self.longest, seconds)


@contextmanager
def heartbeat(url, pid, path="/health/liveliness"):
    """Runs in a thread, so that what the test does itself does not count as a pause. At the end it
    waits for the response to the last beat."""
    process = psutil.Process(pid)
    found, ended, begun = Heartbeat(), threading.Event(), threading.Event()

    def beat():
        connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
        while not ended.is_set():
            began, worked = time.perf_counter(), processor_seconds(process)
            connection.request("GET", path)
            connection.getresponse().read()
            pause = time.perf_counter() - began
            found.note(min(pause, processor_seconds(process) - worked))
            begun.set()
            ended.wait(PERIOD)
        connection.close()

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    begun.wait(60)
    found.longest = 0.0
    try:
        yield found
    finally:
        ended.set()
        thread.join()


def processor_seconds(process):
    """Of all threads, in steps of 10 ms."""
    times = process.cpu_times()
    return float(times.user + times.system)
