"""Trainer of the demo model: generator of conversations, tokenizer, network, export, evaluation."""
