"""The adapters between the automaton and vLLM.

Apart from the endpoint and the launcher, only this package depends on vLLM. All private names
of vLLM that it uses are listed in private_names.py.

The way of a mask, which is a `Row` of the automaton: `RowNumbers` gives it a number, and a table
(`ListedMasks` on a CPU, `DeviceMasks` on a GPU) has the rows by number and applies them.

- logits_processor: both are in the worker.
- structured_output: `StepMasks` numbers the masks of a step in the scheduler's process, vLLM sends
  them to the workers, and mask_worker.py applies them there. Bitmasks take their place in steps
  with vLLM's own grammars, and in servers whose workers cannot keep tables.
"""
