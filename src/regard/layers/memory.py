"""What the C library does with freed memory.

glibc hands large blocks back to the system as soon as they are free, and the next step faults them in again page by page:
a third of a training step on a CPU, and a part of a decoding step. `keep_memory` tells it to keep them. The process then
stays at its peak size.
"""

from __future__ import annotations

import ctypes
import os
import sys

M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX = -1, -2, -4


def keep_memory() -> bool:
    """Make glibc keep freed memory for reuse: no mmap for large blocks, no trimming. REGARD_MALLOC=system switches it
    off. True if it was done; False where there is no glibc."""
    if os.environ.get("REGARD_MALLOC") == "system" or not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    settings = ((M_MMAP_MAX, 0), (M_TRIM_THRESHOLD, 2**31 - 1), (M_TOP_PAD, 64 * 2**20))
    return all(mallopt(key, value) == 1 for key, value in settings)
