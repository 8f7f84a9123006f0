"""vLLM's scheduler with a fake model: drafts, preemption, aborts, moving rows, under masks."""
