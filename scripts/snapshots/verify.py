"""Print the verdicts of `toolgate verify` on tiny models of 15 families as JSON, for
`scripts/same.py`. The checks send requests whole and streamed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from toolgate_core.dialects.registry import DIALECTS

FAMILIES = [name for name, dialect in DIALECTS.items() if dialect.calls][2::5][:15]
PORT = 20_000 + os.getpid() % 20_000
VARIABLES = os.environ | {"TOOLGATE_MASTER_KEY": "sk-same", "TOOLGATE_VERIFY_KEY": "sk-same"}
TOOLGATE = (sys.executable, "-m", "toolgate_proxy")


def verdicts(family: str, folder: Path) -> dict[str, Any]:
    model, report = str(folder / family), folder / f"{family}.json"
    make = (sys.executable, "-m", "tests.models.tiny_family", model, "--family", family)
    subprocess.run(make, check=True, stdout=sys.stderr)
    serve = (*TOOLGATE, "serve", model, f"--name={family}", f"--port={PORT}")
    stack = subprocess.Popen(serve, env=VARIABLES, stdout=subprocess.PIPE, text=True)
    try:
        assert stack.stdout is not None
        if any("TOOLGATE READY" in line for line in stack.stdout):
            url = f"http://127.0.0.1:{PORT}"
            options = (f"--model={family}", f"--json={report}", "--timeout=600")
            subprocess.run((*TOOLGATE, "verify", url, *options), env=VARIABLES, stdout=sys.stderr)
    finally:
        stack.terminate()
        stack.communicate(timeout=120)
    checks = json.loads(report.read_text())["checks"]
    return {f"verify/{family}/{each['id']}": each["verdict"] for each in checks}


if __name__ == "__main__":
    found: dict[str, Any] = {}
    with TemporaryDirectory() as made:
        for name in FAMILIES:
            found |= verdicts(name, Path(made))
    json.dump(found, sys.stdout)
