"""Convert a model to the GGUF file that llama.cpp's server reads.

    python -m tests.long.scoreboard.gguf MODEL OUT.gguf --llama-cpp DIR [--splits qwen2]

DIR is llama.cpp's source, whose converter is used. It recognises the rules that split text before
the merges by a hash of their result, and refuses unknown tokenizers. `--splits` names the rules to
use instead, which differ a little from those of the demo model.
"""

from __future__ import annotations

import argparse
import runpy
import sys
from importlib import import_module
from pathlib import Path


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--llama-cpp", type=Path, required=True)
    parser.add_argument("--splits", default="qwen2")
    options = parser.parse_args()
    sys.path[:0] = [str(options.llama_cpp), str(options.llama_cpp / "gguf-py")]
    model = import_module("conversion.base").TextModel
    model.get_vocab_base_pre = lambda *_: options.splits
    converter = options.llama_cpp / "convert_hf_to_gguf.py"
    sys.argv = [str(converter), str(options.model), "--outfile", str(options.out)]
    runpy.run_path(str(converter), run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main())
