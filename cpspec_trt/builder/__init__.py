"""From an exported directory to an engine: the build plan and one module per backend."""
