"""Enforcement of one sequence, in terms of grammars and tokens; independent of vLLM."""
