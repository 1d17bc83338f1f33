"""Files as hypothesis draws them: valid ones with values of any kind put in, or bytes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from benchmarks.changes import TOKENS, WORST, file_of, places, value_of

NAMES = st.sampled_from(["", "x", "part", "type", "model_type", "vocab", "shape", "../x"]) | st.text(max_size=6)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([one for one in WORST if not isinstance(one, (list, dict))])
    | st.floats()
    | st.text(max_size=12)
)
JSON = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4), max_leaves=8
)
PLAINLY = settings(
    max_examples=50, deadline=None, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
)
"""Draw and nothing else."""


@st.composite
def documents(draw: st.DrawFn, document: Any) -> Any:
    """A JSON document with one to three of its values replaced, or gone."""
    document = copy.deepcopy(document)
    for _ in range(draw(st.integers(1, 3))):
        every = list(places(document))
        if not every:
            return draw(JSON)
        inside, key = every[draw(st.integers(0, len(every) - 1))]
        if draw(st.integers(0, 7)) == 0:
            del inside[key]
        else:
            inside[key] = draw(JSON)
    return document


@st.composite
def cut(draw: st.DrawFn, data: bytes) -> bytes:
    """Bytes of which a stretch is replaced by other bytes."""
    start = draw(st.integers(0, len(data)))
    end = draw(st.sampled_from([start, start + 1, start + 8, len(data)]))
    return data[:start] + draw(st.sampled_from(TOKENS) | st.binary(max_size=40)) + data[end:]


@st.composite
def contents(draw: st.DrawFn, name: str, data: bytes) -> bytes:
    """What a file of this name may hold instead of valid data: of JSON and of the heads of safetensors mostly other values,
    of packed files what is packed."""
    value = value_of(name, data)
    if value is None or draw(st.integers(0, 4)) == 0:
        return draw(cut(data))
    if isinstance(value, bytes):
        return file_of(name, draw(cut(value)), data)
    return file_of(name, draw(documents(value)), data)


def draw_files(valid: Mapping[str, bytes], number: int, take: Callable[[str, bytes], bool]) -> None:
    """Give `take` files, made of valid ones by name, until it says that it has enough. number: decides which."""
    enough = False
    while not enough:

        @seed(number)
        @settings(PLAINLY)
        @given(st.data())
        def one(data: st.DataObject) -> None:
            nonlocal enough
            name = data.draw(st.sampled_from(sorted(valid)))
            content = data.draw(contents(name, valid[name]))  # also what is not taken: hypothesis wants the same each time
            enough = enough or not take(name, content)

        one()
        number += 1
