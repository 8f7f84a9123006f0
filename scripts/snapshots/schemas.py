"""Print what `toolgate schema` reports on all schemas in $TOOLGATE_SHARED/data as JSON, for
`scripts/same.py`: on those of real tools in all forms of calls, on the others in one."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DATA = Path(os.environ["TOOLGATE_SHARED"]) / "data"
CHUNK = 300
"""Number of schemas of each command, which compiles them in one process."""


def lines(name: str) -> Iterator[Any]:
    with gzip.open(DATA / name, "rt", encoding="utf-8") as file:
        yield from map(json.loads, file)


def suite() -> Iterator[Any]:
    with tarfile.open(DATA / "json-schema-test-suite.tar.gz") as tar:
        for member in tar:
            if member.name.endswith(".json") and "/tests/" in member.name:
                file = tar.extractfile(member)
                assert file is not None
                yield from (case["schema"] for case in json.load(file))


def reports(source: str, schemas: Iterator[Any], *options: str) -> Iterator[tuple[str, Any]]:
    distinct = {json.dumps(schema): None for schema in schemas if isinstance(schema, dict)}
    for at in range(0, len(distinct), CHUNK):
        tools = [
            {"name": f"s{at + n}", "parameters": json.loads(text)}
            for n, text in enumerate([*distinct][at : at + CHUNK])
        ]
        given = json.dumps([{"type": "function", "function": tool} for tool in tools])
        command = [sys.executable, "-m", "toolgate_proxy", "schema", "-", *options]
        done = subprocess.run(command, input=given, capture_output=True, text=True)
        text = f"\n{done.stdout}" if done.returncode in (0, 1) else f"\nall:{done.stderr}"
        for report in text.split("\ns")[1:]:
            yield f"schemas/{source}/s{report.partition(':')[0]}", report.splitlines()


def main() -> None:
    tools = (line["schema"] for line in lines("tool-schemas.jsonl.gz"))
    calls = (t["function"].get("parameters") for c in lines("bfcl.jsonl.gz") for t in c["tools"])
    real = (line["schema"] for line in lines("maskbench.jsonl.gz"))
    found = dict(reports("tools", tools))
    for name, schemas in (("bfcl", calls), ("maskbench", real), ("suite", suite())):
        found |= dict(reports(name, schemas, "--dialect", "qwen3"))
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
