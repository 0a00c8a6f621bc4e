"""Marks and constraints in texts of ``transformers``. Needs torch, numpy and transformers 5.

>>> from verdigris.hf import WatermarkProcessor
>>> model.generate(**inputs, logits_processor=[WatermarkProcessor(key)])      # doctest: +SKIP

A processor in ``logits_processor`` acts before temperature, top-k and top-p, where Verdigris itself marks. With
``watermarking_config=WatermarkConfig(key)`` the mark acts after them, like those of transformers.
"""

from .constraint import ConstraintProcessor
from .watermark import WatermarkConfig, WatermarkProcessor

__all__ = ["ConstraintProcessor", "WatermarkConfig", "WatermarkProcessor"]
