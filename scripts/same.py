"""Compare what two checkouts do, and print the differences.

    python scripts/same.py OLD NEW [--only PART] [--verify] [--allow FILE] [--save FILE]

OLD and NEW are checkouts, or snapshots of NEW that `--save` wrote earlier. `snapshot.py` runs with
the packages of each checkout, for the parts lists, schemas and gateway. `--verify` adds the
verdicts of `toolgate verify` on models of 15 families, which take an hour for each checkout.

Each line of the file of `--allow` is a pattern of entries that may differ, such as
`settings/gateway/TOOLGATE_OLD*`; `#` begins a comment. The exit status is 1 if others differ.
"""

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
SHOWN, LINES = 40, 30  # entries that are printed, lines of each


def snapshot(source: Path, parts: list[str]) -> dict[str, Any]:
    """The snapshot of a checkout, or the one in a file. By entry: a JSON value."""
    if source.is_file():
        return dict(json.loads(source.read_text()))
    source, found = source.resolve(), dict[str, Any]()
    packages = sorted({each.parent for each in source.glob("*/toolgate_*/")})
    variables = {k: v for k, v in os.environ.items() if not k.startswith(("TOOLGATE_", "LITELLM_"))}
    variables["TOOLGATE_SHARED"] = os.environ.get("TOOLGATE_SHARED", "../shared")
    variables["PYTHONPATH"] = os.pathsep.join(map(str, (source, *packages)))
    for part in parts:
        print(f"{source}: {part}", file=sys.stderr, flush=True)
        command = [sys.executable, str(Path(__file__).with_name("snapshot.py")), part]
        made = subprocess.run(command, cwd=source, env=variables, stdout=subprocess.PIPE)
        if made.returncode:
            sys.exit(f"The snapshot ended with status {made.returncode} in {source}.")
        found |= json.loads(made.stdout)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
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
        print(f"{entry} differs:")
        texts = [json.dumps(s.get(entry, "none"), indent=1).splitlines() for s in (old, new)]
        changes = [*difflib.unified_diff(*texts, n=1, lineterm="")][2:]
        print("".join(f"    {line[:200]}\n" for line in changes[:LINES]), end="")
    print(f"{len(old)} and {len(new)} entries, {len(others)} differ, not counting those allowed")
    return 1 if others else 0


if __name__ == "__main__":
    sys.exit(main())
