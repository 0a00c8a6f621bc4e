"""Green lists of native keys on any device of torch, bit for bit those of the program. Needs torch and numpy.

>>> from verdigris.green import GreenLists
>>> lists = GreenLists([key], logits.device)                                   # doctest: +SKIP
>>> lists.mark(logits, which, contexts)                                        # doctest: +SKIP

What ``verdigris.vllm`` and ``verdigris.sglang`` mark with; for engines of one's own as well.
"""

from .lists import GreenLists

__all__ = ["GreenLists"]
