"""The GPU: one stream, memory that is given back, graphs; everything that imports ``cuda``."""
