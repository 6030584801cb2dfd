"""Effective sampling parameters of a request."""
