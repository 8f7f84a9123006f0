"""The progress of a start: phases from vLLM's log, the download of a model, and their display."""
