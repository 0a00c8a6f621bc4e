"""Text that can be proved and guided: detection, constraints, marks, and models that write with them.

>>> import verdigris
>>> key = verdigris.Key.load("my.key")                 # doctest: +SKIP
>>> found = verdigris.detect(text, key)                # doctest: +SKIP
>>> found.marked, found.p, found.z                     # doctest: +SKIP
>>> engine = verdigris.Engine.load("model.gguf")       # doctest: +SKIP
>>> print(engine.chat("Who are you?", watermark=key).text())    # doctest: +SKIP

``verdigris.hf`` marks and constrains texts of ``transformers``. It must be imported separately, since it needs torch.
"""

from ._verdigris import (
    BadConstraint,
    BadKey,
    BadModel,
    BadText,
    BadTokenizer,
    Candidate,
    Constraint,
    Detection,
    Detections,
    Engine,
    Error,
    Key,
    Logprob,
    Mark,
    MarkCheck,
    Matcher,
    Passage,
    Payload,
    Request,
    Ring,
    Stream,
    TokenLogprobs,
    Tokenizer,
    Written,
    WrongType,
    __version__,
    detect,
    detect_many,
    identify,
    payload,
)

__all__ = [
    "BadConstraint",
    "BadKey",
    "BadModel",
    "BadText",
    "BadTokenizer",
    "Candidate",
    "Constraint",
    "Detection",
    "Detections",
    "Engine",
    "Error",
    "Key",
    "Logprob",
    "Mark",
    "MarkCheck",
    "Matcher",
    "Passage",
    "Payload",
    "Request",
    "Ring",
    "Stream",
    "TokenLogprobs",
    "Tokenizer",
    "Written",
    "WrongType",
    "__version__",
    "detect",
    "detect_many",
    "identify",
    "payload",
]
