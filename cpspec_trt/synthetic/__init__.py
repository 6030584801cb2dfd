"""Checkpoints of any size made from a seed."""
