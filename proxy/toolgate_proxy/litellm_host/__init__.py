"""All code that uses private names of LiteLLM; private_names.py lists them."""
