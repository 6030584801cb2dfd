"""Requests through the stages."""
