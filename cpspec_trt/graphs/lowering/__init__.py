"""Graph-to-graph passes from the exported fp32 graph to the form that a backend builds best."""
