"""The command line: `regard VERB …`. Each verb is a thin file beside this one, imported only when it is used."""

from __future__ import annotations

import importlib
import io
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

VERBS = {
    "demo": "train a toy translator from nothing in two minutes and try it",
    "init": "write a commented recipe for your own parallel text",
    "data": "check and clean parallel text",
    "plan": "parameters, memory and time of a recipe, before running it",
    "train": "train a model by a recipe",
    "translate": "translate arguments or stdin, a line for a line",
    "generate": "go on with prompts, or answer in a chat",
    "classify": "label texts, pairs, tokens or images",
    "embed": "vectors of texts",
    "evaluate": "score a model or a file of translations",
    "compare": "compare two systems with paired bootstrap",
    "average": "average the weights of several model folders",
    "tune": "find the length penalty that suits a model, and keep it in its folder",
    "rerank": "find weights for choosing among a translator's best answers with further models",
    "pairs": "make parallel text out of text in one language",
    "extend": "add words, or a language's mark, to a trained model",
    "verify": "compare a model folder with transformers, layer by layer",
    "convert": "write a model of another program, or in another number type, as a model folder",
    "export": "write a model folder for another program",
    "shortlist": "learn which target tokens are likely, for faster translation",
    "inspect": "look at what attends to what, for one text",
    "lab": "measure a claim of the attention notes",
    "serve": "answer many people over HTTP",
    "info": "what a model folder holds",
}


def _help() -> str:
    width = max(map(len, VERBS))
    verbs = "\n".join(f"  {verb:<{width}}  {what}" for verb, what in VERBS.items())
    return (
        "usage: regard VERB [ARGUMENTS]\n\n"
        "Train, look into and serve attention models.\n\n"
        f"{verbs}\n\n"
        "`regard VERB --help` says more. Text goes in on stdin and out on stdout, logs go to stderr."
    )


def _run(verb: str, arguments: Sequence[str]) -> int:
    import typer

    module = importlib.import_module(f"regard.cli.{verb}")
    app = getattr(module, "app", None)
    if app is None:
        app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
        app.command()(module.command)
    command = typer.main.get_command(app)
    result = command.main(args=list(arguments), prog_name=f"regard {verb}", standalone_mode=False)
    return result if isinstance(result, int) else 0


def _nearest(verb: str) -> str:
    import difflib

    near = difflib.get_close_matches(verb, VERBS, 1)
    return f"did you mean {near[0]}?" if near else f"known: {', '.join(VERBS)}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; gives the exit code: 0, 2 for a user's mistake, 130 after Ctrl-C, 141 for a closed pipe."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    for name, mode in (("stdin", "r"), ("stdout", "r"), ("stderr", "w")):
        if getattr(sys, name) is None:  # whoever started us closed it; nothing can be written to a stdout that was not there
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        code = _main(arguments)
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # whoever read has enough; what is still to be flushed goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE


def _main(arguments: Sequence[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(_help())
        return 0
    if arguments[0] in ("-V", "--version"):
        import regard

        print(f"regard {regard.__version__}")
        return 0
    verb, rest = arguments[0], arguments[1:]
    if verb not in VERBS:
        return _fail(f"unknown verb {verb!r}; {_nearest(verb)}")
    return _guarded(verb, rest)


def _guarded(verb: str, rest: Sequence[str]) -> int:
    from regard.errors import UserError
    from regard.layers.memory import keep_memory

    keep_memory()
    try:
        import typer

        # Newer versions of typer carry their own click, whose errors are not those of the package click.
        mistake: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")
        try:
            return _run(verb, rest)
        except typer.Exit as end:
            return end.exit_code
        except typer.Abort:
            return 130
        except mistake as error:
            return _fail(error.format_message(), f"`regard {verb} --help` lists what it takes")
    except UserError as error:
        return _fail(str(error))
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        raise
    except io.UnsupportedOperation:
        return _fail("stdout is closed: there is nowhere to write the answer")
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        return _fail(f"{error.strerror or error}{where}")


def _fail(message: str, hint: str = "") -> int:
    print(f"regard: error: {message}" + (f" ({hint})" if hint else ""), file=sys.stderr)
    return 2
