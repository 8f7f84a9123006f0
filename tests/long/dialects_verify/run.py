"""Rules of the APIs kept with each model family: runs `toolgate verify` against random models.

    python -m tests.long dialects-verify [--families a,b|all] [--suite quick|full] [--again]
        [--report docs/verify-dialects.md]

Default: one family of each shape of calls. For each, the model of `make tiny FAMILY=…` is served by
`toolgate serve`. The reports are kept in .cache/dialects-verify, and the page has all of them. A
family with a report does not run again without `--again`. The exit status is 1 if a check failed,
or a server did not start.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from tests.long.verification import NotVerified, read, verify
from tests.models import ROOT
from tests.support.servers.contenders import NotStarted, exit_on_sigterm, running
from toolgate_core.dialects.registry import DIALECTS, SHAPES

from . import report

CACHE = ROOT / ".cache" / "dialects-verify"
MODELS = ROOT / ".cache" / "models"
WITH_CALLS = [name for name, dialect in DIALECTS.items() if dialect.calls]
ONE_OF_EACH_SHAPE = [
    next(name for name in WITH_CALLS if DIALECTS[name].shape == shape) for shape in SHAPES
]


def main() -> int:
    exit_on_sigterm()
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--families", type=families, default=ONE_OF_EACH_SHAPE)
    parser.add_argument("--suite", choices=("quick", "full"), default="quick")
    parser.add_argument("--again", action="store_true", help="also families that have a report")
    parser.add_argument("--report", type=Path, metavar="FILE")
    options = parser.parse_args()
    CACHE.mkdir(parents=True, exist_ok=True)
    missing = []
    for family in options.families:
        if options.again or not done(family, options.suite):
            try:
                run(family, options.suite)
            except (NotStarted, NotVerified) as error:
                print(f"{family}: {error}", file=sys.stderr, flush=True)
                missing.append(family)
    results = [
        report.Result(family, read(reports(family, suite)))
        for suite in ("quick", "full")
        for family in WITH_CALLS
        if done(family, suite)
    ]
    page = report.text(results)
    if options.report is not None:
        options.report.write_text(page)
    else:
        print(page)
    failed = [each for each in results if each.failed and each.family in options.families]
    return 1 if failed or missing else 0


def families(text: str) -> list[str]:
    """The names in the option. Raises ArgumentTypeError."""
    names = WITH_CALLS if text == "all" else text.split(",")
    if unknown := [name for name in names if name not in WITH_CALLS]:
        raise argparse.ArgumentTypeError(f"no family is named {', '.join(unknown)}")
    return names


def reports(family: str, suite: str) -> Path:
    """The path of the reports without their suffix."""
    return CACHE / f"{family}-{suite}"


def done(family: str, suite: str) -> bool:
    return reports(family, suite).with_name(f"{family}-{suite}.json").exists()


def run(family: str, suite: str) -> None:
    """Raises NotStarted, NotVerified."""
    model = tiny_model(family)
    with running("toolgate", model, label="dialects-verify") as server:
        verify(server.url, server.model_name(), server.key, suite, reports(family, suite))


def tiny_model(family: str) -> Path:
    """The random model of `make tiny FAMILY=…`."""
    model = MODELS / f"tiny-{family}"
    command = ["make", "--no-print-directory", "tiny", f"FAMILY={family}"]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return model


if __name__ == "__main__":
    sys.exit(main())
