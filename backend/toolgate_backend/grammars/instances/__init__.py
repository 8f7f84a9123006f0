"""Instances of a schema under its masks: whether a model could write them, and if not, why."""
