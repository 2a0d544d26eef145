"""A child process that ends when its parent does, even when the parent is killed with -9.

On Linux the kernel sends the child a signal of its choice (PR_SET_PDEATHSIG) when the *thread*
that forked it ends; so fork from the main thread. Elsewhere nothing is sent.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable

PR_SET_PDEATHSIG = 1  # linux/prctl.h


def with_parent(sign: signal.Signals) -> Callable[[], None]:
    """What the child runs between fork and exec (after its change of user, which would undo it)."""
    parent = os.getpid()
    # found before the fork: the child of a process with threads must not load anything
    prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None

    def bind() -> None:
        if prctl is not None:
            prctl(PR_SET_PDEATHSIG, int(sign))
        if os.getppid() != parent:
            os._exit(1)  # it died before we could ask

    return bind
