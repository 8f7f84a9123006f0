"""The adapters between the automaton and vLLM.

Apart from the endpoint and the launcher, only this package depends on vLLM. All uses of vLLM's
private names are patched in here (vllm_host.py, engine_hooks.py, probe.py) or listed in
private_names.py.
"""
