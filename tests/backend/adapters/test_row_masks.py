"""Rows of masks: as logits keep them, and in the steps of an engine."""

import gc
import random

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.effort import repeats, rotating
from toolgate_backend.adapters import step_masks
from toolgate_backend.adapters.apply_masks import ListedMasks, make_applier
from toolgate_backend.adapters.step_masks import StepMasks
from toolgate_backend.enforcement.mask_time_budget import MAX_SLOW, TIMED_STEPS
from toolgate_backend.tokens import masks
from toolgate_backend.tokens.masks import FEW_WORDS, Row, Rows, unpack, words_per_row

# --- apply masks ---
VOCABULARY = 100  # no multiple of 32: the last word has bits that are no token's
SLOTS = 3
tokens = st.sets(st.integers(0, VOCABULARY - 1), min_size=1)
DEVICES = ["cpu", "interpreted", *(["cuda"] if torch.cuda.is_available() else [])]


def make_row(allowed, *, beyond=False, size=VOCABULARY):
    words = masks.pack(masks.token_ids(allowed), size)
    if beyond:
        words[-1] |= np.int32(np.uint32(0x70000000))  # beyond the vocabulary
    return Row(words.tobytes())


@rotating("target", [("cuda", 80, 32), ("cuda", 90, 32), ("hip", "gfx942", 64)], one_in=3)
def test_the_kernel_compiles_for_gpus(target):
    """Which needs none."""
    triton = pytest.importorskip("triton")
    from triton.backends.compiler import GPUTarget

    from toolgate_backend.adapters import device_masks

    integers = dict.fromkeys(("width", "stride", "words", "count"), "i32")
    signature = integers | {"logits": "*fp32", "table": "*i32", "numbers": "*i32"}
    names = device_masks.mask_rows.arg_names
    signature = {name: signature.get(name, "constexpr") for name in names}
    source = triton.compiler.ASTSource(
        device_masks.mask_rows, signature, {"BLOCK": device_masks.BLOCK}
    )
    assert triton.compile(source, target=GPUTarget(*target)).kernel


@pytest.fixture(scope="module", params=DEVICES)
def applier(request):
    """One for all examples: what it keeps must not leak into others. `interpreted` is the
    application for GPUs on a CPU, with few slots."""
    if request.param != "interpreted":
        yield make_applier(torch.device(request.param), VOCABULARY, pin_memory=True)
        return
    interpreter = pytest.importorskip("triton.runtime.interpreter")
    from toolgate_backend.adapters import device_masks

    with pytest.MonkeyPatch.context() as patch:
        kernel = interpreter.InterpretedFunction(device_masks.mask_rows.fn)
        patch.setattr(device_masks, "mask_rows", kernel)
        patch.setattr(device_masks, "BLOCK", 64)
        yield device_masks.DeviceMasks(torch.device("cpu"), VOCABULARY, slots=SLOTS)


def device_of(applier):
    return getattr(applier, "_device", torch.device("cpu"))


@pytest.mark.exhaustive
@settings(
    max_examples=repeats(30, nightly=200),
    suppress_health_check=[HealthCheck.differing_executors],
    deadline=None,
)
@given(
    st.lists(st.tuples(tokens, st.booleans()), min_size=1, max_size=6),
    st.lists(st.integers(0, 5), max_size=8),
    st.randoms(use_true_random=False),
)
def test_each_sequence_keeps_the_logits_that_its_row_allows(applier, kinds, picks, rng):
    made = [(make_row(allowed, beyond=beyond), allowed) for allowed, beyond in kinds]
    given_rows = [made[pick % len(made)] for pick in picks]
    count = len(given_rows) + 1
    indices = list(range(count))
    rng.shuffle(indices)
    *indices, free = indices
    before = torch.rand(count, VOCABULARY, device=device_of(applier))
    after = before.clone()
    applier.apply(after, indices, [row for row, _ in given_rows])
    assert after[free].equal(before[free])
    for index, (_, allowed) in zip(indices, given_rows, strict=True):
        left = set(torch.nonzero(after[index] > float("-inf")).flatten().tolist())
        assert left == allowed
        if len(allowed) > 1:
            kept = sorted(allowed)
            assert after[index, kept].equal(before[index, kept])


def test_rows_that_were_replaced_return(applier):
    """More rows than the table has slots, in one step and over several."""
    rows = [make_row({number, number + 1}) for number in range(3 * SLOTS)]
    for order in (rows, rows[:2], rows[::-1], rows[1:4], rows):
        logits = torch.zeros(len(order), VOCABULARY, device=device_of(applier))
        applier.apply(logits, range(len(order)), order)
        for row, left in zip(order, logits, strict=True):
            assert torch.nonzero(left == 0).flatten().tolist() == masks.unpack(row.words).tolist()


@pytest.mark.parametrize("beyond", [False, True])
@pytest.mark.parametrize("token", [7, VOCABULARY - 1])
def test_a_single_allowed_token_is_forced_whatever_its_logit(applier, token, beyond):
    logits = torch.full((2, VOCABULARY), float("-inf"), device=device_of(applier))
    applier.apply(logits, [1], [make_row({token}, beyond=beyond)])
    assert torch.nonzero(logits > float("-inf")).tolist() == [[1, token]]


def test_several_allowed_tokens_are_not_forced(applier):
    logits = torch.full((1, VOCABULARY), float("-inf"), device=device_of(applier))
    logits[0, 8] = 1.5
    applier.apply(logits, [0], [make_row({7, 8})])
    assert torch.nonzero(logits > float("-inf")).tolist() == [[0, 8]]


def test_lists_are_kept_as_long_as_their_row():
    applier = ListedMasks()
    row = make_row({1, 2})
    applier.apply(torch.zeros(1, VOCABULARY), [0], [row])
    assert len(applier._lists) == 1
    del row
    gc.collect()
    assert not applier._lists


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_nothing_waits_for_the_gpu():
    """A wait would last as long as the forward pass."""
    size = 12_000
    applier = make_applier(torch.device("cuda"), size, pin_memory=True)
    rows = [
        make_row(set(allowed), size=size) for allowed in ([7], [7, 8], range(6000), range(3, size))
    ]
    logits = torch.zeros((len(rows), size), device="cuda")
    torch.cuda.set_sync_debug_mode("error")
    try:
        for first in range(len(rows)):  # new rows in each step
            applier.apply(logits[first:], range(len(rows) - first), rows[first:])
    finally:
        torch.cuda.set_sync_debug_mode("default")


# --- the masks of a step ---
UNTOUCHED = 7
"""Words that no mask has."""


@pytest.fixture
def make(ours):
    return lambda: ours(choice="required")


@pytest.fixture
def step(vocabulary, monkeypatch):
    monkeypatch.setattr(step_masks, "FIRST_ROWS", 2)
    return StepMasks(words_per_row(vocabulary.size), seconds=60.0)


def filled(step, grammars):
    """The masks of a step by sequence."""
    ids, rows = step.fill(grammars)
    assert len(ids) == len(rows) == len(grammars)
    return {each: set(unpack(row).tolist()) for each, row in zip(ids, rows, strict=True)}


def test_each_sequence_has_its_mask_while_others_come_and_go(step, make):
    rng = random.Random(3)
    running = {}
    names = map(str, range(1000))
    for _ in range(60):
        for name in list(running):
            if rng.random() < 0.15:
                del running[name]
        while len(running) < 9 and rng.random() < 0.6:
            running[next(names)] = make()
        scheduled = rng.sample(sorted(running), rng.randint(0, len(running)))
        found = filled(step, {name: running[name] for name in scheduled})
        assert found == {
            name: set(unpack(running[name].next_row().words).tolist()) for name in scheduled
        }
        for name, allowed in found.items():
            assert running[name].accept_tokens(name, [rng.choice(sorted(allowed))])


def test_rows_are_written_only_if_their_mask_changes(step, make, vocabulary):
    call = vocabulary.marks.tokens["<tool_call>"]
    grammars = {name: make() for name in "abc"}
    ids, _ = step.fill(grammars)
    step._bitmask[:] = UNTOUCHED
    assert grammars["b"].accept_tokens("b", [call])
    again, rows = step.fill(dict(reversed(grammars.items())))  # scheduled in another order
    assert again == ids
    assert [bool((row != UNTOUCHED).any()) for row in rows] == [each == "b" for each in ids]


def test_a_sequence_keeps_its_row_when_others_end(step, make):
    grammars = {name: make() for name in "abcd"}
    step.fill(grammars)
    step._bitmask[:] = UNTOUCHED
    del grammars["b"]
    ids, rows = step.fill(grammars)
    assert ids == ["a", "d", "c"]
    assert (rows[[0, 1, 2]] == UNTOUCHED).all()  # the same mask in each
    ids, _ = step.fill({"e": make()} | grammars)
    assert ids == ["a", "d", "c", "e"]


def test_a_row_is_written_over_any_other(vocabulary, make):
    """Rows with few words are written by these, others as a whole."""
    rng, rows = random.Random(5), Rows()
    words = words_per_row(vocabulary.size)
    step, grammar = StepMasks(words, seconds=60.0), make()
    machine = grammar.automaton
    for _ in range(60):
        row = np.zeros(words, np.int32)
        filled = rng.sample(range(words), rng.choice((0, 1, FEW_WORDS, FEW_WORDS + 1, words)))
        row[filled] = [rng.randint(-(2**31), 2**31 - 1) for _ in filled]
        machine.row = rows.row(row)
        _, [written] = step.fill({"a": grammar})
        assert (written == row).all()


def test_an_earlier_order_of_rows_does_not_change(step, make):
    """vLLM has it already."""
    grammars = {name: make() for name in "ab"}
    ids, _ = step.fill(grammars)
    step.fill({"c": make()})
    assert ids == ["a", "b"]


def test_a_failing_sequence_does_not_affect_others(step, make, vocabulary):
    grammars = {name: make() for name in "abc"}
    machine = grammars["b"].automaton
    machine.row, machine.next_row = None, lambda: 1 / 0
    call = vocabulary.marks.tokens["<tool_call>"]
    assert filled(step, grammars) == {"a": {call}, "b": {vocabulary.marks.failure}, "c": {call}}
    assert not grammars["b"].accept_tokens("b", [vocabulary.marks.failure or 0])
    assert grammars["c"].accept_tokens("c", [call])


def test_slow_masks_end_their_sequence(make, vocabulary, slow_masks):
    """Only masks that are computed in a slow step, or soon after it, are timed."""
    step = StepMasks(words_per_row(vocabulary.size), seconds=1.0)
    grammars = {name: make() for name in "ab"}
    slow_masks(grammars["a"].automaton, 2.0)
    call = {vocabulary.marks.tokens["<tool_call>"]}
    # The first slow step is not timed, and the first slow mask is only noticed.
    for _ in range(1 + MAX_SLOW):
        assert filled(step, grammars) == {"a": call, "b": call}
    assert filled(step, grammars) == {"a": {vocabulary.marks.failure}, "b": call}
    assert step._timer._timed_steps
    for _ in range(TIMED_STEPS):
        filled(step, grammars)
    assert not step._timer._timed_steps
