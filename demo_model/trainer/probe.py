"""Whether answers come out right, without a server, and where they go wrong: `python -m
trainer.probe RUN`.

Under greedy decoding an answer is exact if, and only if, each of its tokens is the likeliest after
the ones before; one that may be worded otherwise is decoded. For the training's own watch;
`make eval-demo-model` asks the served model the same.
"""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from tokenizers import Tokenizer

from .asking import MAX_TOKENS, read
from .corpus import encode
from .dialogue import NO_THOUGHT, Dialogue, User, render
from .evaluate import Question, questions
from .export import load
from .network import Network, fast


@dataclass(frozen=True)
class Miss:
    kind: str
    """Of what the first wrong token is part."""
    before: str
    """The answer up to there."""
    wanted: str
    said: str


@torch.no_grad()
def first_miss(network: Network, tokenizer: Tokenizer, dialogue: Dialogue) -> Miss | None:
    """None where the last answer comes out."""
    (sample,) = encode(tokenizer, [render(replace(dialogue, last_only=True))])
    ids = torch.from_numpy(sample.ids.astype("int64"))[None]
    with fast():
        best = network.logits(network(ids[:, :-1])).argmax(-1)[0]
    wrong = torch.from_numpy(sample.trained)[1:] & (best != ids[0, 1:])
    if not bool(wrong.any()):
        return None
    at = int(wrong.nonzero()[0])
    text = tokenizer.decode(ids[0, : at + 1].tolist(), False)
    before = text.split("<|im_start|>assistant\n")[-1].removeprefix(NO_THOUGHT)
    said = tokenizer.decode(best[at : at + 1].tolist(), False)
    wanted = tokenizer.decode(ids[0, at + 1 : at + 2].tolist(), False)
    return Miss(_kind(before, said, dialogue), before, wanted, said)


@torch.no_grad()
def decoded(network: Network, tokenizer: Tokenizer, dialogue: Dialogue) -> str:
    """Greedily, with everything computed anew for each token."""
    prompt, _, _ = render(dialogue).text.rpartition("<|im_start|>assistant\n")
    begin = "" if dialogue.thinking else NO_THOUGHT
    ids = list(tokenizer.encode(f"{prompt}<|im_start|>assistant\n{begin}").ids)
    prompted, end = len(ids), tokenizer.token_to_id("<|im_end|>")
    with fast():
        while ids[-1] != end and len(ids) < prompted + MAX_TOKENS:
            ids.append(int(network.logits(network(torch.tensor([ids]))[0, -1]).argmax()))
    return str(tokenizer.decode(ids[prompted:], skip_special_tokens=False)).removesuffix(
        "<|im_end|>"
    )


def miss_of(network: Network, tokenizer: Tokenizer, question: Question) -> Miss | None:
    """None where the answer is right."""
    dialogue = question.dialogue
    miss: Miss | None = first_miss(network, tokenizer, dialogue)
    worded = dialogue.thinking or not dialogue.answer.calls
    if miss and worded and question.right(read(decoded(network, tokenizer, dialogue))):
        return None
    return miss


def _kind(before: str, said: str, dialogue: Dialogue) -> str:
    *_, call = before.split("<tool_call>")
    if not before:
        return "call or not"
    if call == before:
        return "words"
    if "</tool_call>" in call:
        return "next call or end"
    if '"arguments"' not in call:
        name = call.partition('"name": "')[2] + said
        listed = any(tool.name.startswith(name) for tool in dialogue.tools)
        return "name of another tool" if listed else "name of no tool"
    return "argument's name" if call.rstrip().endswith(('{"', ', "')) else "value"


def main() -> None:
    parser = argparse.ArgumentParser(description="Where a training's answers go wrong.")
    parser.add_argument("run", type=Path)
    parser.add_argument("--number", type=int, default=60, help="conversations of each kind")
    parser.add_argument("--show", type=int, default=0, help="misses of each kind")
    arguments = parser.parse_args()
    network, tokenizer = load(arguments.run)
    for name, asked in questions(arguments.number).items():
        misses: list[tuple[Dialogue, Miss]] = []
        for question in asked:
            if (miss := miss_of(network, tokenizer, question)) is not None:
                misses.append((question.dialogue, miss))
        right = 100 * (1 - len(misses) / len(asked))
        kinds = Counter(miss.kind for _, miss in misses).most_common()
        print(f"{name}: {right:.0f} %", *(f"{kind} {n}" for kind, n in kinds), sep="  ", flush=True)
        for dialogue, miss in misses[: arguments.show]:
            said = [turn.text for turn in dialogue.turns if isinstance(turn, User)][-1]
            print(
                f"    {said!r}\n        …{miss.before[-60:]!r} {miss.said!r}, not {miss.wanted!r}"
            )


if __name__ == "__main__":
    main()
