"""Write a small model with random weights that uses a dialect: its marks, chat template and
end-of-turn tokens.

    python -m tests.models.tiny_family OUT_DIR --family NAME [--marks named|all|none]
        [--tokenizer DIR]

The model is that of tiny_random.py, with another tokenizer. `--marks` selects the marks that are
special tokens: those of the family's tokenizers (default), all, or none. All other marks are text.
Each also exists as one ordinary token, which the model can sample but the tokenizer does not use:
random text would hardly ever contain them otherwise. Its name in the vocabulary is byte-level, so a
look-up by the mark's text finds it only if that is printable ASCII.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any, Literal, get_args

from tokenizers import AddedToken, Tokenizer, pre_tokenizers

from toolgate_core.dialects.dialect import Dialect
from toolgate_core.dialects.marks import (
    closing_texts,
    end_texts,
    mark_texts,
)
from toolgate_core.dialects.marks import special_tokens as family_tokens
from toolgate_core.dialects.registry import DIALECTS

from . import tiny_model
from .family_template import END, chat_template, turn_texts
from .tiny_random import CONTEXT, weights, write_model

MarkTokens = Literal["named", "all", "none"]
PAD = "<|endoftext|>"
SEED = 0


def special_tokens(dialect: Dialect, marks: MarkTokens) -> tuple[str, ...]:
    """The marks that are special tokens."""
    chosen = {"named": family_tokens(dialect), "all": mark_texts(dialect), "none": ()}
    return tuple(dict.fromkeys(chosen[marks]))


def end_tokens(dialect: Dialect) -> tuple[str, ...]:
    """The end-of-turn tokens, that after content first."""
    turn = turn_texts(dialect)
    return tuple(dict.fromkeys((turn.after_content, turn.after_calls, *end_texts(dialect))))


def tokenizer(dialect: Dialect, marks: MarkTokens, source: Path | None = None) -> Tokenizer:
    """The tokenizer in `source` (default: that of tiny_random.py), with the marks of the dialect in
    place of its own."""
    base = json.loads(((source or tiny_model()) / "tokenizer.json").read_text())
    base["added_tokens"] = []
    special = special_tokens(dialect, marks)
    vocabulary: dict[str, int] = base["model"]["vocab"]
    to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    for text in (*mark_texts(dialect), *closing_texts(dialect)):
        # No tokenizer has ordinary tokens that contain the text of a special token.
        if not any(token in text for token in (*special, *end_tokens(dialect), END)):
            [(encoded, _)] = to_bytes.pre_tokenize_str(text)
            vocabulary.setdefault(encoded, len(vocabulary))
    made = Tokenizer.from_str(json.dumps(base))
    # Two spare tokens: the backend forces them if the enforcement fails or a call is closed.
    control = (PAD, "<|im_start|>", END, *end_tokens(dialect), "<|spare_0|>", "<|spare_1|>")
    made.add_special_tokens([AddedToken(text, normalized=False) for text in dict.fromkeys(control)])
    made.add_tokens([AddedToken(text, special=False, normalized=False) for text in special])
    return made


def files(
    dialect: Dialect, marks: MarkTokens, source: Path | None = None
) -> tuple[dict[str, str], int]:
    """The model's files by name, without its weights, and its vocabulary size."""
    made = tokenizer(dialect, marks, source)
    rows = (made.get_vocab_size() + 63) // 64 * 64
    ends = [made.token_to_id(text) for text in end_tokens(dialect)]
    pad = made.token_to_id(PAD)
    config: dict[str, Any] = json.loads((tiny_model() / "config.json").read_text())
    config |= {"vocab_size": rows, "eos_token_id": ends[0], "pad_token_id": pad}
    tokenizer_config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": end_tokens(dialect)[0],
        "pad_token": PAD,
        "clean_up_tokenization_spaces": False,
        "model_max_length": CONTEXT,
        "chat_template": chat_template(dialect),
    }
    written = {
        "config.json": config,
        "generation_config.json": {"eos_token_id": [*ends, pad], "pad_token_id": pad},
        "tokenizer_config.json": tokenizer_config,
    }
    return {
        "tokenizer.json": made.to_str(),
        **{
            name: json.dumps(value, ensure_ascii=False, indent=1) for name, value in written.items()
        },
    }, rows


def build(
    out: Path, dialect: Dialect, marks: MarkTokens = "named", source: Path | None = None
) -> None:
    """Write the model to the directory `out`, which is created or replaced. Does nothing if it is
    up to date. `source`: the directory of the tokenizer to build over. Raises FileExistsError if
    `out` has other files."""
    texts, rows = files(dialect, marks, source)
    write_model(out, texts, lambda: weights(rows, SEED), [rows, SEED])


def main() -> None:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("out", type=Path)
    names = [name for name, each in DIALECTS.items() if each.calls]
    parser.add_argument("--family", required=True, choices=names, metavar="NAME")
    parser.add_argument("--marks", choices=get_args(MarkTokens), default="named")
    parser.add_argument("--tokenizer", type=Path, help="directory of the tokenizer to build over")
    arguments = parser.parse_args()
    dialect = DIALECTS[arguments.family]
    try:
        build(arguments.out.resolve(), dialect, arguments.marks, arguments.tokenizer)
    except FileExistsError as error:
        sys.exit(str(error))
    print(f"{arguments.out} is up to date")


if __name__ == "__main__":
    main()
