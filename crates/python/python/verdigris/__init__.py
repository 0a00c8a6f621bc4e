"""Text that can be proved and guided: detection, constraints and marks, without a model.

>>> import verdigris
>>> key = verdigris.Key.load("my.key")                 # doctest: +SKIP
>>> found = verdigris.detect(text, key)                # doctest: +SKIP
>>> found.marked, found.p, found.z                     # doctest: +SKIP

``verdigris.hf`` marks and constrains what ``transformers`` writes. It is imported by itself, for it needs torch.
"""

from ._verdigris import (
    BadConstraint,
    BadKey,
    BadText,
    BadTokenizer,
    Candidate,
    Constraint,
    Detection,
    Detections,
    Error,
    Key,
    Mark,
    Matcher,
    Passage,
    Payload,
    Ring,
    Tokenizer,
    __version__,
    detect,
    detect_many,
    identify,
    payload,
)

__all__ = [
    "BadConstraint",
    "BadKey",
    "BadText",
    "BadTokenizer",
    "Candidate",
    "Constraint",
    "Detection",
    "Detections",
    "Error",
    "Key",
    "Mark",
    "Matcher",
    "Passage",
    "Payload",
    "Ring",
    "Tokenizer",
    "__version__",
    "detect",
    "detect_many",
    "identify",
    "payload",
]
