from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from toolgate_core.deltas import ArgumentsDelta, ContentDelta, Finish, ReasoningDelta
from toolgate_core.segmenter import StopStrings


def shown(stops: list[str], pieces: list[str]) -> tuple[str, str | None]:
    stop = StopStrings(stops)
    events = [e for piece in pieces for e in stop.filter([ContentDelta(piece)])]
    events += stop.filter([Finish("stop")])
    return "".join(e.text for e in events if isinstance(e, ContentDelta)), stop.hit


def test_the_first_complete_stop_string_ends_the_content() -> None:
    assert shown(["END", "E"], ["a", "E", "ND b"]) == ("a", "E")


def test_a_stop_string_split_over_deltas_is_found() -> None:
    assert shown(["\n\nUser:"], ["hi\n", "\nUs", "er: x"]) == ("hi", "\n\nUser:")


def test_a_partial_stop_string_is_released_as_content() -> None:
    assert shown(["END"], ["E", "N", "d"]) == ("ENd", None)


def test_stop_strings_in_reasoning_and_arguments_are_ignored() -> None:
    events = [ReasoningDelta("END"), ArgumentsDelta(0, "END")]
    stop = StopStrings(["END"])
    assert stop.filter(events) == events
    assert stop.hit is None


@given(
    st.text(alphabet="ab", max_size=20),
    st.lists(st.text(alphabet="ab", min_size=1, max_size=3), min_size=1, max_size=3),
    st.lists(st.integers(0, 20), max_size=6),
)
def test_any_split_of_the_content_stops_at_the_same_place(
    text: str, stops: list[str], cuts: list[int]
) -> None:
    bounds = [0, *sorted(min(c, len(text)) for c in cuts), len(text)]
    pieces = [text[a:b] for a, b in pairwise(bounds)]
    assert shown(stops, pieces)[0] == shown(stops, list(text))[0]
