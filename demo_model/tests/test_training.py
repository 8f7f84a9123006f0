"""From conversations to batches, and the optimizer's step: what a training would show too late."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import AddedToken, Tokenizer

from byte_tokenizer import byte_tokenizer
from trainer import copying, corpus
from trainer.batches import FINE_LENGTHS, LENGTHS, batches
from trainer.dialogue import Assistant, Dialogue, Text, User, render
from trainer.muon import Muon, orthogonal
from trainer.renaming import Renaming
from trainer.tokenizer import MARKS, SPECIAL, composition
from trainer.tools import Call, Tool
from trainer.train import Plan


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    """Bytes alone: enough to see which tokens are trained on."""
    made = byte_tokenizer()
    made.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in SPECIAL])
    made.add_tokens([AddedToken(t, special=False, normalized=False) for t in MARKS])
    return made


def test_the_answers_tokens_are_trained_on_and_no_others(tokenizer: Tokenizer) -> None:
    made = [(text, corpus.encode(tokenizer, [text])) for text in corpus.texts(2, 40)]
    short = [(text, samples[0]) for text, samples in made if samples]
    assert len(short) > 10
    for text, sample in short:
        chosen = [int(i) for i, on in zip(sample.ids, sample.trained, strict=True) if on]
        spans = "".join(text.text[begin:end] for begin, end in text.trained)
        assert chosen
        assert tokenizer.decode(chosen, skip_special_tokens=False) == spans


def test_a_conversation_too_long_is_left_out(tokenizer: Tokenizer) -> None:
    text = "x" * (corpus.LONGEST + 1)
    assert corpus.encode(tokenizer, [Text(text, ((0, 5),))]) == []
    assert len(corpus.encode(tokenizer, [Text(text[:-1], ((0, 5),))])) == 1


@pytest.mark.parametrize("lengths", [LENGTHS, FINE_LENGTHS])
def test_batches_hold_each_sample_at_most_once(lengths: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    samples = [
        corpus.Sample(
            np.full(rng.integers(5, corpus.LONGEST + 1), i + 1, np.uint16), np.array([True])
        )
        for i in range(2000)
    ]
    samples = [corpus.Sample(s.ids, np.ones(len(s.ids), bool)) for s in samples]
    seen: list[int] = []
    shares = [
        batches(samples, 2048, 0, np.random.default_rng(4), rank, 2, lengths=lengths)
        for rank in range(2)
    ]
    for one, other in zip(*shares, strict=True):
        length = one[0].shape[1] - 1
        assert length in lengths
        assert one[0].shape == other[0].shape == (2048 // length, length + 1)
        ids, trained = (np.concatenate(both) for both in zip(one, other, strict=True))
        assert ((ids > 0) == trained).all()
        for row in ids:
            sample = samples[row[0] - 1]
            assert len(sample.ids) == (row > 0).sum()
            seen.append(int(row[0]))
    assert len(seen) == len(set(seen)) > 1500


def test_what_an_answer_copies_is_renamed_everywhere_and_nothing_else(tokenizer: Tokenizer) -> None:
    samples = corpus.encode(tokenizer, corpus.texts(2, 300))
    renaming, rng = Renaming(tokenizer, samples, scrambled=0), np.random.default_rng(0)
    made, other = composition(tokenizer), 0
    for sample in samples:
        renamed = renaming(sample, rng)
        assert (renamed.trained == sample.trained).all()
        words = made.base[sample.ids]
        changed = np.unique(words[renamed.ids != sample.ids])
        other += len(changed) > 0
        for word in changed:
            places = words == word
            assert len(np.unique(made.base[renamed.ids[places]])) == 1
            assert (made.forms[renamed.ids[places]] == made.forms[sample.ids[places]]).all()
            assert sample.trained[places].any()
            assert not sample.trained[places].all()
        for mark in ("{", ",", "7", "<tool_call>", "<|im_end|>"):
            assert (
                (renamed.ids == tokenizer.token_to_id(mark))
                == (sample.ids == tokenizer.token_to_id(mark))
            ).all()
    assert 20 < other < 200


def _asked(tokenizer: Tokenizer, request: str) -> corpus.Sample:
    door, fence = (
        Tool(f"{verb}_{noun}", f"{verb.capitalize()} a {noun}", {"in": {"type": "string"}}, ("in",))
        for verb, noun in (("lock", "door"), ("paint", "fence"))
    )
    turns = (User(request), Assistant("", (Call(door.name, {"in": "7"}),)))
    (sample,) = corpus.encode(tokenizer, [render(Dialogue("call", (fence, door), turns))])
    return sample


def test_scrambled_words_are_alike_where_they_were_alike(tokenizer: Tokenizer) -> None:
    words = ["lock", "door", "paint", "fence"]
    capitals = [word.capitalize() for word in words]
    tokenizer = Tokenizer.from_str(tokenizer.to_str())
    tokenizer.add_tokens([*words, *capitals])
    renaming = Renaming(tokenizer, corpus.encode(tokenizer, corpus.texts(2, 300)))

    def scrambled(request: str, seed: int) -> list[str]:
        sample = _asked(tokenizer, request)
        listed = renaming._listed(sample)
        table = renaming._scramble(sample, listed, np.random.default_rng(seed))
        assert sorted(table) == list(range(tokenizer.get_vocab_size()))
        ids = [tokenizer.token_to_id(word) for word in (*words, *capitals)]
        return [tokenizer.decode([token]) for token in table[ids]]

    assert scrambled("Open it: 7", 1) == [*words, *capitals]  # no word tells which tool
    found = [scrambled("Lock the door 7", seed) for seed in range(60)]
    assert all(each[4:] == [word.capitalize() for word in each[:4]] for each in found)
    assert {each[0] for each in found} == set(words)


def test_what_was_made_is_kept_until_its_key_changes(tmp_path: Path) -> None:
    file = tmp_path / "samples.npz"
    made = corpus.kept(file, "one", lambda: _samples(20))
    again = corpus.kept(file, "one", lambda: pytest.fail("made again"))
    assert all((a.ids == b.ids).all() for a, b in zip(made, again, strict=True))
    assert all((a.trained == b.trained).all() for a, b in zip(made, again, strict=True))
    assert len(corpus.kept(file, "two", lambda: _samples(7))) == 7


def _samples(number: int) -> list[corpus.Sample]:
    rng = np.random.default_rng(number)
    return [
        corpus.Sample(rng.integers(0, 300, length).astype(np.uint16), rng.random(length) < 0.5)
        for length in rng.integers(1, 50, number)
    ]


def test_a_run_is_repeated_and_then_learned() -> None:
    rng = np.random.default_rng(0)
    order = rng.permutation(3000)
    size = 2 * copying.FIRST
    ids, trained = copying.batch(2048, size, order, rng)
    assert set(ids.flatten()) <= set(order[:size])
    for row, learned in zip(ids, trained, strict=True):
        length = int(np.argmax(learned)) - 1
        assert copying.SHORTEST <= length < copying.LONGEST
        assert (row[length:] == row[:-length]).all()
        assert learned[length + 1 :].all()


def test_there_are_more_tokens_once_those_before_are_copied() -> None:
    progress = copying.Progress(3072)
    assert not any(progress.note(4.0) for _ in range(500))
    assert progress.size == copying.FIRST
    sizes = []
    while not progress.note(0.1):
        sizes.append(progress.size)
    assert progress.size == 3072
    assert list(dict.fromkeys(sizes)) == [64, 128, 256, 512, 1024, 2048, 3072]
    assert all(sizes.count(size) >= copying.AT_LEAST - 1 for size in sizes if 64 < size < 3072)


def test_few_tokens_and_all_of_them_are_copied_side_by_side() -> None:
    rng = np.random.default_rng(0)
    found = [copying.mixed(2048, 3000, rng) for _ in range(20)]
    assert {ids.shape for ids, _ in found} == {(2048 // copying.LENGTH, copying.LENGTH + 1)}
    assert all((ids.shape == trained.shape) for ids, trained in found)
    said = np.concatenate([ids for ids, _ in found])
    assert min(len(set(row)) for row in said) < 10
    assert said.max() > 2900


@pytest.mark.parametrize("shape", [(64, 192), (64, 128), (32, 96)])
def test_an_update_is_nearly_orthogonal(shape: tuple[int, int]) -> None:
    torch.manual_seed(0)
    values = torch.linalg.svdvals(orthogonal(torch.randn(2, *shape)))
    assert 0.5 < float(values.min()) <= float(values.max()) < 1.5


def test_shares_of_muon_make_one_step() -> None:
    """Two processes, each with its share, step as one does with all."""
    torch.manual_seed(0)
    alone = [torch.randn(shape) for shape in ((8, 6), (6, 8), (4, 8), (6, 6))]
    gradients = [torch.randn_like(matrix) for matrix in alone]
    shared = [matrix.clone() for matrix in alone]
    sums: list[torch.Tensor] = []
    for matrices in (alone, shared):
        for matrix, gradient in zip(matrices, gradients, strict=True):
            matrix.grad = gradient
    Muon(alone, 0, 1, lambda _: None).step(0.1)
    probe = [matrix.clone() for matrix in shared]
    for matrix, gradient in zip(probe, gradients, strict=True):
        matrix.grad = gradient
    Muon(probe, 1, 2, lambda updates: sums.append(updates.clone())).step(0.1)
    Muon(shared, 0, 2, lambda updates: updates.add_(sums[0])).step(0.1)
    for one, other in zip(alone, shared, strict=True):
        torch.testing.assert_close(one, other)


def test_the_rates_warm_up_stay_and_fall() -> None:
    plan = Plan(Path(), seed=1, samples=1, steps=1000, minutes=1, compiled=False)
    factors = [plan.factor(step) for step in range(1000)]
    assert factors[0] < 0.1
    assert factors[79] == 1
    assert factors[80:] == sorted(factors[80:], reverse=True)
    assert 0.005 <= factors[-1] < 0.01
    on = replace(plan, weights=Path())
    assert max(on.factor(step) for step in range(1000)) < 0.5 * max(factors)
    assert on.factor(999) == pytest.approx(factors[-1], rel=0.1)


def _train(out: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    command = (sys.executable, "-m", "trainer.train", str(out), "--samples", "500", "--eager")
    root = Path(__file__).parents[1]
    return subprocess.run((*command, *flags), capture_output=True, text=True, cwd=root, check=False)


def test_a_training_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    stopped = _train(tmp_path, "--steps", "3", "--minutes", "0")
    assert "stopped after 1 steps; the same command goes on" in stopped.stderr

    assert _train(tmp_path, "--steps", "3").returncode == 0
    files = sorted(tmp_path.glob("checkpoint.[0-9]*.pt"))
    assert files
    assert {torch.load(file, weights_only=True)["step"] for file in files} == {3}
    weights = [torch.load(file, weights_only=True)["network"] for file in files]
    for name, tensor in torch.load(tmp_path / "checkpoint.pt", weights_only=True).items():
        assert all(torch.equal(tensor, each[name]) for each in weights)

    if len(files) > 1:
        torch.save(torch.load(files[0], weights_only=True) | {"step": 2}, files[0])
        apart = _train(tmp_path, "--steps", "5")
        assert apart.returncode != 0
        assert "delete" in apart.stderr
