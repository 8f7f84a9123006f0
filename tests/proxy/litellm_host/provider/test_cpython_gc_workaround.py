"""CPython's crash in `ContextVar.set`, and the workaround: each case in a process of its own."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

from toolgate_proxy import provider
from toolgate_proxy.litellm_host.provider import cpython_gc_workaround

CRASHING = """
import contextvars, gc, random, sys

variables = [contextvars.ContextVar(str(at)) for at in range(60)]

class Abandoned:
    def __init__(self):
        self.me = self

    def __del__(self):
        for variable in variables * 2:
            variable.set(object())

def set_while_collecting():
    for variable in variables:
        variable.set(object())
    for _ in range(5000):
        gc.disable()
        Abandoned()
        objects = [object() for _ in range(3)]
        gc.set_threshold(gc.get_count()[0] + random.randint(1, 4))
        gc.enable()
        random.choice(variables).set(1)

if "held" in sys.argv:
    from toolgate_proxy.litellm_host.provider import cpython_gc_workaround
    cpython_gc_workaround.hold()
random.seed(int(sys.argv[1]))
contextvars.copy_context().run(set_while_collecting)
print("lived")
"""


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", CRASHING, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


has_the_bug = pytest.mark.skipif(
    sys.version_info >= (3, 12), reason="CPython 3.12 has the bug no more."
)


@pytest.mark.parametrize("seed", range(3))
def test_finalizer_may_set_a_context_variable_while_another_is_set(seed: int) -> None:
    done = _run(str(seed), "held")
    assert done.stdout == "lived\n", done.stderr


@has_the_bug
def test_provider_installs_the_workaround_once() -> None:
    assert provider.toolgate
    assert gc.callbacks.count(cpython_gc_workaround._hold) == 1
