"""Compare what two checkouts do, and print the differences.

    python scripts/same.py OLD NEW [--only PART] [--verify] [--allow FILE] [--save FILE]

OLD and NEW are checkouts, or snapshots of NEW that `--save` wrote earlier. The scripts in
`snapshots/` run with the packages of each checkout: settings, metrics and errors (lists), the
schema reports of all schemas in $TOOLGATE_SHARED/data (schemas), the gateway's routes and its
responses to recorded token streams (gateway). `--verify` adds `toolgate verify` against models of
15 families, which takes an hour for each checkout.

Each line of the file of `--allow` is a pattern of entries that may differ, such as
`settings/gateway/TOOLGATE_OLD*`; `#` begins a comment. The exit status is 1 if others differ.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import subprocess
import sys
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

PARTS = ("lists", "schemas", "gateway")
SHOWN, LINES = 40, 30
"""Maximum number of entries that are printed, and of lines of each."""
Snapshot = dict[str, Any]
"""By entry, such as `settings/gateway/TOOLGATE_PAGE`: a JSON value."""


def snapshot(source: Path, parts: list[str]) -> Snapshot:
    """The snapshot of a checkout, or the one in a file."""
    if source.is_file():
        read: Snapshot = json.loads(source.read_text())
        return read
    source, found = source.resolve(), Snapshot()
    packages = sorted({each.parent for each in source.glob("*/toolgate_*/")})
    variables = {k: v for k, v in os.environ.items() if not k.startswith(("TOOLGATE_", "LITELLM_"))}
    variables["TOOLGATE_SHARED"] = os.environ.get("TOOLGATE_SHARED", "../shared")
    variables["PYTHONPATH"] = os.pathsep.join(map(str, (source, *packages)))
    for part in parts:
        print(f"{source}: {part}", file=sys.stderr, flush=True)
        command = [sys.executable, str(Path(__file__).parent / "snapshots" / f"{part}.py")]
        done = subprocess.run(command, cwd=source, env=variables, stdout=subprocess.PIPE)
        if done.returncode:
            sys.exit(f"{part}.py ended with status {done.returncode} in {source}.")
        found |= json.loads(done.stdout)
    return found


def show(entry: str, old: Snapshot, new: Snapshot) -> None:
    print(f"{entry}: {'differs' if entry in old and entry in new else ''}", end="")
    print("" if entry in new else "only in OLD", "" if entry in old else "only in NEW")
    if entry not in old or entry not in new:
        return
    texts = [json.dumps(each[entry], indent=1).splitlines() for each in (old, new)]
    lines = [*difflib.unified_diff(*texts, n=1, lineterm="")][2:]
    print("".join(f"    {line[:200]}\n" for line in lines[:LINES]), end="")


def main() -> int:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--only", action="append", choices=(*PARTS, "verify"))
    parser.add_argument("--verify", action="store_true", help="run `toolgate verify` as well")
    parser.add_argument("--allow", type=Path, help="file with the entries that may differ")
    parser.add_argument("--save", type=Path, help="write the snapshot of NEW to this file")
    options = parser.parse_args()
    parts = [*(options.only or PARTS), *(["verify"] if options.verify else [])]
    lines = options.allow.read_text().splitlines() if options.allow else []
    allowed = [text for line in lines if (text := line.partition("#")[0].strip())]
    old, new = (snapshot(each, parts) for each in (options.old, options.new))
    if options.save:
        options.save.write_text(json.dumps(new))
    found = [e for e in dict.fromkeys([*old, *new]) if old.get(e, ...) != new.get(e, ...)]
    others = [e for e in found if not any(fnmatchcase(e, pattern) for pattern in allowed)]
    for entry in others[:SHOWN]:
        show(entry, old, new)
    print(
        f"{len(old)} and {len(new)} entries, {len(others)} differences, and "
        f"{len(found) - len(others)} that are allowed"
    )
    return 1 if others else 0


if __name__ == "__main__":
    sys.exit(main())
