"""Backends of one model, each of which can be killed and started again at its address."""

from contextlib import ExitStack, contextmanager

from tests.support.servers.fake_backend import FakeBackend, running
from tests.support.waiting import until


class Backends:
    def __init__(self, number, scripts):
        self.all = [FakeBackend() for _ in range(number)]
        self._running = [ExitStack() for _ in self.all]
        for at, backend in enumerate(self.all):
            backend.scripts |= scripts
            self.start(at)

    def start(self, at):
        backend = self.all[at]
        port = int(backend.url.rpartition(":")[2]) if backend.url else 0
        self._running[at].enter_context(running(backend, port))

    def kill(self, at):
        self._running[at].close()

    @property
    def counts(self):
        """How many requests came to each."""
        return [len(each.requests) for each in self.all]

    @contextmanager
    def counted(self):
        """Filled in at the end: how many requests came to each meanwhile."""
        before, used = self.counts, list[int]()
        yield used
        used += [now - then for now, then in zip(self.counts, before, strict=True)]

    async def under_way(self, number):
        """Wait until so many requests are running."""
        await until(lambda: sum(each.running for each in self.all) == number)


@contextmanager
def backends_of(number, scripts):
    made = Backends(number, scripts)
    try:
        yield made
    finally:
        for at in range(number):
            made.kill(at)
