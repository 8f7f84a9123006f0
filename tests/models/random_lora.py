"""Makes a LoRA adapter of random weights for a model of `tiny_random.py`.

    python -m tests.models.random_lora MODEL_DIR ADAPTER_DIR

It changes every answer and teaches nothing: enough to tell that it was used.
"""

import json
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

RANK = 8


def make(model: Path, adapter: Path) -> None:
    """In PEFT's format, on the projections of queries and values."""
    config = json.loads((model / "config.json").read_text())
    hidden, head = config["hidden_size"], config["head_dim"]
    outputs = {
        "q_proj": config["num_attention_heads"] * head,
        "v_proj": config["num_key_value_heads"] * head,
    }
    rng = np.random.default_rng(1)
    tensors = {}
    for layer in range(config["num_hidden_layers"]):
        for name, width in outputs.items():
            place = f"base_model.model.model.layers.{layer}.self_attn.{name}"
            for half, shape in (("lora_A", (RANK, hidden)), ("lora_B", (width, RANK))):
                tensors[f"{place}.{half}.weight"] = rng.standard_normal(shape).astype(np.float32)
    adapter.mkdir(parents=True, exist_ok=True)
    save_file(tensors, adapter / "adapter_model.safetensors")
    settings = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": str(model),
        "target_modules": [*outputs],
        "r": RANK,
        "lora_alpha": 2 * RANK,
        "lora_dropout": 0.0,
        "bias": "none",
        "inference_mode": True,
    }
    (adapter / "adapter_config.json").write_text(json.dumps(settings, indent=1))


if __name__ == "__main__":
    make(Path(sys.argv[1]), Path(sys.argv[2]))
