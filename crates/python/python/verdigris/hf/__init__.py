"""Marks and constraints in what ``transformers`` writes. Needs torch, numpy and transformers 5.

>>> from verdigris.hf import WatermarkProcessor
>>> model.generate(**inputs, logits_processor=[WatermarkProcessor(key)])      # doctest: +SKIP

A processor of ``logits_processor`` acts before temperature, top-k and top-p, as Verdigris itself marks; one that
``watermarking_config=WatermarkConfig(key)`` makes acts after them, as those of transformers do.
"""

from .constraint import ConstraintProcessor
from .watermark import WatermarkConfig, WatermarkProcessor

__all__ = ["ConstraintProcessor", "WatermarkConfig", "WatermarkProcessor"]
