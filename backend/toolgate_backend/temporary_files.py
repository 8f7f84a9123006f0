"""A temporary directory of one run of a backend.

vLLM leaves the sockets between its processes and the file by which its ranks meet in the temporary
directory. They are created in a directory of the run instead, which is removed at its end, or at
the start of the next run if this one is killed.
"""

from __future__ import annotations

import getpass
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from toolgate_core.run_directory import MAX_LENGTH, RunDirectory

COMPILED = "TORCHINDUCTOR_CACHE_DIR"
"""PyTorch's variable for the cache of compiled functions, by default in the temporary directory. It
has to outlive the run."""


@contextmanager
def own_directory() -> Iterator[None]:
    """Inside, it is the temporary directory of this process and of processes that it starts. If its
    path is too long for sockets, nothing is changed."""
    usual = tempfile.gettempdir()
    with RunDirectory() as directory:
        if len(str(directory.path)) > MAX_LENGTH:
            yield
            return
        before = os.environ.get("TMPDIR")
        os.environ.setdefault(COMPILED, f"{usual}/torchinductor_{getpass.getuser()}")
        os.environ["TMPDIR"] = tempfile.tempdir = str(directory.path)
        try:
            yield
        finally:
            tempfile.tempdir = usual
            if before is None:
                del os.environ["TMPDIR"]
            else:
                os.environ["TMPDIR"] = before
