"""Tokens to batches: tokenised corpora, a seeded and resumable order of batches, and what is predicted from what."""

from regard.batches.budget import find_budget
from regard.batches.collate import Batch, collate
from regard.batches.data import Examples, ResampledPairs, TokenisedPairs
from regard.batches.limits import Fitted, LengthReport, Limits
from regard.batches.objectives import Objective, Translation
from regard.batches.stream import Ordered, Share, Stream, ordered

__all__ = [
    "Batch",
    "Examples",
    "Fitted",
    "LengthReport",
    "Limits",
    "Objective",
    "Ordered",
    "ResampledPairs",
    "Share",
    "Stream",
    "TokenisedPairs",
    "Translation",
    "collate",
    "find_budget",
    "ordered",
]
