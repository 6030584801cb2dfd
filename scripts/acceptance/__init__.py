"""Measurements of acceptance: recorded frames, controlled laws, and tables of both."""
