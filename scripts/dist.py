"""Build the wheels and source distributions into dist/, twice, and compare them (`make dist`).

    python scripts/dist.py [--revision HEAD] [--out dist]

What is built is the committed state of a revision. Times in the archives are that of the last
commit that changed the distribution (SOURCE_DATE_EPOCH), for which the whole history is needed. The
two builds run in folders of different names; the exit status is 1 if their hashes differ. The build
packages are those of requirements/locked/build.txt, by hash. dist/ also gets SHA256SUMS, the locked
requirements and a bill of materials (CycloneDX) for each of them.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from sbom import write_bills

ROOT = Path(__file__).parents[1]
PROJECTS = (".", "demo_model", "verify")
LOCKED = Path("requirements") / "locked"


def export(revision: str, target: Path) -> None:
    """Write the files of a revision to `target`."""
    target.mkdir(parents=True)
    archive = subprocess.run(
        ["git", "archive", "--format=tar", revision], cwd=ROOT, check=True, capture_output=True
    )
    subprocess.run(["tar", "--extract", "--directory", target], input=archive.stdout, check=True)


def commit_time(revision: str, project: str) -> str:
    """Return the time of the last commit that changed the project, so that its hashes stay."""
    command = ["git", "log", "-1", "--format=%ct", revision, "--", project]
    return subprocess.run(
        command, cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.strip()


def build(source: Path, target: Path, epochs: dict[str, str]) -> dict[str, str]:
    """Return the SHA-256 of each built file, by its name."""
    constraints = source / LOCKED / "build.txt"
    for project in PROJECTS:
        environment = {**os.environ, "SOURCE_DATE_EPOCH": epochs[project]}
        subprocess.run(
            [
                *("uv", "build", "--quiet", "--no-create-gitignore", "--out-dir", target),
                *("--build-constraints", constraints, "--require-hashes", project),
            ],
            cwd=source,
            env=environment,
            check=True,
        )
    return {path.name: sha256(path) for path in sorted(target.iterdir())}


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def build_twice(revision: str, out: Path) -> bool:
    """Whether both builds have the same files."""
    epochs = {project: commit_time(revision, project) for project in PROJECTS}
    epoch = epochs["."]
    with tempfile.TemporaryDirectory() as folder:
        built = []
        for name in ("first", "the-second"):
            export(revision, source := Path(folder) / name / "source")
            built.append(build(source, Path(folder) / name / "dist", epochs))
        first, second = built
        differing = [name for name in first | second if first.get(name) != second.get(name)]
        if differing:
            print(f"Two builds differ in {', '.join(differing)}.", file=sys.stderr)
            return False
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(Path(folder) / "first" / "dist", out)
        for lock in sorted((Path(folder) / "first" / "source" / LOCKED).glob("*.txt")):
            shutil.copy(lock, out / f"requirements-{lock.name}")
        write_bills(out, int(epoch))
    sums = {path.name: sha256(path) for path in sorted(out.iterdir())}
    (out / "SHA256SUMS").write_text("".join(f"{each}  {name}\n" for name, each in sums.items()))
    print(f"SOURCE_DATE_EPOCH {epoch}, two builds, equal hashes:")
    for name, each in first.items():
        print(f"{each}  {name}")
    return True


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--revision", default="HEAD")
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    chosen = parser.parse_args()
    return 0 if build_twice(chosen.revision, chosen.out) else 1


if __name__ == "__main__":
    sys.exit(main())
