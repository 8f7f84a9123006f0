"""Errors that asyncio reports about tasks whose exception nobody has read."""

import asyncio
import gc
from contextlib import asynccontextmanager


@asynccontextmanager
async def no_loop_errors():
    """Fails if the event loop reports an error inside the context. Keep no reference to a task,
    because asyncio reports its exception when it is garbage-collected."""
    loop, reported = asyncio.get_running_loop(), list[str]()
    others = asyncio.all_tasks()
    gc.collect()
    gc.freeze()  # the objects of earlier tests: each collection would take seconds
    # Finalizers of LiteLLM's HTTP clients begin tasks in whatever loop runs. Those of clients of
    # earlier tests fail, since the loops of these are closed.
    await asyncio.gather(*asyncio.all_tasks() - others, return_exceptions=True)

    def report(_, context):
        reported.append(f"{context['message']}: {context.get('exception')!r}")

    before = loop.get_exception_handler()
    loop.set_exception_handler(report)
    try:
        yield
        for _ in range(5):
            await asyncio.sleep(0)
            gc.collect()
    finally:
        loop.set_exception_handler(before)
    assert not reported, reported
