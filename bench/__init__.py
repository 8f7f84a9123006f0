"""Benchmarks and long-running checks. `python -m bench --list` prints all of them.

- throughput: tokens per second compared with vLLM and LiteLLM
- growth: cost of enforcement by number of tools, streams, tokens and grammars
- gateway_overhead: cost of the gateway compared with LiteLLM's `hosted_vllm/`
- micro: single parts, measured without a server
- scenarios: whole servers in one situation each
- surface: each request parameter compared with vLLM's own server
- conformance: black-box evaluation of the chat endpoint
- fuzz: random requests
- support: modules that several benchmarks share
"""
