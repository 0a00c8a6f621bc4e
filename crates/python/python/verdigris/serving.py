"""What a server that marks is told: its keys, by the environment, and what a request wants, by its own options.

| variable | what it says |
|---|---|
| `VERDIGRIS_KEYS` | a key file, or a folder of them; without it nothing is marked |
| `VERDIGRIS_DEFAULT_KEY` | the id of the key for requests that name none; of one key, that one |
| `VERDIGRIS_MARK` | `default` marks what does not opt out, `requested` what asks, `enforced` everything |
| `VERDIGRIS_TRITON` | 1 to make lists by a kernel of Triton's |

| option of a request | what it says |
|---|---|
| `verdigris_key_id` | the id of the key to mark with |
| `verdigris_watermark` | 1 to mark, 0 not to |
"""

import difflib
import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from . import BadKey, Error, Key, Ring, Tokenizer

_KEYS, _DEFAULT, _MODE = "VERDIGRIS_KEYS", "VERDIGRIS_DEFAULT_KEY", "VERDIGRIS_MARK"
_TRITON = "VERDIGRIS_TRITON"
_KEY_ID, _WATERMARK = "verdigris_key_id", "verdigris_watermark"
_MODES = ("default", "requested", "enforced")
# How alike a name must be to one of ours to be taken for a misspelling of it: `verdigris-key-id` and `verdgris_key_id`
# are, `vllm_key` is not.
_ALIKE = 0.8


class Policy:
    """The keys of a server, and which of them marks a request."""

    def __init__(
        self, keys: list[Key], default: str | None = None, mode: str = "default", *, triton: bool = False
    ) -> None:
        if mode not in _MODES:
            raise Error(f"{_MODE} is {mode!r}, but must be {', '.join(_MODES[:-1])} or {_MODES[-1]}")
        #: Those that marks can be made with on a device; requests are told of them by their places here.
        self.keys = [key for key in keys if why_not(key) is None]
        self._refused = {key.id: why for key in keys if (why := why_not(key)) is not None}
        self._places = {key.id: place for place, key in enumerate(self.keys)}
        self._mode = mode
        #: Whether lists are made by a kernel of Triton's.
        self.triton = triton
        if len(self._places) < len(self.keys):
            raise BadKey(f"two keys of {_KEYS} have the same id, so that requests cannot name one: leave one out")
        if default is None and len(keys) == 1:
            default = keys[0].id
        if default is None and keys and mode != "requested":
            raise BadKey(
                f"{_KEYS} has {len(keys)} keys, and none is for requests that name none: set {_DEFAULT} to an id, or "
                f"{_MODE}=requested"
            )
        self._default = None if default is None else self._place(default)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "Policy":
        """What the environment says. Without keys it marks nothing, and refuses requests that ask for a mark."""
        path, mode = environment.get(_KEYS), environment.get(_MODE) or "default"
        if not path:
            if mode == "enforced":
                raise BadKey(f"{_MODE} is enforced, but there is no key: set {_KEYS} to a key file or a folder of them")
            return cls([], mode=mode)
        keys = Ring.load(path).keys if Path(path).is_dir() else [Key.load(path)]
        triton = environment.get(_TRITON) == "1"
        return cls(keys, environment.get(_DEFAULT) or None, mode, triton=triton)

    def choose(self, options: Mapping[str, Any] | None) -> int | None:
        """The place of the key that marks a request with such options; `None` where nothing does.

        Raises `Error`, with what to do, for options that cannot be followed: so that no text goes out without the mark
        that was meant.
        """
        given = dict(options or {})
        key_id, wanted = given.pop(_KEY_ID, None), given.pop(_WATERMARK, None)
        for name in sorted(map(str, given)):
            if _is_meant_for_us(name):
                raise Error(f"there is no option {name!r}: there are {_KEY_ID} and {_WATERMARK}")
        if wanted not in (None, 0, 1):
            raise Error(f"{_WATERMARK} is {wanted!r}, but must be 1, to mark, or 0, not to")
        if key_id is not None and not isinstance(key_id, str):
            raise Error(f"{_KEY_ID} is {key_id!r}, but must be the id of a key, a string")
        if wanted == 0:
            if key_id is not None:
                raise Error(f"the request names a key and has {_WATERMARK}=0: leave one of them out")
            if self._mode == "enforced":
                raise Error(f"this server marks everything: leave {_WATERMARK}=0 out")
            return None
        if key_id is not None:
            return self._place(key_id)
        if wanted is None and (self._mode == "requested" or self._default is None):
            return None
        if self._default is None:
            raise BadKey(f"the request names no key to mark with, and this server has none for it: {self._cure()}")
        return self._default

    def describe(self) -> str:
        """The keys and the mode, in one line for a log."""
        if not self.keys and not self._refused:
            return f"no keys ({_KEYS} is not set): nothing is marked"
        names = ", ".join(f"{key.id} ({key.description})" for key in self.keys) or "none that an engine can write"
        default = "none" if self._default is None else self.keys[self._default].id
        left_out = f"; not usable here: {', '.join(sorted(self._refused))}" if self._refused else ""
        return f"mode {self._mode}, default key {default}, keys {names}{left_out}"

    def check(self, vocabulary_size: int, tokenizer: str | None = None) -> None:
        """Raises `BadKey` if a key is not for a model: one of so many tokens, with a tokenizer in that folder."""
        file = Path(tokenizer or "") / "tokenizer.json"
        fingerprint = Tokenizer.load(file).fingerprint if tokenizer and self.keys and file.is_file() else None
        for key in self.keys:
            if key.vocabulary_size > vocabulary_size:
                raise BadKey(
                    f"the key {key.id} is for {key.vocabulary_size} tokens, but the model has {vocabulary_size}: keep "
                    "keys of other models in a folder of their own"
                )
            if fingerprint not in (None, key.fingerprint):
                raise BadKey(
                    f"the key {key.id} was made for another tokenizer than that of the model, so that its texts would "
                    "never be found: make one for this model"
                )

    def _place(self, key_id: str) -> int:
        if key_id in self._places:
            return self._places[key_id]
        if key_id in self._refused:
            raise BadKey(self._refused[key_id])
        raise BadKey(f"this server has no key {key_id!r}: {self._cure()}")

    def _cure(self) -> str:
        if self._places or self._refused:
            return f"name one that it has in {_KEY_ID}, or put its file into {_KEYS} and start again"
        return f"set {_KEYS} to a key file or a folder of them, and start again"

    def __repr__(self) -> str:
        return f"Policy({len(self.keys)} keys, {self._mode})"


def _is_meant_for_us(name: str) -> bool:
    """Whether an option that is none of ours is a misspelling of one, or has our prefix."""
    plain = name.lower().replace("-", "_")
    return plain.startswith("verdigris") or bool(difflib.get_close_matches(plain, (_KEY_ID, _WATERMARK), 1, _ALIKE))


def why_not(key: Key) -> str | None:
    """Why a key cannot mark on a device; `None` where it can."""
    if key.context is None:
        what = f"marks by {key.dialect}"
    elif key.payload_bits is not None:
        what = "carries numbers"
    else:
        return None
    return (
        f"the key {key.id} {what}, which engines on a device cannot write: use a native key that carries no number, or "
        "write with verdigris.hf or with the program"
    )


@cache
def policy() -> Policy:
    """That of the environment, read once for a process."""
    return Policy.from_environment()
