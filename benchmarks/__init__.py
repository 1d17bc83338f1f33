"""Figures, side by side with peers: `python -m benchmarks train`."""
