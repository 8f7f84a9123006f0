"""The site: its navigation and the links of its pages, without building it."""

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"\]\(([^)#\s:]+)(?:#[^)\s]*)?\)")


@pytest.fixture
def pages(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    import site_pages

    return site_pages


def nav():
    def places(entry):
        if isinstance(entry, str):
            return [entry]
        values = entry.values() if isinstance(entry, dict) else entry
        return [place for value in values for place in places(value)]

    return places(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"])


def test_every_page_of_the_navigation_exists(pages):
    places = {str(place) for place in pages.sources().values()}
    assert set(nav()) <= places
    assert len(nav()) == len(set(nav()))


def test_links_of_the_site_lead_to_its_pages(pages):
    places = pages.sources()
    known = {Path(place) for place in places.values()}
    checked = 0
    for source, place in places.items():
        if source.suffix == ".md":
            text = pages.CODE.sub("", pages.page(source, places))
            for target in LINK.findall(text):
                checked += 1
                found = Path((place.parent / target).as_posix())
                assert Path(*_normal(found)) in known, f"{source}: {target}"
    assert checked > 100


def _normal(path):
    parts = []
    for part in path.parts:
        if part == "..":
            parts.pop()
        else:
            parts.append(part)
    return parts


def test_llms_txt_has_a_summary_of_each_page(pages):
    text = pages.llms_text()
    assert text.startswith("# Toolgate\n\n> ")
    entries = re.findall(r"^- \[(.+?)\]\((.+?)\): (.+)$", text, re.M)
    assert {place for _, place, _ in entries} == set(nav()) - {"index.md"}
    assert all(len(summary) > 20 for _, _, summary in entries), entries
