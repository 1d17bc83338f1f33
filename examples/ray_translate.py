"""Translate a data set on a Ray cluster: python ray_translate.py MODEL 'in/*.parquet' COLUMN out/

Ray Data reads, spreads and writes; each worker holds one translator. Needs `pip install 'ray[data]'`.
"""

from __future__ import annotations

import sys
from typing import Any


class Translate:
    """What `Dataset.map_batches` takes: adds the translations of a column under the name of another.

    A worker opens the model once. options: those of `Translator.translate` (num_beams, length_penalty …).
    """

    def __init__(
        self, model: str, column: str, into: str = "translation", device: str | None = None, **options: Any
    ) -> None:
        import regard

        self.translator = regard.load(model, device=device)
        self.column, self.into, self.options = column, into, options

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """A batch of columns, with one more; a row for a row, in order."""
        texts = [str(text) for text in batch[self.column]]
        return {**batch, self.into: self.translator.translate(texts, **self.options)}


def main(model: str, pattern: str, column: str, output: str) -> None:
    """Translate a column of parquet files, a GPU for each worker where the cluster has GPUs."""
    import ray
    from ray.data import ActorPoolStrategy

    ray.init()
    gpus = int(ray.cluster_resources().get("GPU", 0))
    most = gpus or int(ray.cluster_resources()["CPU"])
    workers = ActorPoolStrategy(min_size=1, max_size=most)  # all at once would leave no CPU to read and write with
    data = ray.data.read_parquet(pattern)
    made = data.map_batches(
        Translate,
        fn_constructor_kwargs={"model": model, "column": column},
        batch_size=1024,
        num_gpus=1 if gpus else 0,
        compute=workers,
    )
    made.write_parquet(output)


if __name__ == "__main__":
    main(*sys.argv[1:5])
