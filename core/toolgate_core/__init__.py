"""The contract both sides of Toolgate share. Pure Python: no vllm, litellm, torch, I/O or clock."""
