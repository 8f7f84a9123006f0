"""The recording of the demo: an SVG that needs nothing else, and shows what was printed."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[1]
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def recorder(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    import record_demo

    return record_demo


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
    assert not recorder.is_shown("⠋ starting backend (vLLM) 3 s")
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
