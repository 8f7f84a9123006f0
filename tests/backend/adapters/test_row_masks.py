"""Rows of masks: by number, as logits keep them, and in the steps of an engine."""

import random

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.effort import repeats, rotating
from toolgate_backend.adapters.apply_masks import make_table
from toolgate_backend.adapters.row_numbers import NumberedRows, RowNumbers
from toolgate_backend.adapters.structured_output import MAX_SLOW, StepMasks
from toolgate_backend.tokens import masks
from toolgate_backend.tokens.masks import Row, unpack

# --- apply masks ---
VOCABULARY = 100  # no multiple of 32: the last word has bits that are no token's
SLOTS = 8
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


class Applier:
    """A table, and the numbers of its rows."""

    def __init__(self, table):
        self.table, self.numbers = table, RowNumbers(SLOTS)
        self.device = getattr(table, "_device", torch.device("cpu"))

    def apply(self, logits, indices, rows):
        self.table.apply(logits, list(indices), self.numbers.number(rows))


@pytest.fixture(scope="module", params=DEVICES)
def applier(request):
    """One for all examples: what it keeps must not leak into others. `interpreted` is the table of
    GPUs on a CPU."""
    given = {"forces": True, "slots": SLOTS}
    if request.param != "interpreted":
        table = make_table(torch.device(request.param), VOCABULARY, **given)
        yield Applier(table)
        return
    interpreter = pytest.importorskip("triton.runtime.interpreter")
    from toolgate_backend.adapters import device_masks

    with pytest.MonkeyPatch.context() as patch:
        kernel = interpreter.InterpretedFunction(device_masks.mask_rows.fn)
        patch.setattr(device_masks, "mask_rows", kernel)
        patch.setattr(device_masks, "BLOCK", 64)
        yield Applier(device_masks.DeviceMasks(torch.device("cpu"), VOCABULARY, **given))


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
    before = torch.rand(count, VOCABULARY, device=applier.device)
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
    """More rows over several steps than the table has slots."""
    rows = [make_row({number, number + 1}) for number in range(3 * SLOTS)]
    for first in (0, 2, SLOTS, 2 * SLOTS, 0, SLOTS // 2):
        order = [*rows[first : first + SLOTS - 1], rows[first]]
        logits = torch.zeros(len(order), VOCABULARY, device=applier.device)
        applier.apply(logits, range(len(order)), order)
        for row, left in zip(order, logits, strict=True):
            assert torch.nonzero(left == 0).flatten().tolist() == masks.unpack(row.words).tolist()


@pytest.mark.parametrize("beyond", [False, True])
@pytest.mark.parametrize("token", [7, VOCABULARY - 1])
def test_a_single_allowed_token_is_forced_whatever_its_logit(applier, token, beyond):
    logits = torch.full((2, VOCABULARY), float("-inf"), device=applier.device)
    applier.apply(logits, [1], [make_row({token}, beyond=beyond)])
    assert torch.nonzero(logits > float("-inf")).tolist() == [[1, token]]


def test_several_allowed_tokens_are_not_forced(applier):
    logits = torch.full((1, VOCABULARY), float("-inf"), device=applier.device)
    logits[0, 8] = 1.5
    applier.apply(logits, [0], [make_row({7, 8})])
    assert torch.nonzero(logits > float("-inf")).tolist() == [[0, 8]]


def test_nothing_is_forced_where_logits_processors_come_later():
    table = make_table(torch.device("cpu"), VOCABULARY, forces=False)
    logits = torch.full((1, VOCABULARY), 2.0)
    table.apply(logits, [0], RowNumbers().number([make_row({7})]))
    assert logits[0, 7] == 2.0


def test_a_missed_step_is_noticed(applier):
    """The rows of that step would be others."""
    logits = torch.zeros(1, VOCABULARY, device=applier.device)
    applier.apply(logits, [0], [make_row({1})])
    applier.numbers.number([make_row({2})])
    for row in (make_row({2}), make_row({3})):
        with pytest.raises(RuntimeError, match="A step did not reach the worker"):
            applier.apply(logits, [0], [row])
    applier.numbers = RowNumbers(SLOTS)  # a table that begins anew misses nothing
    applier.apply(logits, [0], [make_row({4})])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_nothing_waits_for_the_gpu():
    """A wait would last as long as the forward pass."""
    size = 12_000
    device = torch.device("cuda")
    applier = Applier(make_table(device, size, forces=True, slots=SLOTS))
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


# --- numbers of rows ---
class Kept:
    """The rows that a worker has by number."""

    def __init__(self):
        self.rows = []

    def receive(self, sent):
        if len(sent.new):
            self.rows[sent.first :] = sent.new
        return [self.rows[number] for number in sent.numbers]


@settings(max_examples=repeats(30, nightly=300), deadline=None)
@given(st.lists(st.lists(st.integers(0, 19), min_size=1, max_size=SLOTS), max_size=12))
def test_a_number_is_that_of_its_row_and_no_row_is_sent_twice_without_need(steps):
    rows = [make_row({each}) for each in range(20)]
    numbers, kept, here = RowNumbers(SLOTS), Kept(), set()
    for step in steps:
        sent = numbers.number([rows[each] for each in step])
        found = [unpack(words).tolist() for words in kept.receive(sent)]
        assert found == [[each] for each in step]
        assert len(kept.rows) <= SLOTS
        if sent.first == 0:
            here.clear()
        assert len(sent.new) == len({*step} - here)
        here |= {*step}


def test_what_was_sent_is_not_written_again():
    """Several steps are on their way, some without a copy."""
    numbers = RowNumbers(2)
    first = numbers.number([make_row({1}), make_row({2})])
    before = [each.copy() for each in (first.numbers, first.new)]
    numbers.number([make_row({3}), make_row({4})])
    for sent, was in zip((first.numbers, first.new), before, strict=True):
        assert (sent == was).all()


# --- the masks of a step ---
@pytest.fixture
def make(ours):
    return lambda: ours(choice="required")


@pytest.fixture(params=["rows", "bitmask"])
def step(request):
    made = StepMasks()
    if request.param == "rows":
        made.numbers, made.kept = RowNumbers(12), Kept()
    return made


def filled(step, grammars, drafts=None):
    """The masks of a step by sequence."""
    sent = step.fill(grammars, drafts or {})
    assert isinstance(sent, NumberedRows) == (step.numbers is not None)
    rows = [
        set(unpack(row).tolist()) for row in (step.kept.receive(sent) if step.numbers else sent)
    ]
    found = {}
    for name in grammars:
        count = 1 + len((drafts or {}).get(name, ()))
        found[name], rows = rows[:count], rows[count:]
    assert not rows
    return found if drafts else {name: mask for name, [mask] in found.items()}


def test_each_sequence_has_its_mask_while_others_come_and_go(step, make):
    rng = random.Random(3)
    running = {}
    names = map(str, range(1000))
    for _ in range(60):
        for name in list(running):
            if rng.random() < 0.15:
                del running[name]
        while not running or (len(running) < 9 and rng.random() < 0.6):
            running[next(names)] = make()
        scheduled = rng.sample(sorted(running), rng.randint(1, len(running)))
        found = filled(step, {name: running[name] for name in scheduled})
        assert found == {
            name: set(unpack(running[name].next_row().words).tolist()) for name in scheduled
        }
        for name, allowed in found.items():
            assert running[name].accept_tokens(name, [rng.choice(sorted(allowed))])


def test_rows_are_sent_only_if_they_are_new(make, vocabulary):
    call = vocabulary.marks.tokens["<tool_call>"]
    step, grammars = StepMasks(), {name: make() for name in "abc"}
    step.numbers = RowNumbers()
    assert len(step.fill(grammars, {}).new) == 1  # of all
    assert not len(step.fill(grammars, {}).new)
    assert grammars["b"].accept_tokens("b", [call])
    sent = step.fill(grammars, {})
    assert len(sent.new) == 1
    assert sent.numbers.tolist() == [0, 1, 0]


def test_each_draft_has_the_mask_after_those_before_it(step, make, vocabulary):
    call = vocabulary.marks.tokens["<tool_call>"]
    grammars = {name: make() for name in "abc"}
    text = make()
    assert text.accept_tokens("", [call])
    first, second = {call}, set(unpack(text.next_row().words).tolist())
    everything = set(range(32 * len(text.next_row().words)))
    drafts = {"a": [call], "c": [call, -1, call]}
    assert filled(step, grammars, drafts) == {
        "a": [first, second],
        "b": [first],
        "c": [first, second, everything, everything],
    }
    refused = {"a": [*vocabulary.encode("a"), call]}
    assert filled(step, grammars, refused) == {"a": [first] * 3, "b": [first], "c": [first]}
    assert filled(step, grammars) == {
        "a": first,
        "b": first,
        "c": first,
    }  # they are where they were


def test_a_failing_sequence_does_not_affect_others(step, make, vocabulary):
    grammars = {name: make() for name in "abc"}
    machine = grammars["b"].automaton
    machine.row, machine.next_row = None, lambda: 1 / 0
    call = vocabulary.marks.tokens["<tool_call>"]
    assert filled(step, grammars) == {"a": {call}, "b": {vocabulary.marks.failure}, "c": {call}}
    assert not grammars["b"].accept_tokens("b", [vocabulary.marks.failure or 0])
    assert grammars["c"].accept_tokens("c", [call])


def test_slow_masks_end_their_sequence(step, make, vocabulary, slow_masks):
    grammars = {name: make() for name in "ab"}
    slow_masks(grammars["a"].automaton, 2.0)
    call = {vocabulary.marks.tokens["<tool_call>"]}
    for _ in range(MAX_SLOW - 1):
        assert filled(step, grammars) == {"a": call, "b": call}
    assert filled(step, grammars) == {"a": {vocabulary.marks.failure}, "b": call}
