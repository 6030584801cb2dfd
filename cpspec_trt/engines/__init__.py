"""Running one engine: named inputs and outputs, two profiles, buffers bound once."""
