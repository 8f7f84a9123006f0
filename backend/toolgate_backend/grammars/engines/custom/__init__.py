"""Grammars of custom tools: Lark and regular expressions that a client defines."""
