"""Compiled grammars of tool schemas: cached in memory and in Redis, compiled by backends."""
