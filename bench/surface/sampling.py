"""Cases of the parameters that sample and end an answer."""

from typing import Any

from bench.surface.cases import (
    GREEDY,
    Body,
    Case,
    Effect,
    differs,
    equals,
    given,
    greedy,
    plain,
    refused,
)
from bench.surface.probe import AdmissionRequest, Seen

A, B = "300", "301"
"""Two ordinary tokens of any byte-level vocabulary."""
TWO = {A: 100, B: 100}


def cases(bias_of_end: dict[str, float]) -> list[Case]:
    """`bias_of_end` makes the model end its turn at once."""
    soon: Body = {"logit_bias": bias_of_end}
    return [*_shape(), *_penalties(), *_lengths(soon), *_stops(), *_tokens(), *_choices()]


def _shape() -> list[Case]:
    as_greedy = equals(GREEDY)
    return [
        Case("temperature", "0", greedy(), _twice),
        Case("temperature", "2", plain(temperature=2), None),
        *refused("temperature", *given("temperature", -1, "hot", True)),
        Case("top_p", "0.000001", plain(top_p=1e-6), as_greedy),
        Case("top_p", "1", plain(top_p=1), equals(plain())),
        *refused("top_p", *given("top_p", 0, 1.5, "x")),
        Case("top_k", "1", plain(top_k=1), as_greedy),
        Case("top_k", "0", plain(top_k=0), equals(plain())),
        Case("top_k", "-1", plain(top_k=-1), equals(plain())),
        *refused("top_k", *given("top_k", -2, 1.5, "x")),
        Case("min_p", "1", plain(min_p=1), as_greedy),
        *refused("min_p", *given("min_p", -0.1, 1.5)),
        Case("seed", "11", plain(seed=11), _seeded),
        Case("seed", "-1", plain(seed=-1), _twice),
        Case("seed", "2⁶³-1", plain(seed=2**63 - 1), _twice),
        *refused("seed", *given("seed", 2**64, "x", 1.5)),
    ]


def _penalties() -> list[Case]:
    base: Body = {"temperature": 0, "logit_bias": TWO}
    return [
        Case("frequency_penalty", "2", plain(**base, frequency_penalty=2), differs(**base)),
        Case("presence_penalty", "2", plain(**base, presence_penalty=2), differs(**base)),
        Case("repetition_penalty", "1.5", plain(**base, repetition_penalty=1.5), differs(**base)),
        *refused("frequency_penalty", *given("frequency_penalty", 2.5, -3, "x")),
        *refused("presence_penalty", *given("presence_penalty", 2.5, -3, "x")),
        *refused("repetition_penalty", *given("repetition_penalty", 0, -1, "x")),
    ]


def _lengths(soon: Body) -> list[Case]:
    def reaches(tokens: int) -> Effect:
        return lambda ask, seen: seen.completion >= tokens > ask(plain(**soon)).completion

    five: Effect = lambda _, seen: seen.completion == 5 and seen.choices[0].finish == "length"  # noqa: E731
    return [
        Case("max_tokens", "5", plain(max_tokens=5), five),
        *refused("max_tokens", *given("max_tokens", 0, -1, 10**6, "x", 1.5)),
        Case("max_completion_tokens", "5", plain(max_completion_tokens=5), five),
        *refused("max_completion_tokens", *given("max_completion_tokens", 0, "x")),
        Case("min_tokens", "10", plain(**soon, min_tokens=10), reaches(10)),
        *refused("min_tokens", *given("min_tokens", -1, 25, "x")),
        Case("ignore_eos", "true", plain(**soon, ignore_eos=True), reaches(24)),
        *refused("ignore_eos", *given("ignore_eos", 3)),
    ]


def _stops() -> list[Case]:
    def stop(*, listed: bool = False, more: tuple[str, ...] = ()) -> Any:
        def body(ask: AdmissionRequest) -> Body:
            text = _some(ask(plain()).text)
            return plain(stop=[text, *more] if listed else text)

        return body

    def ended(ask: AdmissionRequest, seen: Seen) -> bool:
        full = ask(plain()).text
        choice = seen.choices[0]
        right = choice.content == full[: full.find(_some(full))]
        return right and (choice.finish, choice.stop_reason) == ("stop", _some(full))

    def included(ask: AdmissionRequest) -> Body:
        return plain(stop=_some(ask(plain()).text), include_stop_str_in_output=True)

    def stopped_by_id(ask: AdmissionRequest) -> Body:
        return plain(stop_token_ids=[_third(ask)])

    seventeen = tuple(f"stop {at}" for at in range(16))
    return [
        Case("stop", "a string", stop(), ended),
        Case("stop", "a list", stop(listed=True), ended),
        Case("stop", "17 strings", stop(listed=True, more=seventeen), ended),
        Case("stop", "[]", plain(stop=[]), equals(plain())),
        *refused("stop", *given("stop", "", [""], [1], 7)),
        Case(
            "include_stop_str_in_output",
            "true",
            included,
            lambda ask, seen: seen.text.endswith(_some(ask(plain()).text)),
        ),
        Case(
            "stop_token_ids",
            "the third token",
            stopped_by_id,
            lambda ask, seen: seen.choices[0].stop_reason == _third(ask),
        ),
        *refused("stop_token_ids", *given("stop_token_ids", [-1], ["x"], [10**9], 3)),
    ]


def _tokens() -> list[Case]:
    only: Effect = lambda ask, seen: len(set(_ids(ask, seen))) == 1  # noqa: E731
    return [
        Case(
            "logit_bias",
            "one token at 100",
            plain(logit_bias={A: 100}, return_token_ids=True),
            only,
        ),
        *refused(
            "logit_bias", *given("logit_bias", {A: 101}, {"99999999": 1}, {"x": 1}, {A: "x"}, [1])
        ),
        Case("bad_words", "what would come", _banned, _not_banned),
        *refused("bad_words", *given("bad_words", [""], "the", [3])),
        Case(
            "allowed_token_ids",
            "two tokens",
            plain(allowed_token_ids=[int(A), int(B)], return_token_ids=True),
            lambda ask, seen: set(_ids(ask, seen)) <= {int(A), int(B)},
        ),
        *refused("allowed_token_ids", *given("allowed_token_ids", [], [10**9], ["x"])),
        Case(
            "repetition_detection",
            "a token four times",
            plain(
                logit_bias={A: 100},
                repetition_detection={"max_pattern_size": 2, "min_pattern_size": 1, "min_count": 4},
            ),
            lambda _, seen: 0 < seen.completion < 24,
        ),
        *refused("repetition_detection", *given("repetition_detection", {"min_count": -1}, 3)),
        Case("use_beam_search", "true", plain(use_beam_search=True, n=2), _two),
        Case("length_penalty", "1", plain(length_penalty=1.0), equals(plain())),
        Case("watermarking", "true", plain(watermarking=True), differs()),
    ]


def _choices() -> list[Case]:
    return [
        Case("n", "2", plain(n=2), _two),
        Case("n", "2, at temperature 0", greedy(n=2), _two),
        Case("n", "128", plain(n=128, max_tokens=2), lambda _, seen: len(seen.choices) == 128),
        *refused("n", *given("n", 0, -1, 1.5, "x")),
        Case("best_of", "2", plain(best_of=2), lambda *_: False),
    ]


def _twice(ask: AdmissionRequest, seen: Seen) -> bool:
    """Sent once more, the same comes, and it is not what the plain request gets."""
    return bool(seen.text) and seen.text != ask(plain(seed=5)).text


def _seeded(ask: AdmissionRequest, seen: Seen) -> bool:
    return seen.text == ask(plain(seed=11), again=True).text != ask(plain(seed=12)).text


def _two(_: AdmissionRequest, seen: Seen) -> bool:
    return len(seen.choices) == 2 and all(choice.finish for choice in seen.choices)


def _some(text: str) -> str:
    """Two characters out of the middle of it."""
    at = len(text) // 2
    return text[at : at + 2]


def _ids(ask: AdmissionRequest, seen: Seen) -> list[int]:
    return seen.choices[0].token_ids or [-1, -2, -3]


def _third(ask: AdmissionRequest) -> int:
    ids = ask(plain(return_token_ids=True)).choices[0].token_ids
    return ids[2] if len(ids) > 2 else 5


def _banned(ask: AdmissionRequest) -> Body:
    word = ask(plain(logit_bias={A: 100}, max_tokens=1)).text
    return plain(logit_bias={A: 100}, bad_words=[word.strip() or word])


def _not_banned(ask: AdmissionRequest, seen: Seen) -> bool:
    return bool(seen.text) and seen.text[:1] != ask(plain(logit_bias={A: 100})).text[:1]
