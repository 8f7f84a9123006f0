"""`toolgate dialects` and `toolgate parse`."""
