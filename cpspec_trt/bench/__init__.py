"""The benchmark: autoregressive loop and speculation settings side by side, on the same engines and requests."""
