"""Tests that take minutes or hours, and that pytest does not run: `python -m tests.long --list`.

The exit status is 1 if something is wrong. The files `test_*.py` are for pytest: they show that
each test can fail.
"""
