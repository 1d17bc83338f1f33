"""regard verify: a model folder against the reference implementation, layer by layer."""

from __future__ import annotations

import sys
from typing import Annotated

from typer import Argument, Exit, Option

from regard.errors import UserError


def command(
    model: Annotated[str, Argument(help="model folder, or name on the Hugging Face hub")],
    reference: Annotated[str, Option(help="what to compare with: transformers, which must be installed")] = "transformers",
    dtype: Annotated[list[str] | None, Option(help="float32 or float64; may be repeated (both)")] = None,
    length: Annotated[list[int] | None, Option(min=2, help="tokens of the inputs; may be repeated (9, 40, 100)")] = None,
    json: Annotated[str | None, Option("--json", help="write the certificate to this file too (-: stdout)")] = None,
) -> None:
    """Compare a model in regard and in the reference: every layer, logits, generated ids; with and without padding.

    A certificate, verify.json, is written into the folder. Exit code 1: they differ; the first layer that departs is named.
    """
    if reference != "transformers":
        raise UserError(f"reference {reference!r}: the only one is transformers")
    from regard.checkpoints.verify import LENGTHS, certify, verify
    from regard.files import write_json

    report = verify(model, dtype or ("float32", "float64"), length or LENGTHS)
    print("\n".join(report.lines()), file=sys.stderr if json == "-" else sys.stdout)
    try:
        print(f"certificate: {certify(report)}", file=sys.stderr)
    except OSError as error:
        print(f"no certificate in the folder: {error.strerror}", file=sys.stderr)
    if json is not None:
        write_json(json, report.json())
    if not report.equal:
        raise Exit(1)
