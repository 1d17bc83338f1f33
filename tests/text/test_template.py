"""What stands around texts, against the library's own post-processors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tokenizers import Tokenizer as Backend
from tokenizers import models, pre_tokenizers, processors

from regard.errors import UserError
from regard.text.template import Template, edged_template, read_template
from regard.text.tokenizer import Tokenizer

SPECIAL = ["<a>", "<b>"]
VOCABULARY = {name: number for number, name in enumerate([*SPECIAL, "x", "y", "z"])}
PROCESSORS = {
    "none": None,
    "bert": processors.BertProcessing(("<b>", 1), ("<a>", 0)),
    "roberta": processors.RobertaProcessing(("<b>", 1), ("<a>", 0)),
    "bytes": processors.ByteLevel(trim_offsets=True),
    "template": processors.TemplateProcessing("<a> $A <b>", "<a> $B:2 <b>:2 <a>:1 $A:0", [("<a>", 0), ("<b>", 1)]),
    "sequence": processors.Sequence(
        [processors.ByteLevel(trim_offsets=True), processors.TemplateProcessing("<a> $A", "<a> $A $B:1", [("<a>", 0)])]
    ),
}


def backend(kind: str) -> Backend:
    made = Backend(models.WordLevel(VOCABULARY, "z"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.add_special_tokens(SPECIAL)
    if PROCESSORS[kind] is not None:
        made.post_processor = PROCESSORS[kind]
    return made


@pytest.mark.parametrize("kind", PROCESSORS)
def test_wrapped_as_the_library_wraps(kind: str, tmp_path: Path) -> None:
    reference = backend(kind)
    reference.save(str(tmp_path / "tokenizer.json"))
    its = Tokenizer.open(tmp_path)
    texts = ["x y", "y", "", "z z z x"]
    for first in texts:
        want = reference.encode(first)
        assert its.wrap(its.encode(first)) == (want.ids, want.type_ids)
        assert its.template.added() == len(want.ids) - len(first.split())
        for second in texts:
            want = reference.encode(first, second)
            assert its.wrap(its.encode(first), its.encode(second)) == (want.ids, want.type_ids)
            assert its.template.added(pair=True) == len(want.ids) - len((first + " " + second).split())


def test_what_stands_before_a_text() -> None:
    assert read_template(json.loads(backend("bert").to_str())["post_processor"]).before() == [0]
    assert edged_template(None, 7).before() == []
    assert Template().wrap([1, 2], [3]) == ([1, 2, 3], [0, 0, 1])


def test_edges_as_add_bos_token_and_add_eos_token_ask() -> None:
    assert edged_template(5, 6).wrap([1], [2]) == ([5, 1, 6, 5, 2, 6], [0, 0, 0, 1, 1, 1])
    assert edged_template(None, None).wrap([1]) == ([1], [0])


def test_unknown_kinds_are_refused() -> None:
    with pytest.raises(UserError, match=r"here: the post-processor Wrapping is not known"):
        read_template({"type": "Wrapping"}, "here")
    two = {"type": "Sequence", "processors": [{"type": "BertProcessing"}, {"type": "TemplateProcessing"}]}
    with pytest.raises(UserError, match="has 2 post-processors"):
        read_template(two)
