"""Run `bench gpu-engine` on a machine without a network, with what `bench gpu-engine-pack` packed.

    python3 -m bench gpu-engine-bare DIR --out DIR [--seconds 570] [--rehearsal]
        [options of gpu-engine]

Run in a copy of the checkout. Needs PyTorch and transformers. With --rehearsal, it runs on a CPU,
in an environment with vLLM's CPU build: with the packed model, whose layers are small, and data,
and the other packages of that environment are hidden.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from .packages import ARCHIVE, MODEL, SITE

ROOT = Path(__file__).parents[2]
SOURCES = (ROOT, ROOT / "core", ROOT / "backend")


def main() -> int:
    began = time.monotonic()
    parser = argparse.ArgumentParser(
        prog="python3 -m bench gpu-engine-bare",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("directory", type=Path)
    parser.add_argument("--seconds", type=float, default=570, help="for everything")
    parser.add_argument("--rehearsal", action="store_true")
    options, others = parser.parse_known_args()
    with TemporaryDirectory() as unpacked:
        with tarfile.open(options.directory / ARCHIVE) as packed:
            packed.extractall(unpacked)
        path = [str(source) for source in SOURCES]
        if options.rehearsal:
            others.append("--rehearsal")
        else:
            path.insert(0, f"{unpacked}/{SITE}")
        environment = {"PYTHONPATH": os.pathsep.join(path), "TOOLGATE_SHARED": unpacked}
        left = options.seconds - (time.monotonic() - began)
        command = [sys.executable, "-m", "bench", "gpu-engine", f"{unpacked}/{MODEL}"]
        command += ["--seconds", str(left), *others]
        return subprocess.run(command, env=os.environ | environment, check=False).returncode
