"""The cause of a failed start, from logs as vLLM 0.32 writes them."""

from __future__ import annotations

import pytest

from toolgate_proxy.stack.processes import cause, ending

TRACEBACK = """\
Traceback (most recent call last):
  File "launch.py", line 1, in main
    raise
"""
VALIDATION = f"""\
(APIServer pid=1) INFO 11-25 04:35:30 [model.py:2152] Using max model len 8192
{TRACEBACK}pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig
  Value error, max_model_len (9) is greater than 8. Reduce it. [type=value_error, input_value=A()]
    For further information visit https://errors.pydantic.dev/2.14/v/value_error
"""
ENGINE = f"""\
(EngineCore pid=2) ERROR 11-25 04:35:42 [core.py:843] EngineCore failed to start.
(EngineCore pid=2) ERROR 11-25 04:35:42 [core.py:843] {TRACEBACK.splitlines()[0]}
(EngineCore pid=2) ERROR 11-25 04:35:42 [core.py:843] torch.OutOfMemoryError: CUDA out of memory.
(APIServer pid=1) {TRACEBACK}
(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above.
{TRACEBACK}ConnectionResetError: [Errno 104] Connection reset by peer
"""
LEAKS = """\
LaunchError text: set another option.
nanobind: this is likely caused by a reference counting issue in the binding code.
 - leaked function "erase"
  warnings.warn('resource_tracker: There appear to be %d '
"""


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (VALIDATION, "max_model_len (9) is greater than 8. Reduce it."),
        (ENGINE, "torch.OutOfMemoryError: CUDA out of memory."),
        (f"{TRACEBACK}OSError: no file\n", "OSError: no file"),
        (
            "usage: x\nlaunch.py: error: unrecognized arguments: --x\n",
            "launch.py: error: unrecognized arguments: --x",
        ),
        (LEAKS, "LaunchError text: set another option."),
        (f"{TRACEBACK}KeyError\nINFO: Shutting down\n", "KeyError"),
        (
            'time="2026-01-01T00:00:00.000Z" level="error" logger="uvicorn.error" message="in use"',
            '"in use"',
        ),
        (
            "ERROR:    [Errno 98] error while attempting to bind on address ('127.0.0.1', 4000): "
            f"address already in use\n{TRACEBACK}ImportError: sys.meta_path is None, Python is "
            "likely shutting down\n",
            "Port 4000 of 127.0.0.1 is in use. Choose another port.",
        ),
        (
            f"{TRACEBACK}OSError: no disk\nImportError: sys.meta_path is None, Python is likely "
            "shutting down\n",
            "OSError: no disk",
        ),
        ("\n", ""),
        ("x" * 700, "x" * 600 + " …"),
    ],
)
def test_the_last_meaningful_line_is_the_cause(log: str, expected: str) -> None:
    assert cause(log) == expected


def test_endings_name_the_signal() -> None:
    assert ending(3) == "exited with status 3"
    assert ending(-9).startswith("was killed by SIGKILL, as when the machine is out of memory")
    assert ending(-15) == "was killed by SIGTERM"
