"""Speculative decoding of one frame: rules, rounds, statistics."""
