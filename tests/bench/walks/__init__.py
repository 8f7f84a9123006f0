"""Tests of bench/walks."""
