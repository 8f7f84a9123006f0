"""Cases of sampling, stop and length parameters."""

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
    rejected,
)
from bench.surface.probe import ChatResponse, Send

A, B = "300", "301"
"""Two ordinary token ids in any byte-level vocabulary."""
TWO = {A: 100, B: 100}


def cases(end_bias: dict[str, float]) -> list[Case]:
    """`end_bias` is a logit_bias that makes the model end its turn at once."""
    soon: Body = {"logit_bias": end_bias}
    return [*_shape(), *_penalties(), *_lengths(soon), *_stops(), *_tokens(), *_choices()]


def _shape() -> list[Case]:
    as_greedy = equals(GREEDY)
    return [
        Case("temperature", "0", greedy(), _differs_from_seed_5),
        Case("temperature", "2", plain(temperature=2), None),
        *rejected("temperature", *given("temperature", -1, "hot", True)),
        Case("top_p", "0.000001", plain(top_p=1e-6), as_greedy),
        Case("top_p", "1", plain(top_p=1), equals(plain())),
        *rejected("top_p", *given("top_p", 0, 1.5, "x")),
        Case("top_k", "1", plain(top_k=1), as_greedy),
        Case("top_k", "0", plain(top_k=0), equals(plain())),
        Case("top_k", "-1", plain(top_k=-1), equals(plain())),
        *rejected("top_k", *given("top_k", -2, 1.5, "x")),
        Case("min_p", "1", plain(min_p=1), as_greedy),
        *rejected("min_p", *given("min_p", -0.1, 1.5)),
        Case("seed", "11", plain(seed=11), _repeatable),
        Case("seed", "-1", plain(seed=-1), _differs_from_seed_5),
        Case("seed", "2⁶³-1", plain(seed=2**63 - 1), _differs_from_seed_5),
        *rejected("seed", *given("seed", 2**64, "x", 1.5)),
    ]


def _penalties() -> list[Case]:
    base: Body = {"temperature": 0, "logit_bias": TWO}
    return [
        Case("frequency_penalty", "2", plain(**base, frequency_penalty=2), differs(**base)),
        Case("presence_penalty", "2", plain(**base, presence_penalty=2), differs(**base)),
        Case("repetition_penalty", "1.5", plain(**base, repetition_penalty=1.5), differs(**base)),
        *rejected("frequency_penalty", *given("frequency_penalty", 2.5, -3, "x")),
        *rejected("presence_penalty", *given("presence_penalty", 2.5, -3, "x")),
        *rejected("repetition_penalty", *given("repetition_penalty", 0, -1, "x")),
    ]


def _lengths(soon: Body) -> list[Case]:
    def reaches(tokens: int) -> Effect:
        return lambda send, response: response.completion >= tokens > send(plain(**soon)).completion

    def five(_: Send, response: ChatResponse) -> bool:
        return response.completion == 5 and response.choices[0].finish == "length"

    return [
        Case("max_tokens", "5", plain(max_tokens=5), five),
        *rejected("max_tokens", *given("max_tokens", 0, -1, 10**6, "x", 1.5)),
        Case("max_completion_tokens", "5", plain(max_completion_tokens=5), five),
        *rejected("max_completion_tokens", *given("max_completion_tokens", 0, "x")),
        Case("min_tokens", "10", plain(**soon, min_tokens=10), reaches(10)),
        *rejected("min_tokens", *given("min_tokens", -1, 25, "x")),
        Case("ignore_eos", "true", plain(**soon, ignore_eos=True), reaches(24)),
        *rejected("ignore_eos", *given("ignore_eos", 3)),
    ]


def _stops() -> list[Case]:
    def stop(*, listed: bool = False, more: tuple[str, ...] = ()) -> Any:
        def body(send: Send) -> Body:
            text = _some(send(plain()).text)
            return plain(stop=[text, *more] if listed else text)

        return body

    def ended(send: Send, response: ChatResponse) -> bool:
        full = send(plain()).text
        choice = response.choices[0]
        right = choice.content == full[: full.find(_some(full))]
        return right and (choice.finish, choice.stop_reason) == ("stop", _some(full))

    def included(send: Send) -> Body:
        return plain(stop=_some(send(plain()).text), include_stop_str_in_output=True)

    def stopped_by_id(send: Send) -> Body:
        return plain(stop_token_ids=[_third(send)])

    seventeen = tuple(f"stop {at}" for at in range(16))
    return [
        Case("stop", "a string", stop(), ended),
        Case("stop", "a list", stop(listed=True), ended),
        Case("stop", "17 strings", stop(listed=True, more=seventeen), ended),
        Case("stop", "[]", plain(stop=[]), equals(plain())),
        *rejected("stop", *given("stop", "", [""], [1], 7)),
        Case(
            "include_stop_str_in_output",
            "true",
            included,
            lambda send, response: response.text.endswith(_some(send(plain()).text)),
        ),
        Case(
            "stop_token_ids",
            "the third token",
            stopped_by_id,
            lambda send, response: response.choices[0].stop_reason == _third(send),
        ),
        *rejected("stop_token_ids", *given("stop_token_ids", [-1], ["x"], [10**9], 3)),
    ]


def _tokens() -> list[Case]:
    only: Effect = lambda send, response: len(set(_ids(send, response))) == 1  # noqa: E731
    return [
        Case(
            "logit_bias",
            "one token at 100",
            plain(logit_bias={A: 100}, return_token_ids=True),
            only,
        ),
        *rejected(
            "logit_bias", *given("logit_bias", {A: 101}, {"99999999": 1}, {"x": 1}, {A: "x"}, [1])
        ),
        Case("bad_words", "the next word", _banned, _not_banned),
        *rejected("bad_words", *given("bad_words", [""], "the", [3])),
        Case(
            "allowed_token_ids",
            "two tokens",
            plain(allowed_token_ids=[int(A), int(B)], return_token_ids=True),
            lambda send, response: set(_ids(send, response)) <= {int(A), int(B)},
        ),
        *rejected("allowed_token_ids", *given("allowed_token_ids", [], [10**9], ["x"])),
        Case(
            "repetition_detection",
            "a token four times",
            plain(
                logit_bias={A: 100},
                repetition_detection={"max_pattern_size": 2, "min_pattern_size": 1, "min_count": 4},
            ),
            lambda _, response: 0 < response.completion < 24,
        ),
        *rejected("repetition_detection", *given("repetition_detection", {"min_count": -1}, 3)),
        Case("use_beam_search", "true", plain(use_beam_search=True, n=2), _two),
        Case("length_penalty", "1", plain(length_penalty=1.0), equals(plain())),
        Case("watermarking", "true", plain(watermarking=True), differs()),
    ]


def _choices() -> list[Case]:
    return [
        Case("n", "2", plain(n=2), _two),
        Case("n", "2, at temperature 0", greedy(n=2), _two),
        Case(
            "n", "128", plain(n=128, max_tokens=2), lambda _, response: len(response.choices) == 128
        ),
        *rejected("n", *given("n", 0, -1, 1.5, "x")),
        Case("best_of", "2", plain(best_of=2), lambda *_: False),
    ]


def _differs_from_seed_5(send: Send, response: ChatResponse) -> bool:
    """The text differs from that of the plain request with another seed."""
    return bool(response.text) and response.text != send(plain(seed=5)).text


def _repeatable(send: Send, response: ChatResponse) -> bool:
    return response.text == send(plain(seed=11), again=True).text != send(plain(seed=12)).text


def _two(_: Send, response: ChatResponse) -> bool:
    return len(response.choices) == 2 and all(choice.finish for choice in response.choices)


def _some(text: str) -> str:
    """Two characters from the middle of `text`."""
    at = len(text) // 2
    return text[at : at + 2]


def _ids(send: Send, response: ChatResponse) -> list[int]:
    return response.choices[0].token_ids or [-1, -2, -3]


def _third(send: Send) -> int:
    ids = send(plain(return_token_ids=True)).choices[0].token_ids
    return ids[2] if len(ids) > 2 else 5


def _banned(send: Send) -> Body:
    word = send(plain(logit_bias={A: 100}, max_tokens=1)).text
    return plain(logit_bias={A: 100}, bad_words=[word.strip() or word])


def _not_banned(send: Send, response: ChatResponse) -> bool:
    return bool(response.text) and response.text[:1] != send(plain(logit_bias={A: 100})).text[:1]
