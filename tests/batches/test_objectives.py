from __future__ import annotations

import numpy as np

from regard.batches import Translation


def test_translation_takes_its_specials_from_the_tokenizers(words):
    words.target.pad, words.target.bos, words.target.eos = 9, 8, 7
    assert Translation.of(words) == Translation(pad=9, bos=8, eos=7)


def test_widths_are_the_columns_of_the_batch():
    examples = [(np.array([5, 6, 7]), np.array([8])), (np.array([5]), np.array([6, 9]))]
    batch = Translation()(examples, [0, 1], np.random.default_rng(0))
    source, target = Translation().widths(np.array([3, 1]), np.array([1, 2]))
    assert batch.layout.lengths(2).tolist() == source.tolist()
    assert batch.output_layout.lengths(2).tolist() == target.tolist()
    assert batch.targets.tolist() == [[8, 3, -100], [6, 9, 3]]
