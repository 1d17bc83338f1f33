"""Decoding: the same weights and sentences in regard, transformers' generate and CTranslate2, in batches or one at a time.

`python -m benchmarks decode MODEL`: the folder of a translator that transformers opens and CTranslate2 computes. A system is
NAME[:VARIANT]@PROCESSESxTHREADS[/BATCH], such as regard:int8+shortlist@2x1 or ctranslate2:int8@1x2/4096; without BATCH,
--batch-tokens holds. Answers are scored, so that what a faster way costs is seen beside it; peaks of memory count
the processes that it starts.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import environments
from benchmarks.measure import Run, call, figures, in_turns, machine, parser, ratios, told

WORKER = Path(__file__).parent / "peers" / "decode.py"
SYSTEMS = (
    "regard:compiled@2x1,regard:compiled+shortlist@2x1,regard@2x1/2048,transformers@1x2,"
    "ctranslate2:float32@2x1,ctranslate2:float32@1x2,ctranslate2:int8@2x1"
)
ONE = "regard:compiled@1x1,regard@1x1,transformers@1x2,ctranslate2:float32@1x1,ctranslate2:float32@1x2,ctranslate2:int8@1x1"


def main(arguments: list[str]) -> int:
    """Command line of this benchmark."""
    its = parser("decode", __doc__)
    its.add_argument("model", help="folder of a translator")
    its.add_argument("--data", default="multi30k", help="named test set, or SOURCES,REFERENCES")
    its.add_argument("--beams", type=int, default=5)
    its.add_argument("--batch-tokens", type=int, default=1024, help="source tokens of a batch; 1: a sentence at a time")
    its.add_argument("--count", type=int, default=1000, help="sentences")
    its.add_argument("--systems", default="", help=f"by commas; default: {SYSTEMS}")
    options = its.parse_args(arguments)
    names = (options.systems or (ONE if options.batch_tokens == 1 else SYSTEMS)).split(",")
    with tempfile.TemporaryDirectory() as folder:
        scene = Scene(options, Path(folder))
        systems = {name: scene.system(name) for name in names}
        found = in_turns(systems, options.rounds, "sentences")
        report: dict[str, Any] = {"benchmark": "decode", "machine": machine(), "beams": options.beams}
        report |= {"batch_tokens": options.batch_tokens, "sentences": len(scene.ids), "versions": scene.versions}
        report["systems"] = figures(found)
        report["ratios"] = {name: ratios(found, "sentences", name) for name in names if name.startswith("regard")}
        report["bleu"] = {name: scene.bleu(name) for name in names}
        report["same_answers"] = {name: scene.same(names[0], name) for name in names[1:]}
    return told(report, options.json)


class Scene:
    """What all systems share: the ids of the sentences, and the exports of the model."""

    def __init__(self, options: Any, folder: Path) -> None:
        from regard.evaluation.task import task_of_pairs
        from regard.text.named import NAMED, find
        from regard.translator import load

        self.options, self.folder = options, folder
        self.translator = load(options.model, device="cpu", dtype="float32")
        languages = self.translator.meta.get("source") or "en", self.translator.meta.get("target") or "fr"
        named = find(options.data, "test", *languages) if options.data in NAMED else options.data
        self.task = task_of_pairs(named, *languages).first(options.count)
        texts = list(self.task.sources or ())
        self.ids = [self.translator.frame(ids)[0][0] for ids in self.translator.tokenizer.encode_batch(texts)]
        (folder / "ids.json").write_text(json.dumps(self.ids), encoding="utf-8")
        self.versions: dict[str, str] = {}

    def system(self, name: str) -> Callable[[], Run]:
        """A run of NAME[:VARIANT]@PROCESSESxTHREADS[/BATCH]."""
        what, _, how = name.partition("@")
        how, _, batch = how.partition("/")
        engine, _, variant = what.partition(":")
        processes, _, threads = (how or "1x1").partition("x")
        python, model = sys.executable, str(self.options.model)
        if engine != "regard":
            python = environments.interpreter(engine, self.options.installed)
            self.versions[engine] = environments.version(engine, python)
        if engine == "ctranslate2":
            model = str(self._exported())
        told = ["--system", engine, "--model", model, "--variant", variant, "--ids", str(self.folder / "ids.json")]
        told += ["--answers", str(self._answers(name)), "--workers", processes, "--threads", threads]
        told += ["--beams", str(self.options.beams), "--batch-tokens", batch or str(self.options.batch_tokens)]
        return lambda: call(python, WORKER, *told)

    def bleu(self, name: str) -> float:
        """Of a system's last answers (13a)."""
        from regard.evaluation.scores import Scoring, score

        texts = self.translator.tokenizers.target.decode_batch(self._read(name))
        found = score(texts, self.task.references, ["bleu"], self.task.target_language, options=Scoring())
        return round(found["bleu"].value, 2)

    def same(self, name: str, other: str) -> float:
        """Share of sentences whose answers are the same in two systems."""
        pairs = list(zip(self._read(name), self._read(other), strict=True))
        return round(sum(one == two for one, two in pairs) / len(pairs), 4)

    def _answers(self, name: str) -> Path:
        return self.folder / f"{name.translate(str.maketrans(':@/', '---'))}.answers.json"

    def _read(self, name: str) -> list[list[int]]:
        return json.loads(self._answers(name).read_text(encoding="utf-8"))

    def _exported(self) -> Path:
        from regard.serving.export import export_ctranslate2, vocabulary

        folder = self.folder / "ctranslate2"
        if not folder.exists():
            export_ctranslate2(self.translator, folder)
            its = self.translator.model.description
            source = vocabulary(self.translator.tokenizers.source, its.encoder.embed.vocab_size)
            target = vocabulary(self.translator.tokenizers.target, its.head.vocab_size)
            (folder / "names.json").write_text(json.dumps({"source": source, "target": target}), encoding="utf-8")
        return folder
