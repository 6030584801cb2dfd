"""Authors the ONNX graphs of every component."""
