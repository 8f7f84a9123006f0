"""Compaction: a conversation is replaced by a summary of it that the model writes."""
