"""A simulated GPU for tests: the runtime modules of CUDA and TensorRT over host memory, with every misuse a failure.

No GPU is involved and nothing here says how fast or how exact one is. Start at ``simulation.py``.
"""
