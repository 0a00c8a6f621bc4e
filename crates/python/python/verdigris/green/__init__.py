"""Green lists of native keys on any torch device, identical to those of the program. Needs torch and numpy.

>>> from verdigris.green import GreenLists
>>> lists = GreenLists([key], logits.device)                                   # doctest: +SKIP
>>> lists.mark(logits, which, contexts)                                        # doctest: +SKIP

``verdigris.vllm`` and ``verdigris.sglang`` use these, and custom engines can too.
"""

from .lists import GreenLists

__all__ = ["GreenLists"]
