"""Fetch data sets that are in packages, for tests on a machine without $TOOLGATE_SHARED.

    python -m scripts.public_data

The conformance suite of JSON Schema is in the source distribution of jsonschema, and the Berkeley
Function-Calling Leaderboard in the wheel of bfcl-eval. Only their data files are used. The schemas
of tools are our own (`tool_schemas.json`).
"""

import gzip
import io
import json
import re
import subprocess
import sys
import tarfile
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile

from tests.support.shared_data import BFCL, CACHE, DATA, SUITE, TOOLS

ROOT = Path(__file__).parents[1]
SUITE_PACKAGE, BFCL_PACKAGE = "jsonschema==4.26.0", "bfcl-eval==2026.3.23"
CASES = re.compile(r"bfcl_eval/data/BFCL_v\d+_((?:live_)?(?:simple|multiple|parallel|ir)\w*)\.json")
TYPES = {"dict": "object", "float": "number", "tuple": "array", "HashMap": "object"}
"""Names of types that JSON Schema does not have. Others that it does not have are left out."""
KNOWN = {"string", "number", "integer", "object", "array", "boolean", "null"}


def main():
    if DATA.exists():
        return 0
    CACHE.mkdir(parents=True, exist_ok=True)
    made = {SUITE: (SUITE_PACKAGE, suite), BFCL: (BFCL_PACKAGE, cases)}
    for name, (package, read) in made.items():
        if not (CACHE / name).exists():
            print(f"Fetching {name} from {package} …", flush=True)
            with TemporaryDirectory() as folder, suppress(subprocess.CalledProcessError):
                _write(CACHE / name, read(_downloaded(package, Path(folder))))
    own = json.loads((ROOT / "tests" / "support" / "tool_schemas.json").read_text())
    _write(CACHE / TOOLS, lines(own))
    return 0


def _downloaded(package, folder):
    source = ["--no-binary", "jsonschema"] if package == SUITE_PACKAGE else []
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", *source]
    subprocess.run([*command, "--dest", str(folder), package], check=True)
    return next(folder.iterdir())


def _write(path, content):
    new = path.with_suffix(".new")
    new.write_bytes(content)
    new.rename(path)


def suite(package):
    """The suite as an archive, below a folder of its name."""
    archive = io.BytesIO()
    with tarfile.open(package) as source, tarfile.open(fileobj=archive, mode="w:gz") as made:
        for member in source:
            path = member.name.partition("/json/")[2]
            if member.isfile() and path.startswith(("tests/", "remotes/")):
                member.name = f"json-schema-test-suite/{path}"
                made.addfile(member, source.extractfile(member))
    return archive.getvalue()


def cases(package):
    return lines(_cases(ZipFile(package)))


def lines(records):
    return gzip.compress("".join(f"{json.dumps(each)}\n" for each in records).encode())


def _cases(archive):
    """The cases with one turn, every second one, in the form of chat completions."""
    for name in archive.namelist():
        if not (found := CASES.fullmatch(name)):
            continue
        answers = {}
        with suppress(KeyError):
            path = name.replace("/data/", "/data/possible_answer/")
            answers = {each["id"]: each["ground_truth"] for each in _rows(archive, path)}
        for row in [*_rows(archive, name)][::2]:
            yield {
                "id": row["id"],
                "category": found[1],
                "messages": row["question"][0],
                "tools": [_tool(each) for each in row["function"]],
                "ground_truth": answers.get(row["id"]),
            }


def _rows(archive, name):
    yield from map(json.loads, archive.read(name).decode().splitlines())


def _tool(function):
    name = re.sub(r"[^a-zA-Z0-9_-]", "_", function["name"])[:64]
    parameters = _schema(function["parameters"])
    made = {"name": name, "description": function["description"], "parameters": parameters}
    return {"type": "function", "function": made}


def _schema(given):
    """A description of values as a JSON Schema."""
    if not isinstance(given, dict):
        return given
    made = {key: value for key, value in given.items() if key not in ("type", "optional")}
    kind = TYPES.get(given.get("type", ""), given.get("type"))
    if kind in KNOWN:
        made["type"] = kind
    if "properties" in made:
        made["properties"] = {key: _schema(each) for key, each in made["properties"].items()}
    for inner in ("items", "additionalProperties"):
        if inner in made:
            made[inner] = _schema(made[inner])
    return made


if __name__ == "__main__":
    sys.exit(main())
