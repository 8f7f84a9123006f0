"""Everything that touches a private name of LiteLLM."""
