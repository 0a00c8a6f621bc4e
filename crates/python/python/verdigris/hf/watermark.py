"""Marks in texts of transformers."""

import json
from collections.abc import Generator
from typing import Any

import numpy
import torch
from transformers import LogitsProcessor
from transformers.generation.configuration_utils import BaseWatermarkingConfig

from verdigris import BadKey, Error, Key, Mark

from ..bits import expand


class WatermarkProcessor(LogitsProcessor):
    """Prefers green tokens in each text of a batch, for native keys and other dialects with colours.

    Tokens are not marked while the text is shorter than the key's context. Padding on the left counts as text.

    Continuous batching shows a processor only the last token of each text, so only keys whose context is one token can
    mark there. Others raise `Error`, since a warning alone would let texts be written without a mark.
    """

    supports_continuous_batching = True

    def __init__(self, key: Key, payload: int | None = None) -> None:
        self.mark: Mark = Mark(key, payload)

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        width = self.mark.context_width
        if input_ids.dim() == 1:
            if width > 1:
                raise Error(
                    f"the key {self.mark.key_id} reads {width} tokens, but continuous batching shows only the last one"
                    ": make a key with context='all' and width=1, or call generate"
                )
            input_ids = input_ids.unsqueeze(1)
        tokens = input_ids[:, -width:].to("cpu", torch.int64).contiguous().numpy()
        if self.mark.reads_logits:
            logits = scores.to("cpu", torch.float32, copy=True).contiguous()
            self.mark.apply(tokens, logits.numpy())
            return logits.to(scores)
        bitmask = numpy.zeros((len(tokens), self.mark.bitmask_words), numpy.int32)
        self.mark.fill_bitmask(tokens, bitmask)
        green = expand(torch.from_numpy(bitmask).to(scores.device), scores.shape[1])
        if self.mark.delta is not None:
            return torch.where(green, scores + self.mark.delta, scores)
        # If no green token is allowed, the row is unchanged.
        some = (green & (scores > -torch.inf)).any(dim=1, keepdim=True)
        return scores.masked_fill(some & ~green, -torch.inf)


class WatermarkConfig(BaseWatermarkingConfig):
    """`model.generate(watermarking_config=WatermarkConfig(key))` marks after temperature, top-k and top-p.

    Give it to `generate`, and do not put it into the `generation_config` of a model that is saved: a key belongs in a
    separate file, so only its name would be saved, with which transformers cannot load the model again.
    """

    def __init__(self, key: Key, payload: int | None = None) -> None:
        self.key = key
        self.payload = payload

    def construct_processor(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, vocab_size: int, device: Any = None
    ) -> WatermarkProcessor:
        processor = WatermarkProcessor(self.key, self.payload)
        if processor.mark.vocabulary_size > vocab_size:
            raise BadKey(
                f"the key {self.key.id} is for {processor.mark.vocabulary_size} tokens, but the model has {vocab_size}"
                ": choose the model that goes with the key"
            )
        return processor

    def validate(self) -> None:
        WatermarkProcessor(self.key, self.payload)

    def to_dict(self) -> dict[str, Any]:
        """The public fields: the key's name, and nothing about its secret."""
        return {"key_id": self.key.id, "dialect": self.key.dialect, "payload": self.payload}

    def to_json_string(self) -> str:
        return json.dumps(self.to_dict(), indent=2) + "\n"

    def __iter__(self) -> Generator[tuple[str, Any], None, None]:
        yield from self.to_dict().items()

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any], **kwargs: Any) -> "WatermarkConfig":
        raise BadKey("a key is not saved with a configuration: make WatermarkConfig(Key.load(path))")
