"""Collect the pages of the site in .cache/site-pages, for `mkdocs build` (`make site`).

    python scripts/site_pages.py

The pages are those of docs/, a few from elsewhere, and llms.txt. Links between them are rewritten.
Links to other files of the repository become their names, or links to TOOLGATE_REPOSITORY if it is
set (for example https://host/owner/toolgate/blob/main).
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import llms
from generated import ROOT

TARGET = ROOT / ".cache" / "site-pages"
ELSEWHERE = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security-policy.md",
    "deploy/README.md": "deploy.md",
    "demo_model/toolgate_demo_model/weights/README.md": "demo-model.md",
}
"""Pages that are not in docs/, and their places in the site."""
COPIED = (".md", ".json", ".svg", ".png", ".txt")
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)#\s]*)(#[^)\s]*)?\)")
CODE = re.compile(r"^(```|~~~).*?^\1", re.M | re.S)
REPOSITORY = os.environ.get("TOOLGATE_REPOSITORY", "").rstrip("/")


def sources() -> dict[Path, Path]:
    """Place in the site by file. Both relative: to the repository and to the site."""
    docs = {
        path.relative_to(ROOT): path.relative_to(ROOT / "docs")
        for path in sorted((ROOT / "docs").rglob("*"))
        if path.suffix in COPIED
    }
    others = {Path(name): Path(place) for name, place in ELSEWHERE.items()}
    return docs | others


def page(source: Path, places: dict[Path, Path]) -> str:
    """Return the text of a page with the links of its place."""
    text = (ROOT / source).read_text(encoding="utf-8")

    def link(match: re.Match[str]) -> str:
        image, label, target, anchor = match.groups()
        if not target or "://" in target or target.startswith("mailto:"):
            return match[0]
        file = Path(os.path.normpath(source.parent / target))
        if file in places:
            to = os.path.relpath(places[file], places[source].parent)
            return f"{image}[{label}]({to}{anchor or ''})"
        if REPOSITORY:
            return f"{image}[{label}]({REPOSITORY}/{file}{anchor or ''})"
        return label

    parts, at = [], 0
    for code in CODE.finditer(text):
        parts += [LINK.sub(link, text[at : code.start()]), code[0]]
        at = code.end()
    return "".join([*parts, LINK.sub(link, text[at:])])


def collect() -> None:
    shutil.rmtree(TARGET, ignore_errors=True)
    places = sources()
    for source, place in places.items():
        target = TARGET / place
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix == ".md":
            target.write_text(page(source, places), encoding="utf-8")
        else:
            shutil.copy(ROOT / source, target)
    (TARGET / "llms.txt").write_text(llms.document(ELSEWHERE), encoding="utf-8")
    print(f"wrote {len(places)} files to {TARGET.relative_to(ROOT)}")


if __name__ == "__main__":
    collect()
