"""`regard translate` with a model that turns texts into capitals, for tests of what stands around models; loads no torch."""

import signal
import sys
import types


class Capitals:
    source = text = ""
    score = log_prob = 0.0
    finished = True
    unknown = truncated = 0
    alternatives = unkept = flags = ()

    def __init__(self, text):
        self.source, self.text = text, text.upper()


class Model:
    def translate(self, texts, **options):
        return [Capitals(text) for text in texts]


fake = types.ModuleType("regard.translator")
fake.load = lambda *given: Model()
sys.modules["regard.translator"] = fake

from regard import cli  # noqa: E402

signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background of a shell ignores it
code = cli.main(["translate", "folder", *sys.argv[1:]])
assert "torch" not in sys.modules
sys.exit(code)
