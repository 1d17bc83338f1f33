"""`python -m benchmarks NAME …`; each benchmark is a file beside this one."""

from __future__ import annotations

import importlib
import sys

NAMES = {
    "train": "training throughput of the same model and batches, regard beside torch.nn.Transformer and transformers",
    "serve": "requests a second, latency and memory of the server under many clients, beside one client",
    "reliability": "trainings killed at any moment, resumed, and compared with unbroken ones",
    "fuzz": "damaged and hostile files for every reader",
    "endurance": "memory, handles and threads over 10,000 updates and 100,000 translations",
    "flags": "precision and recall of flags on faults planted in translations",
    "sparse": "time and memory of window attention as the text grows, in blocks and in full",
}


def main() -> int:
    """Run the benchmark named first."""
    if len(sys.argv) < 2 or sys.argv[1] not in NAMES:
        print(
            "usage: python -m benchmarks NAME [OPTIONS]\n" + "\n".join(f"  {k}  {v}" for k, v in NAMES.items()),
            file=sys.stderr,
        )
        return 2
    return importlib.import_module(f"benchmarks.{sys.argv[1]}").main(sys.argv[2:])


sys.exit(main())
