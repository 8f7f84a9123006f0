"""Write requirements/locked/: every package of an installation, with its hashes (`make lock`).

    python scripts/lock.py [--only NAME]

Versions are those of requirements/constraints.txt, with which the tests run. vLLM's CUDA build is
not among them; its versions are those that vLLM asks for. The files name no package index.
PyTorch's CPU builds are in an index of their own, or in a folder that PIP_FIND_LINKS names.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
REQUIREMENTS = ROOT / "requirements"
LOCKED = REQUIREMENTS / "locked"
PYTHON = "3.11"
OURS = "toolgate-demo-model ; sys_platform == 'never'"
"""The demo model is released with us: it is installed from its wheel, like Toolgate."""


@dataclass(frozen=True)
class Lock:
    extras: tuple[str, ...]
    content: str
    torch_on_cpu: bool = False
    constrained: bool = True
    pins: tuple[str, ...] = ()
    every_platform: bool = False

    @property
    def head(self) -> str:
        torch = (
            "# torch is PyTorch's CPU build, with the hash of its wheel for Linux, x86-64 and "
            f"CPython {PYTHON}.\n# It is in PyTorch's CPU index. Its packages torchvision, "
            "torchaudio and torchcodec are left out.\n"
        )
        return (
            f"# {self.content}\n"
            "# Written by `make lock`; do not edit. docs/internals/releases.md has the command "
            "that installs it.\n" + (torch if self.torch_on_cpu else "")
        )


LOCKS = {
    "proxy": Lock(
        ("proxy", "traces", "database", "callbacks"),
        "The gateway, on every platform.",
        every_platform=True,
    ),
    "backend": Lock(
        ("backend",),
        "The backend with vLLM's CUDA build, on Linux.",
        constrained=False,
        pins=("vllm==0.32.0",),  # the newest release that ran on a GPU
    ),
    "backend-cpu": Lock(
        ("backend-cpu",), "The backend with vLLM's CPU build, on Linux.", torch_on_cpu=True
    ),
    "demo-cpu": Lock(
        ("proxy", "traces", "backend-cpu", "demo"),
        "Gateway, backend with vLLM's CPU build, and the demo, on Linux.",
        torch_on_cpu=True,
    ),
}
BUILD = Lock((), "The packages that build the distributions.", constrained=False)


def write(name: str, lock: Lock) -> None:
    target = LOCKED / f"{name}.txt"
    command = ["uv", "pip", "compile", "--quiet", "--generate-hashes", "--no-header"]
    command += [
        "--no-annotate",
        "--no-strip-extras",
        "--python-version",
        PYTHON,
        "--output-file",
        str(target),
    ]
    command += ["--overrides", "-", "--overrides", str(REQUIREMENTS / "overrides.txt")]
    if lock.extras:
        command += ["pyproject.toml", *(f"--extra={extra}" for extra in lock.extras)]
    else:
        command += [str(REQUIREMENTS / "build.in")]
    if lock.constrained:
        command += ["--constraints", str(REQUIREMENTS / "constraints.txt")]
    if lock.every_platform:
        command.append("--universal")
    environment = dict(os.environ)
    if lock.torch_on_cpu:
        command += ["--overrides", str(REQUIREMENTS / "cpu-overrides.txt")]
        if links := environment.get("PIP_FIND_LINKS"):
            environment["UV_FIND_LINKS"] = links
        else:
            command += ["--torch-backend", "cpu"]
    overrides = "\n".join((OURS, *lock.pins))
    # A file that is already there keeps its versions: uv reads them from the output file.
    target.unlink(missing_ok=True)
    subprocess.run(command, cwd=ROOT, env=environment, check=True, text=True, input=overrides)
    target.write_text(lock.head + re.sub(r"^# .*\n", "", target.read_text(), flags=re.M))
    print(f"wrote {target.relative_to(ROOT)}")


def main() -> None:
    locks = {**LOCKS, "build": BUILD}
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", choices=sorted(locks))
    only = parser.parse_args().only
    LOCKED.mkdir(exist_ok=True)
    for name, lock in locks.items():
        if only in (None, name):
            write(name, lock)


if __name__ == "__main__":
    main()
