"""Documents match the code and each other: generated pages, names of files, programs and models,
promises and their tests, the site, and the recording of the demo."""

import ast
import os
import re
import subprocess
import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

from bench.__main__ import BENCHMARKS
from tests.long.__main__ import CHECKS
from toolgate_core.dialects.registry import DIALECTS, PLAIN

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


CHECK = """
import runpy, sys
sys.argv[1:], sys.path[:0], stale = ["--check"], ["scripts"], []
for script in sys.stdin.read().split():
    try:
        runpy.run_path(f"scripts/{script}", run_name="__main__")
    except SystemExit as ended:
        stale += [script] * bool(ended.code)
sys.exit(" ".join(stale) or 0)
"""


def test_generated_documents_are_current():
    names = "\n".join(sorted(path.name for path in ROOT.glob("scripts/*_doc.py")))
    command = [sys.executable, "-c", CHECK]
    run = subprocess.run(command, cwd=ROOT, input=names, text=True, capture_output=True)
    assert run.returncode == 0, f"run `make docs`: {run.stderr}"


def test_make_docs_runs_every_generator():
    makefile = (ROOT / "Makefile").read_text()
    missing = [
        path.name
        for path in ROOT.glob("scripts/*_doc.py")
        if f"python scripts/{path.name}\n" not in makefile
    ]
    assert not missing


PAGES = sorted([*DOCS.rglob("*.md"), ROOT / "README.md"])
PATHS = re.compile(r"`((?:[a-z_]+/)+[a-z_]+\.(?:py|lua|sh|yaml))`")
LINKS = re.compile(r"\]\(([^)#:\s]+)(#[^)\s]*)?\)")
PROGRAMS = {"bench": BENCHMARKS, "tests.long": CHECKS}
COMMANDS = re.compile(r"python -m (bench|tests\.long) ([a-z][a-z-]*)")
PACKAGES = [ROOT / name / f"toolgate_{name}" for name in ("core", "proxy", "backend", "verify")]
PARENTS = [ROOT, ROOT / "tests", *PACKAGES, *(package.parent for package in PACKAGES)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_and_pages_that_the_documentation_names_exist(page):
    text = page.read_text()
    named = {path for path in PATHS.findall(text) if "/" in path}
    assert not [path for path in named if not any((each / path).exists() for each in PARENTS)]
    linked = {path for path, _ in LINKS.findall(text)}
    assert not [path for path in linked if not (page.parent / path).exists()]


@pytest.mark.parametrize(
    "page",
    [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "deploy" / "README.md"],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_programs_that_the_documentation_names_exist(page):
    named = COMMANDS.findall(page.read_text())
    assert not [name for package, name in named if name not in PROGRAMS[package]]


def script(name):
    @pytest.fixture
    def module(monkeypatch):
        monkeypatch.syspath_prepend(str(ROOT / "scripts"))
        return import_module(name)

    return module


NAMES = ("families_doc", "site_pages", "record_demo", "clients_table")
generator, pages, recorder, clients = map(script, NAMES)


def test_document_has_a_line_for_every_dialect_with_calls(generator):
    expected = {name: each for name, each in DIALECTS.items() if each.calls}
    lines = dict(re.findall(r"^- `(\w+)`: (.+)$", generator.document({}), re.M))
    assert set(lines) == set(expected)
    for name, dialect in expected.items():
        assert lines[name].startswith(", ".join(dialect.models))
        for limit in dialect.all_limits:
            shown = limit.replace("A string value cannot contain", "Excluded:")
            assert shown in lines[name]


def test_document_has_a_call_of_every_shape(generator):
    document = generator.document({})
    shapes = {each.shape for each in DIALECTS.values() if each.calls and each.shape}
    assert len(shapes) > 5
    for shape in shapes:
        section = document.partition(f"## Shape {shape}\n")[2].partition("\n## ")[0]
        text = section.split("````")[1].removeprefix("text\n").strip()
        calls = [each for each in DIALECTS.values() if each.shape == shape]
        assert any(text == golden.text.strip() for each in calls for golden in each.goldens)


def test_measurements_are_summed_over_the_dialects(generator):
    assert "## Measurements" not in generator.document({})
    walked = {"walks": 1200, "calls": 1500, "invalid": 0, "splits": 6000, "differ": 0}
    measured = {
        "qwen3": walked | {"text_differ": 2},
        "glm45": walked,
        "hermes": walked,
        "removed": walked,
    }
    text = generator.document(measured).partition("## Measurements")[2]
    section = " ".join(text.split())
    assert "Of 3,600 walks with 4,500 calls in 3 dialects, 0 calls violate" in section
    assert "0 of 18,000 split readings differ" in section
    assert "finds other calls in 2." in section


PROMISES = yaml.safe_load((Path(__file__).parent / "promises.yaml").read_text())
CASES = [
    pytest.param(page, row["says"], row["tests"], id=row["says"][:50])
    for page, rows in PROMISES.items()
    for row in rows
]


@cache
def names_in(path):
    return {getattr(node, "name", "") for node in ast.parse((ROOT / path).read_text()).body}


def exists(test):
    path, _, name = test.partition("::")
    return (ROOT / path).exists() and (not name or name in names_in(path))


@pytest.mark.parametrize(("page", "says", "tests"), CASES)
def test_a_promise_is_in_its_document_and_its_tests_exist(page, says, tests):
    assert says in (ROOT / page).read_text()
    assert tests
    assert [test for test in tests if not exists(test)] == []


def test_tests_that_the_page_about_reliability_names_exist():
    page = (ROOT / "docs" / "reference" / "reliability.md").read_text()
    named = re.findall(r"`((?:backend|core|gateway|proxy)/[\w/.]+)`", page)
    assert len(named) > 20
    assert [name for name in named if not (ROOT / "tests" / name).exists()] == []


README = (ROOT / "README.md").read_text(encoding="utf-8")
CLIENTS = ROOT / "docs" / "guide" / "clients.md"
MAX_LINES = 95


def section(text, title):
    return text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def test_every_client_has_a_program_that_a_test_runs():
    tests = "\n".join(
        path.read_text()
        for folder in ("gateway", "proxy/process")
        for path in (ROOT / "tests" / folder).rglob("test_*.py")
    )
    page = section(CLIENTS.read_text(encoding="utf-8"), "SDKs").partition("\nSome libraries")[0]
    rows = [line for line in page.splitlines() if line.startswith("- ")]
    assert len(rows) > 8
    for row in rows:
        linked = [ROOT / path for path in re.findall(r"\]\(\.\./\.\./(tests/[^)]+)\)", row)]
        assert linked, row
        for path in linked:
            assert path.exists()
            assert path.name.startswith("test_") or f'"{path.name}"' in tests, path.name


def test_the_number_of_dialects_is_that_of_the_registry():
    [number] = re.findall(r"\[(\d+) dialects\]", section(README, "Models"))
    assert int(number) == len(DIALECTS.keys() - {PLAIN.name})


def test_models_are_those_of_dialects():
    named = " ".join(model for dialect in DIALECTS.values() for model in dialect.models)
    listed = section(README, "Models").partition("among them:")[2]
    models = [model.strip() for model in listed.strip().rstrip(".").split(",")]
    assert len(models) > 15
    assert not [model for model in models if model not in named]


def test_the_table_of_clients_has_the_versions_that_tests_pin(clients):
    rows = dict(re.findall(r"^\| (.+) \| ([\d.]+) \| \d+/\d+ \|$", README, re.M))
    pins = {name: clients.version(*pin) for name, *pin, _ in clients.ROWS.findall(clients.CLIENTS)}
    assert rows
    assert rows.items() <= pins.items()


def test_the_readme_is_short():
    assert README.count("\n") <= MAX_LINES


LINK = re.compile(r"\]\(([^)#\s:]+)(?:#[^)\s]*)?\)")


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
                found = Path(os.path.normpath(place.parent / target))
                assert found in known, f"{source}: {target}"
    assert checked > 100


def test_llms_txt_has_a_summary_of_each_page(pages):
    text = pages.llms_text()
    assert text.startswith("# Toolgate\n\n> ")
    entries = re.findall(r"^- \[(.+?)\]\((.+?)\): (.+)$", text, re.M)
    assert {place for _, place, _ in entries} == set(nav()) - {"index.md"}
    assert all(len(summary) > 20 for _, _, summary in entries), entries


SVG = "{http://www.w3.org/2000/svg}"


def shown(svg):
    root = ElementTree.fromstring(svg)
    return ["".join(text.itertext()) for text in root.iter(f"{SVG}text")]


def test_the_picture_shows_the_printed_lines_in_their_colours(recorder):
    lines = ["\x1b[1mtitle\x1b[0m", "", "  \x1b[32m✓\x1b[0m <valid> & done", "\x1b[31m✗\x1b[0m no"]
    printed = [recorder.Printed(line, float(at)) for at, line in enumerate(lines)]
    svg = recorder.picture(printed)
    assert shown(svg) == ["$ make demo", "title", "  ✓ <valid> & done", "✗ no"]
    classes = re.findall(r'class="([a-z ]+)">([^<]*)<', svg)
    assert {("bold", "title"), ("green", "✓"), ("red", "✗")} <= set(classes)


def test_lines_appear_in_the_order_in_which_they_were_printed(recorder):
    printed = [recorder.Printed(f"line {at}", at * 40.0) for at in range(60)]
    frames = re.findall(
        r"([\d.]+)%\{transform:translateY\((-?\d+)px\)\}", recorder.picture(printed)
    )
    times, offsets = [float(time) for time, _ in frames], [int(offset) for _, offset in frames]
    assert times == sorted(set(times))
    assert offsets == sorted(offsets, reverse=True)
    assert len(frames) == 62, "the empty screen, the command and each line"
    assert times[-1] < 100, "the end is shown for a while"


def test_what_a_terminal_replaces_is_not_recorded(recorder):
    progress = "\x1b[32m⠋\x1b[0m starting backend 3 s\r\x1b[2K✓ backend ready"
    assert recorder.visible(progress) == "✓ backend ready"
    assert recorder.is_shown(progress)
    assert not recorder.is_shown("starting; to load the model")
    assert not recorder.is_shown("logs: /tmp/run-1/logs")


def test_the_recording_of_the_readme_is_complete_and_refers_to_no_other_host():
    path = ROOT / "docs" / "guide" / "demo.svg"
    svg = path.read_text(encoding="utf-8")
    assert path.stat().st_size < 200_000
    assert not re.findall(r"(?:href|src)=|url\(|@import|<script", svg)
    text = "\n".join(shown(svg))
    assert "✗ alone" in text
    [alone, every, enforced] = re.findall(
        r"alone (\d+)/(\d+) valid · Toolgate (\d+)/\2 valid", text
    )[0]
    assert int(alone) < int(enforced) == int(every)
    assert "docs/guide/demo.svg" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_transcript_has_the_same_run_as_the_recording():
    svg = shown((ROOT / "docs" / "guide" / "demo.svg").read_text(encoding="utf-8"))
    transcript = (ROOT / "docs" / "guide" / "demo.txt").read_text(encoding="utf-8")
    missing = [line for line in svg[1:] if line.rstrip() not in transcript]
    assert not missing
