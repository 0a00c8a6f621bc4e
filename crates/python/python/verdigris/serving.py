"""The configuration of a server that marks: its keys, from the environment, and the options of each request.

| variable | meaning |
|---|---|
| `VERDIGRIS_KEYS` | a key file, or a folder of them; without it nothing is marked |
| `VERDIGRIS_DEFAULT_KEY` | the id of the key for requests that name none; a single key is the default |
| `VERDIGRIS_MARK` | `default` marks unless a request opts out, `requested` only on request, `enforced` everything |
| `VERDIGRIS_TRITON` | 0 to make lists without Triton, 1 to require it; by default it is used if it is there |

| option of a request | meaning |
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
# The similarity to one of our options from which a name counts as a misspelling: `verdigris-key-id` and
# `verdgris_key_id` do, `vllm_key` does not.
_ALIKE = 0.8


class Policy:
    """The keys of a server, and which of them marks a request."""

    def __init__(
        self, keys: list[Key], default: str | None = None, mode: str = "default", *, triton: bool | None = None
    ) -> None:
        if mode not in _MODES:
            raise Error(f"{_MODE} is {mode!r}, but must be {', '.join(_MODES[:-1])} or {_MODES[-1]}")
        #: The keys that can mark on a device. `choose` returns indices into this list.
        self.keys: list[Key] = [key for key in keys if why_not(key) is None]
        self._refused = {key.id: why for key in keys if (why := why_not(key)) is not None}
        self._places = {key.id: place for place, key in enumerate(self.keys)}
        self._mode = mode
        #: Whether lists are made by a Triton kernel; by default on a GPU where Triton is installed.
        self.triton = triton
        if len(self._places) < len(self.keys):
            raise BadKey(f"two keys of {_KEYS} have the same id, so requests cannot name one of them: remove one")
        if default is None and len(keys) == 1:
            default = keys[0].id
        if default is None and keys and mode != "requested":
            raise BadKey(
                f"{_KEYS} has {len(keys)} keys, but no default for requests that name none: set {_DEFAULT} to an id, "
                f"or {_MODE}=requested"
            )
        self._default = None if default is None else self._place(default)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "Policy":
        """Reads the environment. Without keys the policy marks nothing, and refuses requests that ask for a mark."""
        path, mode = environment.get(_KEYS), environment.get(_MODE) or "default"
        if not path:
            if mode == "enforced":
                raise BadKey(f"{_MODE} is enforced, but there is no key: set {_KEYS} to a key file or a folder of them")
            return cls([], mode=mode)
        keys = Ring.load(path).keys if Path(path).is_dir() else [Key.load(path)]
        asked = environment.get(_TRITON) or None
        if asked not in (None, "0", "1"):
            raise Error(f"{_TRITON} is {asked!r}, but must be 0, not to use Triton, or 1, to require it")
        triton = None if asked is None else asked == "1"
        return cls(keys, environment.get(_DEFAULT) or None, mode, triton=triton)

    def choose(self, options: Mapping[str, Any] | None) -> int | None:
        """The index of the key that marks a request with these options, or `None` if it is not marked.

        Raises `Error` with a remedy for invalid options, so that no text is returned without its intended mark.
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
                raise Error(f"the request names a key but has {_WATERMARK}=0: leave one of them out")
            if self._mode == "enforced":
                raise Error(f"this server marks everything: leave {_WATERMARK}=0 out")
            return None
        if key_id is not None:
            return self._place(key_id)
        if wanted is None and (self._mode == "requested" or self._default is None):
            return None
        if self._default is None:
            raise BadKey(f"the request names no key, and this server has no default: {self._cure()}")
        return self._default

    def describe(self) -> str:
        """The keys and the mode, as one line for a log."""
        if not self.keys and not self._refused:
            return f"no keys ({_KEYS} is not set): nothing is marked"
        names = ", ".join(f"{key.id} ({key.description})" for key in self.keys) or "none that can mark on a device"
        default = "none" if self._default is None else self.keys[self._default].id
        left_out = f"; not usable here: {', '.join(sorted(self._refused))}" if self._refused else ""
        return f"mode {self._mode}, default key {default}, keys {names}{left_out}"

    def check(self, vocabulary_size: int, tokenizer: str | None = None) -> None:
        """Raises `BadKey` if a key is not for a model with this vocabulary size and the tokenizer in this folder."""
        file = Path(tokenizer or "") / "tokenizer.json"
        fingerprint = Tokenizer.load(file).fingerprint if tokenizer and self.keys and file.is_file() else None
        for key in self.keys:
            if key.vocabulary_size > vocabulary_size:
                raise BadKey(
                    f"the key {key.id} is for {key.vocabulary_size} tokens, but the model has {vocabulary_size}: keep "
                    "keys of other models in a separate folder"
                )
            if fingerprint not in (None, key.fingerprint):
                raise BadKey(
                    f"the key {key.id} was made for a different tokenizer than the model's, so its mark would never be "
                    "found: make one for this model"
                )

    def _place(self, key_id: str) -> int:
        if key_id in self._places:
            return self._places[key_id]
        if key_id in self._refused:
            raise BadKey(self._refused[key_id])
        raise BadKey(f"this server has no key {key_id!r}: {self._cure()}")

    def _cure(self) -> str:
        if self._places or self._refused:
            return f"name one that it has in {_KEY_ID}, or put its file into {_KEYS} and restart"
        return f"set {_KEYS} to a key file or a folder of them, and restart"

    def __repr__(self) -> str:
        return f"Policy({len(self.keys)} keys, {self._mode})"


def _is_meant_for_us(name: str) -> bool:
    """Whether an unknown option has our prefix, or is a misspelling of one of ours."""
    plain = name.lower().replace("-", "_")
    return plain.startswith("verdigris") or bool(difflib.get_close_matches(plain, (_KEY_ID, _WATERMARK), 1, _ALIKE))


def why_not(key: Key) -> str | None:
    """The reason that a key cannot mark on a device, or `None` if it can."""
    if key.context is None:
        what = f"marks by {key.dialect}"
    elif key.payload_bits is not None:
        what = "carries payloads"
    else:
        return None
    return (
        f"the key {key.id} {what}, which is not supported on a device: use a native key without a payload, or write "
        "with verdigris.hf or with the program"
    )


@cache
def policy() -> Policy:
    """The policy of the environment, read once in each process."""
    return Policy.from_environment()
