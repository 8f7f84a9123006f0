"""Benchmarks. `python -m bench --list` prints all of them; `python -m tests.long` has long tests.

- throughput: tokens per second compared with vLLM and LiteLLM, in batches or under constant load
- growth: cost of enforcement by number of tools, streams and tokens, and memory by schemas
- gateway_overhead: cost of the gateway compared with LiteLLM's `hosted_vllm/`
- engine_steps, gpu_engine: what enforcement adds to a step of vLLM's engine, without and with a GPU
- grammars, drafts: single parts, measured without a server
- interference, affinity: whole servers in one situation each
- exactness, families: wrong decisions of masks beside other engines, and walks of every dialect
- fleet_cost: what a large simulated fleet asks of replicas and Redis
- support: modules that several benchmarks share
"""
