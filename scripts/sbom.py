"""Bills of material in CycloneDX 1.6, one for each file of locked requirements (`make dist`).

    python scripts/sbom.py DIRECTORY [--epoch SECONDS]

Each `requirements-NAME.txt` in the directory gets a `toolgate-NAME.cdx.json` beside it: our
distributions with the SHA-256 of their wheels, and every package with its version. The same files
and the same time give the same bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

PIN = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?==([^\s;\\]+)", re.M)
WHEEL = re.compile(r"^([a-z0-9_]+)-([0-9][^-]*)-.*\.whl$")
GATEWAY = "toolgate-gateway"
OURS = {"demo-cpu": (GATEWAY, "toolgate-demo-model", "toolgate-verify")}
"""Our distributions in an installation. In the others: the gateway's alone."""
NAMESPACE = uuid.uuid5(uuid.NAMESPACE_DNS, "toolgate")


def bill(name: str, lock: str, wheels: dict[str, tuple[str, str]], epoch: int) -> dict[str, Any]:
    """`wheels`: version and SHA-256 of our wheels, by distribution. `lock`: text of the file."""
    ours = [
        _component(each, *wheels[each]) for each in OURS.get(name, (GATEWAY,)) if each in wheels
    ]
    others = [_component(package, version) for package, version in PIN.findall(lock)]
    root, *rest = ours
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(NAMESPACE, name + lock + str(wheels))}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {**root, "type": "application"},
        },
        "components": [*rest, *others],
        "dependencies": [
            {"ref": root["bom-ref"], "dependsOn": [each["bom-ref"] for each in [*rest, *others]]}
        ],
    }


def _component(name: str, version: str, sha256: str | None = None) -> dict[str, Any]:
    purl = f"pkg:pypi/{name.lower().replace('_', '-')}@{version.replace('+', '%2B')}"
    component = {"type": "library", "name": name, "version": version, "purl": purl, "bom-ref": purl}
    hashes = {"hashes": [{"alg": "SHA-256", "content": sha256}]} if sha256 else {}
    return {**component, **hashes}


def our_wheels(folder: Path) -> dict[str, tuple[str, str]]:
    found = {}
    for path in sorted(folder.glob("*.whl")):
        if match := WHEEL.match(path.name):
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            found[match[1].replace("_", "-")] = (match[2], digest)
    return found


def write_bills(folder: Path, epoch: int) -> list[Path]:
    wheels = our_wheels(folder)
    written = []
    for path in sorted(folder.glob("requirements-*.txt")):
        name = path.stem.removeprefix("requirements-")
        if name == "build":
            continue
        target = folder / f"toolgate-{name}.cdx.json"
        text = json.dumps(bill(name, path.read_text(), wheels, epoch), indent=1)
        target.write_text(text + "\n")
        written.append(target)
    return written


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("directory", type=Path)
    parser.add_argument("--epoch", type=int, default=0)
    chosen = parser.parse_args()
    for each in write_bills(chosen.directory, chosen.epoch):
        print(f"wrote {each}")
