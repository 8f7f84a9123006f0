"""The adapters between the automaton and vLLM.

Apart from the endpoint and the launcher, only this package depends on vLLM. All private names
of vLLM that it uses are listed in private_names.py.

The way of a mask, which is a `Row` of the automaton:

- logits_processor: `ListedMasks` applies it on a CPU (apply_masks.py). On a GPU, `DeviceMasks` has
  a table of rows there, and a step sends their numbers.
- structured_output: `StepMasks` writes it into the step's bitmask, unless it is there already, and
  vLLM sends and applies the bitmask. With drafts, vLLM's own loop asks `EnforcementGrammar`.
"""
