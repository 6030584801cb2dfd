"""Talker, CodePredictor and code2wav: each owns one engine and its caches."""
