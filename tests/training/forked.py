"""torchrun for tests: the same agent, but its processes are forked from one that has imported everything, and start at once.

`python forked.py COUNT RESTARTS FILE.py [ARGUMENT …]` runs the file's `main(ARGUMENT, …)` in COUNT processes, and all of
them anew, up to RESTARTS times, when one dies. In the place of a file: `regard`, with the arguments of the command line.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch.distributed.launcher.api import LaunchConfig, elastic_launch

import regard.cli.train
import regard.training.loop


def command_line(*arguments: str) -> None:
    """The command line, in this process."""
    code = regard.cli.main(list(arguments))
    if code:
        raise SystemExit(code)


def plainly(work: Callable[..., Any]) -> Callable[..., Any]:
    """The work, with signals as a process has them that was not forked: the agent's handlers wait for what never comes."""

    def run(*arguments: str) -> None:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(number, signal.SIG_DFL)
        work(*arguments)

    return run


def function(name: str) -> Callable[..., Any]:
    """What the processes are to do."""
    if name == "regard":
        return command_line
    spec = importlib.util.spec_from_file_location(Path(name).stem, name)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.main


def main(count: str, restarts: str, name: str, *arguments: str) -> None:
    """Start the agent, and wait until all is done. ChildFailedError: it was not."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "3")
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=int(count),
        run_id=str(os.getpid()),
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        max_restarts=int(restarts),
        monitor_interval=0.05,
        start_method="fork",
    )
    elastic_launch(config, plainly(function(name)))(*arguments)


if __name__ == "__main__":
    main(*sys.argv[1:])
