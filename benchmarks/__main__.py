"""`python -m benchmarks NAME …`; each benchmark is a file beside this one."""

from __future__ import annotations

import importlib
import sys

NAMES = {
    "train": "training throughput, regard beside torch.nn.Transformer, transformers, Eole, OpenNMT-py and JoeyNMT",
    "quality": "BLEU after a given time, Eole with regard's settings beside regard in a share of the time",
    "products": "matrix products of a training step by MKL and by oneDNN",
    "decode": "decoding of the same weights, regard beside transformers and CTranslate2",
    "lm": "language models of nanoGPT's shape, training and generation, regard beside transformers",
    "attention": "time and memory of window attention as the text grows, in blocks and in full",
    "record": "what recording attention costs: nothing, one layer, all layers, and the weights of one",
    "start": "from nothing to the help and to the first translation, and what peers' imports cost",
    "memory": "peak memory of training and decoding beside the peers'",
    "serve": "requests a second, latency and memory of the server under many clients, beside one client",
    "page": "the page on 512 tokens in a browser: grid, pointer, memory, and the size of a file",
    "reliability": "trainings killed at any moment, resumed, and compared with unbroken ones",
    "fuzz": "damaged and hostile files for every reader",
    "endurance": "memory, handles and threads over 10,000 updates and 100,000 translations",
    "constraints": "promises kept, scores and time of required and forbidden phrases",
    "craft": "what ensembles, MBR and reranking gain, with bootstrap",
    "flags": "precision and recall of flags on faults planted in translations",
    "gpu": "training, packing, decoding and attention on a GPU, in at most eight minutes",
    "corpus": "millions of pairs prepared and trained on: memory, and how fast pairs come",
    "growth": "time and memory against the length of sentences, model size, corpus size and ranks, and their slopes",
    "plan": "what `regard plan` forecasts for ranks beside what they need",
    "tables": "write the figures of JSON files into the pages of the documentation",
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


if __name__ == "__main__":
    sys.exit(main())
