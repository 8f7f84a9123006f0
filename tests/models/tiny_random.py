"""Write a small Qwen3 model with random weights: what tests and benchmarks serve.

    python -m tests.models.tiny_random OUT_DIR [--tokenizer DIR] [--seed N]

Without `--tokenizer` it also trains a byte-level BPE tokenizer of 8,192 entries on generated text;
with it, the model is built over that tokenizer (`tokenizer.json`, gzipped or not, and
`tokenizer_config.json`), padded to Qwen3's 151,936 rows. Nothing is downloaded, and nothing is done
where OUT_DIR already holds the same model.
"""

import argparse
import gzip
import hashlib
import json
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import numpy.typing as npt
from safetensors.numpy import save_file
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from .tiny_corpus import Corpus, words

FINGERPRINT = "fingerprint.txt"
HIDDEN, LAYERS, HEADS, KV_HEADS, HEAD_DIM, FFN = 64, 2, 2, 1, 32, 128
"""vLLM's CPU attention needs a head_dim of at least 32."""
CONTEXT = 8192
TINY_VOCABULARY, QWEN3_ROWS = 8192, 151_936
CORPUS_LINES = 40_000

# In Qwen3's order. The first 14 are special (skipped on decoding), the rest are ordinary text.
SPECIAL = words("""
<|endoftext|> <|im_start|> <|im_end|> <|object_ref_start|> <|object_ref_end|> <|box_start|>
<|box_end|> <|quad_start|> <|quad_end|> <|vision_start|> <|vision_end|> <|vision_pad|>
<|image_pad|> <|video_pad|>
""")
MARKS = words("""
<tool_call> </tool_call> <|fim_prefix|> <|fim_middle|> <|fim_suffix|> <|fim_pad|> <|repo_name|>
<|file_sep|> <tool_response> </tool_response> <think> </think>
""")

# A word takes one leading space or mark with it; digits stand alone; marks run together.
WORDS = (
    r"(?: |[^\s\p{L}\p{M}\p{N}])?[\p{L}\p{M}]+|\p{N}"
    r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s+(?!\S)|\s+"
)
# Tokens that the evaluation biases by name: training must have found them.
EXPECTED = ('"', "}", '"}', '",', "]", '"]', '"}}', "</think>", "<|im_end|>", *MARKS)

CHAT_TEMPLATE = r"""
{%- if not messages %}{{ raise_exception('The conversation has no messages.') }}{% endif %}
{%- macro text(content) %}
    {%- if content is string %}
        {{- content }}
    {%- elif content is not none and content is not undefined %}
        {%- for part in content %}
            {%- if part is string %}
                {{- part }}
            {%- elif part.type == 'text' %}
                {{- part.text }}
            {%- else %}
                {{- raise_exception('Only text can be read, not a part of type ' ~ part.type) }}
            {%- endif %}
        {%- endfor %}
    {%- endif %}
{%- endmacro %}
{%- set leads = messages[0].role in ('system', 'developer') %}
{%- if leads or tools %}
    {{- '<|im_start|>system\n' }}
    {%- if leads %}
        {{- text(messages[0].content) }}
    {%- endif %}
    {%- if tools %}
        {%- if leads %}
            {{- '\n\n' }}
        {%- endif %}
        {{- '# Functions\n\nThese functions can be called, one JSON object a line:\n<tools>' }}
        {%- for tool in tools %}
            {{- '\n' ~ (tool | tojson) }}
        {%- endfor %}
        {{- '\n</tools>\n\nTo call one, write its name and its arguments as a JSON object:\n' }}
        {{- '<tool_call>\n{"name": NAME, "arguments": ARGUMENTS}\n</tool_call>\n' }}
        {{- 'Write one such block for each call.' }}
    {%- endif %}
    {{- '<|im_end|>\n' }}
{%- endif %}
{%- set seen = namespace(last_user=-1) %}
{%- for message in messages %}
    {%- if message.role == 'user' %}
        {%- set seen.last_user = loop.index0 %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.role in ('system', 'developer') %}
        {%- if not loop.first %}
            {{- '<|im_start|>system\n' ~ text(message.content) ~ '<|im_end|>\n' }}
        {%- endif %}
    {%- elif message.role == 'user' %}
        {{- '<|im_start|>user\n' ~ text(message.content) ~ '<|im_end|>\n' }}
    {%- elif message.role == 'assistant' %}
        {%- set said = text(message.content) %}
        {%- set thought = message.reasoning_content or message.reasoning or '' %}
        {%- if not thought and '</think>' in said %}
            {%- set thought = said.split('</think>')[0].split('<think>')[-1] %}
            {%- set said = said.split('</think>')[-1].lstrip('\n') %}
        {%- endif %}
        {{- '<|im_start|>assistant\n' }}
        {#- Reasoning of earlier turns is left out; the current turn keeps it. #}
        {%- if loop.index0 > seen.last_user and (thought or loop.last) %}
            {{- '<think>\n' ~ thought.strip('\n') ~ '\n</think>\n\n' }}
            {%- set said = said.lstrip('\n') %}
        {%- endif %}
        {{- said }}
        {%- for call in message.tool_calls or [] %}
            {%- set function = call.function or call %}
            {%- if said or not loop.first %}
                {{- '\n' }}
            {%- endif %}
            {{- '<tool_call>\n{"name": ' ~ (function.name | tojson) ~ ', "arguments": ' }}
            {%- if function.arguments is string %}
                {{- function.arguments }}
            {%- else %}
                {{- (function.arguments or {}) | tojson }}
            {%- endif %}
            {{- '}\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\n' }}
    {%- elif message.role == 'tool' %}
        {%- if loop.first or loop.previtem.role != 'tool' %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\n<tool_response>\n' ~ text(message.content) ~ '\n</tool_response>' }}
        {%- if loop.last or loop.nextitem.role != 'tool' %}
            {{- '<|im_end|>\n' }}
        {%- endif %}
    {%- else %}
        {{- raise_exception('A message has the unknown role ' ~ (message.role | tojson) ~ '.') }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\n\n</think>\n\n' }}
    {%- endif %}
{%- endif %}
""".strip()


def train_tokenizer(seed: int) -> Tokenizer:
    """Byte-level BPE; the added tokens come after it and fill the vocabulary exactly."""
    tokenizer = Tokenizer(models.BPE())
    # A word of one script's bytes must not be cut: split first, map to bytes afterwards.
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(WORDS), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=TINY_VOCABULARY - len(SPECIAL) - len(MARKS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        min_frequency=2,
        show_progress=False,
    )
    tokenizer.train_from_iterator(Corpus(seed).lines(CORPUS_LINES), trainer)
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in SPECIAL])
    tokenizer.add_tokens([AddedToken(t, special=False, normalized=False) for t in MARKS])
    missing = [token for token in EXPECTED if tokenizer.token_to_id(token) is None]
    if missing or tokenizer.get_vocab_size() != TINY_VOCABULARY:
        sys.exit(f"the corpus is too small: {tokenizer.get_vocab_size()} tokens, no {missing}")
    return tokenizer


def tokenizer_files(source: Path | None, seed: int) -> dict[str, str]:
    """`tokenizer.json` and `tokenizer_config.json`, trained or taken from a directory."""
    if source is None:
        config = {
            # Not Qwen2Tokenizer, whose loader would put its own pre-tokenizer in place of ours.
            "tokenizer_class": "PreTrainedTokenizerFast",
            "eos_token": "<|im_end|>",
            "pad_token": "<|endoftext|>",
            "additional_special_tokens": SPECIAL[1:],
            "clean_up_tokenization_spaces": False,
            "model_max_length": CONTEXT,
            "chat_template": CHAT_TEMPLATE,
        }
        return {
            "tokenizer.json": train_tokenizer(seed).to_str(),
            "tokenizer_config.json": json.dumps(config, ensure_ascii=False, indent=1),
        }
    packed = source / "tokenizer.json.gz"
    plain = source / "tokenizer.json"
    text = gzip.decompress(packed.read_bytes()) if packed.exists() else plain.read_bytes()
    return {
        "tokenizer.json": text.decode(),
        "tokenizer_config.json": (source / "tokenizer_config.json").read_text(),
    }


def weights(rows: int, seed: int) -> dict[str, npt.NDArray[np.float32]]:
    """Small enough (0.02) that logits are nearly uniform: a logit bias then decides what ends."""
    rng = np.random.default_rng(seed)

    def matrix(*shape: int) -> npt.NDArray[np.float32]:
        return (0.02 * rng.standard_normal(shape)).astype(np.float32)

    def ones(size: int) -> npt.NDArray[np.float32]:
        return np.ones(size, np.float32)

    tensors = {"model.embed_tokens.weight": matrix(rows, HIDDEN), "model.norm.weight": ones(HIDDEN)}
    for layer in range(LAYERS):
        block = {
            "input_layernorm": ones(HIDDEN),
            "post_attention_layernorm": ones(HIDDEN),
            "self_attn.q_proj": matrix(HEADS * HEAD_DIM, HIDDEN),
            "self_attn.k_proj": matrix(KV_HEADS * HEAD_DIM, HIDDEN),
            "self_attn.v_proj": matrix(KV_HEADS * HEAD_DIM, HIDDEN),
            "self_attn.o_proj": matrix(HIDDEN, HEADS * HEAD_DIM),
            "self_attn.q_norm": ones(HEAD_DIM),
            "self_attn.k_norm": ones(HEAD_DIM),
            "mlp.gate_proj": matrix(FFN, HIDDEN),
            "mlp.up_proj": matrix(FFN, HIDDEN),
            "mlp.down_proj": matrix(HIDDEN, FFN),
        }
        tensors |= {f"model.layers.{layer}.{name}.weight": t for name, t in block.items()}
    return tensors


def build(out: Path, source: Path | None, seed: int) -> None:
    files = tokenizer_files(source, seed)
    tokenizer = Tokenizer.from_str(files["tokenizer.json"])
    rows = TINY_VOCABULARY if source is None else QWEN3_ROWS
    if tokenizer.get_vocab_size() > rows:
        sys.exit(f"the tokenizer has {tokenizer.get_vocab_size()} tokens, over {rows}")
    end, pad = tokenizer.token_to_id("<|im_end|>"), tokenizer.token_to_id("<|endoftext|>")
    if end is None or pad is None:
        sys.exit("the tokenizer has no <|im_end|> or no <|endoftext|>")
    config = {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        # Without it transformers takes any large local vocabulary for a broken Mistral one.
        "transformers_version": "5.0.0",
        "dtype": "float32",
        "vocab_size": rows,
        "hidden_size": HIDDEN,
        "intermediate_size": FFN,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD_DIM,
        "hidden_act": "silu",
        "max_position_embeddings": CONTEXT,
        "rms_norm_eps": 1e-6,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1_000_000.0},
        "attention_bias": False,
        "tie_word_embeddings": True,
        "eos_token_id": end,
        "pad_token_id": pad,
    }
    generation = {"eos_token_id": [end, pad], "pad_token_id": pad}
    for name, value in (("config.json", config), ("generation_config.json", generation)):
        files[name] = json.dumps(value, indent=1)
    for name, text in files.items():
        (out / name).write_text(text)
    save_file(weights(rows, seed), out / "model.safetensors", metadata={"format": "pt"})


def fingerprint(source: Path | None, seed: int) -> str:
    """Of everything the result depends on: these scripts, the seed, the given tokenizer."""
    here = Path(__file__).resolve().parent
    digest = hashlib.sha256(f"{seed}".encode())
    inputs = [here / "tiny_random.py", here / "tiny_corpus.py", here / "tiny_words.toml"]
    if source is not None:
        inputs += sorted(source.glob("tokenizer*.json*"))
    for path in inputs:
        digest.update(path.name.encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--tokenizer", type=Path, help="directory of the tokenizer to build over")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    out: Path = arguments.out.resolve()
    mark = fingerprint(arguments.tokenizer, arguments.seed)
    if (out / FINGERPRINT).exists():
        if (out / FINGERPRINT).read_text() == mark:
            print(f"{arguments.out} is up to date")
            return
    elif out.exists() and any(out.iterdir()):
        sys.exit(f"{arguments.out} holds something else: not touched")
    out.parent.mkdir(parents=True, exist_ok=True)
    # Built beside its place and renamed: whoever finds the directory finds it whole.
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}-") as temporary:
        made = Path(temporary) / "model"
        made.mkdir()
        build(made, arguments.tokenizer, arguments.seed)
        (made / "model.safetensors").chmod(0o644)
        (made / FINGERPRINT).write_text(mark)
        if out.exists():
            shutil.rmtree(out)
        made.replace(out)
    print(f"made {arguments.out}")


if __name__ == "__main__":
    main()
