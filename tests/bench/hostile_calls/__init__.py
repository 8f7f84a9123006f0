"""Tests of bench/hostile_calls."""
