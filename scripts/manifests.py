"""Render the Helm chart into deploy/manifests, for clusters without Helm.

    python scripts/manifests.py [--check]

Needs Helm, as `helm` or the path in TOOLGATE_HELM. With `--check` nothing is written. The exit
status is 1 if a file is out of date.
"""

from __future__ import annotations

import os
import subprocess
from collections import defaultdict
from pathlib import Path

from generated import ROOT, write_or_check

CHART = ROOT / "deploy" / "helm" / "toolgate"
TARGET = ROOT / "deploy" / "manifests"
HELM = os.environ.get("TOOLGATE_HELM", "helm")
SOURCE = "# Source: toolgate/templates/"
HEAD = "# Rendered from deploy/helm/toolgate by scripts/manifests.py; do not edit.\n"


def rendered() -> dict[Path, str]:
    command = [HELM, "template", "toolgate", CHART, "--namespace", "toolgate"]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    documents: dict[str, list[str]] = defaultdict(list)
    for document in text.split("---\n"):
        if document.strip():
            source, _, content = document.partition("\n")
            lines = (line.rstrip() for line in content.splitlines())
            kept = "\n".join(line for line in lines if "managed-by" not in line)
            documents[source.removeprefix(SOURCE)].append(f"{kept.strip()}\n")
    return {TARGET / name: HEAD + "---\n".join(parts) for name, parts in documents.items()}


if __name__ == "__main__":
    write_or_check(rendered())
