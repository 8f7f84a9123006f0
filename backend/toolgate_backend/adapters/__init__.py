"""The automaton in vLLM's terms. Everything else in this package can be read without vLLM."""
