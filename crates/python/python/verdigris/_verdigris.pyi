"""Types of the compiled part; what each does stands in its documentation (``help(verdigris.detect)``)."""

from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from typing import Any, Literal, Protocol, TypeAlias, final

__version__: str
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

class Error(ValueError): ...
class BadKey(Error): ...
class BadTokenizer(Error): ...
class BadText(Error): ...
class BadConstraint(Error): ...

class _ArrowStream(Protocol):
    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...

class _ArrowArray(Protocol):
    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]: ...

_Path: TypeAlias = str | PathLike[str]
# A tokenizer, its file or its model's folder, a fast one of `transformers`, or `None` for that of `tale`.
_Tokenizer: TypeAlias = Tokenizer | _Path | Any | None
_Keys: TypeAlias = Key | Ring | Iterable[Key | Ring]
_Texts: TypeAlias = Iterable[str | None] | _ArrowArray | _ArrowStream
_Repeats: TypeAlias = Literal["context", "draw", "nothing"]
# An array of int32, int64 or float32 that gives its memory: numpy's, `tensor.numpy()`, `array.array`.
_Buffer: TypeAlias = Any

@final
class Tokenizer:
    @staticmethod
    def load(path: _Path) -> Tokenizer: ...
    @staticmethod
    def from_json(json: str) -> Tokenizer: ...
    @staticmethod
    def from_transformers(tokenizer: Any) -> Tokenizer: ...
    @staticmethod
    def tale() -> Tokenizer: ...
    @property
    def vocabulary_size(self) -> int: ...
    @property
    def fingerprint(self) -> str: ...
    def encode(self, text: str) -> list[int]: ...
    def decode(self, tokens: Sequence[int]) -> str: ...

@final
class Key:
    @staticmethod
    def load(path: _Path) -> Key: ...
    @staticmethod
    def generate(
        tokenizer: _Tokenizer = None,
        *,
        id: str | None = None,
        gamma: float = 0.25,
        delta: float | None = ...,
        context: Literal["all", "min", "self-salted"] = "min",
        width: int = 4,
        payload_bits: int | None = None,
        model: str | None = None,
    ) -> Key: ...
    def save(self, path: _Path) -> None: ...
    @property
    def id(self) -> str: ...
    @property
    def tenant(self) -> str: ...
    @property
    def dialect(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def gamma(self) -> float | None: ...
    @property
    def context(self) -> tuple[Literal["all", "min", "self-salted"], int] | None: ...
    def write_sub_keys(self, into: _Buffer) -> None: ...
    @property
    def payload_bits(self) -> int | None: ...
    @property
    def vocabulary_size(self) -> int: ...
    @property
    def fingerprint(self) -> str: ...
    def marks_as(self, other: Key) -> bool: ...
    def __copy__(self) -> Key: ...
    def __deepcopy__(self, _memo: object) -> Key: ...

@final
class Ring:
    def __new__(cls, keys: Sequence[Key]) -> Ring: ...
    @staticmethod
    def load(path: _Path) -> Ring: ...
    @property
    def skipped(self) -> list[str]: ...
    @property
    def path(self) -> PathLike[str] | None: ...
    @property
    def keys(self) -> list[Key]: ...
    def __len__(self) -> int: ...
    def __getitem__(self, id: str, /) -> Key: ...

@final
class Passage:
    key_id: str
    start: int
    end: int
    scored: int
    z: float
    log10_p: float
    repairs: list[tuple[str, int]]
    def to_dict(self) -> dict[str, Any]: ...

@final
class Detection:
    verdict: Literal["marked", "marked in part", "not marked", "too short"]
    marked: bool
    error: str | None
    key_id: str
    dialect: str
    tokens: int
    scored: int
    score: float
    expected: float
    green: int | None
    z: float
    p: float
    log10_p: float
    looks: float
    level: float
    sampled: float
    repairs: list[tuple[str, int]]
    skipped: int
    passages: list[Passage] | None
    forced: int | None
    counted: list[tuple[int, int]] | None
    payload: int | None
    skipped_keys: list[str]
    def to_dict(self) -> dict[str, Any]: ...

@final
class Detections:
    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> Detection | None: ...
    @property
    def errors(self) -> dict[int, str]: ...
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]: ...

@final
class Candidate:
    candidate: str
    key_id: str
    dialect: str
    vocabulary_size: int
    gamma: float | None
    scored: int
    z: float
    p: float
    log10_p: float
    marked: bool

@final
class Payload:
    payload: int | None
    best: int
    marked: bool
    verdict: Literal["marked", "not marked", "too short"]
    scored: int
    green: int
    log10_p: float
    doubt: float

@final
class Constraint:
    @staticmethod
    def regex(pattern: str, tokenizer: _Tokenizer = None, *, end: Sequence[int] | None = None) -> Constraint: ...
    @staticmethod
    def choice(
        texts: Sequence[str], tokenizer: _Tokenizer = None, *, end: Sequence[int] | None = None
    ) -> Constraint: ...
    @staticmethod
    def json_schema(
        schema: str | Mapping[str, Any] | bool | type,
        tokenizer: _Tokenizer = None,
        *,
        end: Sequence[int] | None = None,
        closed: bool = False,
        any_order: bool = False,
        whitespace: Literal["compact", "spaced", "optional", "free"] = "optional",
        numbers: Literal["plain", "full"] = "plain",
    ) -> Constraint: ...
    def within(self, tokens: int) -> Constraint: ...
    def canonical(self) -> Constraint: ...
    def matcher(self, prompt: Sequence[int] = ...) -> Matcher: ...
    @property
    def vocabulary_size(self) -> int: ...
    @property
    def bitmask_words(self) -> int: ...
    @property
    def end(self) -> list[int]: ...
    def __copy__(self) -> Constraint: ...
    def __deepcopy__(self, _memo: object) -> Constraint: ...

@final
class Matcher:
    def fill_bitmask(self, bitmask: _Buffer, row: int = 0) -> None: ...
    def allowed_tokens(self) -> list[int]: ...
    def accept(self, token: int) -> bool: ...
    def rollback(self, tokens: int = 1) -> None: ...
    def is_accepting(self) -> bool: ...
    def is_finished(self) -> bool: ...
    def forced(self) -> list[int]: ...
    def explain(self, token: int) -> str: ...
    def __copy__(self) -> Matcher: ...
    def __deepcopy__(self, _memo: object) -> Matcher: ...
    def __len__(self) -> int: ...

@final
class Mark:
    def __new__(cls, key: Key, payload: int | None = None) -> Mark: ...
    @property
    def key_id(self) -> str: ...
    @property
    def delta(self) -> float | None: ...
    @property
    def context_width(self) -> int: ...
    @property
    def vocabulary_size(self) -> int: ...
    @property
    def bitmask_words(self) -> int: ...
    @property
    def reads_logits(self) -> bool: ...
    def fill_bitmask(self, tokens: _Buffer, bitmask: _Buffer) -> None: ...
    def apply(self, tokens: _Buffer, logits: _Buffer) -> None: ...
    def __copy__(self) -> Mark: ...
    def __deepcopy__(self, _memo: object) -> Mark: ...

def detect(
    text: str,
    key: _Keys,
    tokenizer: _Tokenizer = None,
    *,
    level: float | None = None,
    repeats: _Repeats = "context",
    windows: bool = False,
    repair: bool = True,
    offsets: int = 1,
    form: Constraint | None = None,
) -> Detection: ...
def detect_many(
    texts: _Texts,
    key: _Keys,
    tokenizer: _Tokenizer = None,
    *,
    level: float | None = None,
    repeats: _Repeats = "context",
    windows: bool = False,
    repair: bool = True,
    offsets: int = 1,
    form: Constraint | None = None,
) -> Detections: ...
def identify(
    text: str,
    keys: _Keys,
    tokenizer: _Tokenizer = None,
    *,
    vocabulary_sizes: Sequence[int] = ...,
    gammas: Sequence[float] = ...,
    repeats: _Repeats = "context",
    level: float | None = None,
) -> list[Candidate]: ...
def payload(text: str, key: Key, tokenizer: _Tokenizer = None, *, level: float | None = None) -> Payload: ...
