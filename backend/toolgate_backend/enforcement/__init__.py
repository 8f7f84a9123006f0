"""The enforcement of one sequence. Knows grammars and tokens, nothing of vLLM."""
