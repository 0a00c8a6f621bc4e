"""Types of the compiled part. Its documentation is in docstrings (``help(verdigris.detect)``)."""

from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from typing import Any, Literal, Protocol, TypeAlias, TypedDict, TypeVar, Unpack, final, overload

__version__: str
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

class Error(ValueError): ...
class BadKey(Error): ...
class BadTokenizer(Error): ...
class BadModel(Error): ...
class BadText(Error): ...
class BadConstraint(Error): ...
class WrongType(Error, TypeError): ...

class _ArrowStream(Protocol):
    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...

class _ArrowArray(Protocol):
    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]: ...

_T = TypeVar("_T")
_Path: TypeAlias = str | PathLike[str]
# A tokenizer, its file or its model's folder, a fast tokenizer of `transformers`, or `None` for that of `tale`.
_Tokenizer: TypeAlias = Tokenizer | _Path | Any | None
_Keys: TypeAlias = Key | Ring | Iterable[Key | Ring]
_Texts: TypeAlias = Iterable[str | None] | _ArrowArray | _ArrowStream
_Repeats: TypeAlias = Literal["context", "draw", "nothing"]
# An array of int32, int64 or float32 with the buffer protocol: numpy's, `tensor.numpy()`, `array.array`.
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
        variants: int = 8,
        public_part: bool = False,
        model: str | None = None,
    ) -> Key: ...
    @staticmethod
    def lists(
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
    def published(self) -> Key: ...
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
    def variants(self) -> int: ...
    def variant(self, index: int) -> Key: ...
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
    verdict: Literal["marked", "marked in part", "forged", "not marked", "too short"]
    marked: bool
    error: str | None
    needed: int | None
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
    manifests: list[tuple[int, int]]
    passages: list[Passage] | None
    forced: int | None
    counted: list[tuple[int, int]] | None
    payload: int | None
    doubt: float | None
    variants: int | None
    public: bool
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
    tenant: str | None
    dialect: str
    vocabulary_size: int
    gamma: float | None
    scored: int
    z: float
    p: float
    log10_p: float
    marked: bool
    forged: bool
    public: bool
    repairs: list[tuple[str, int]]
    def to_dict(self) -> dict[str, Any]: ...

@final
class Payload:
    payload: int | None
    best: int | None
    marked: bool
    verdict: Literal["marked", "not marked", "too short"]
    error: str | None
    key_id: str
    level: float
    scored: int
    green: int
    log10_p: float
    doubt: float
    repairs: list[tuple[str, int]]
    def to_dict(self) -> dict[str, Any]: ...

@final
class Constraint:
    @staticmethod
    def regex(pattern: str, tokenizer: _Tokenizer = None, *, end: Sequence[int] | None = None) -> Constraint: ...
    @staticmethod
    def choice(
        texts: Sequence[str], tokenizer: _Tokenizer = None, *, end: Sequence[int] | None = None
    ) -> Constraint: ...
    @staticmethod
    def grammar(
        text: str,
        language: Literal["gbnf", "ebnf", "lark"],
        tokenizer: _Tokenizer = None,
        *,
        end: Sequence[int] | None = None,
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
    def with_thought(self, format: str) -> Constraint: ...
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

class _Options(TypedDict, total=False):
    max_tokens: int | None
    min_tokens: int | None
    stop: str | Sequence[str] | None
    regex: str | None
    choice: Sequence[str] | None
    json_schema: str | Mapping[str, Any] | bool | type | None
    constraint: Constraint | None
    watermark: Key | None
    payload: int | None
    entropy_threshold: float | None
    mark_after: float | None
    seed: int | None
    temperature: float | None
    top_k: int | None
    top_p: float | None
    min_p: float | None
    top_a: float | None
    typical_p: float | None
    epsilon_cutoff: float | None
    eta_cutoff: float | None
    xtc_probability: float | None
    xtc_threshold: float | None
    dynatemp_range: float | None
    dynatemp_exponent: float | None
    mirostat_tau: float | None
    mirostat_eta: float | None
    penalty_alpha: float | None
    repetition_penalty: float | None
    presence_penalty: float | None
    frequency_penalty: float | None
    no_repeat_ngram_size: int | None
    dry_multiplier: float | None
    dry_base: float | None
    dry_allowed_length: int | None
    logit_bias: Mapping[int, float] | None
    bad_words: str | Sequence[str] | None
    suppress_tokens: Sequence[int] | None
    draft: Engine | None
    lookup: bool | None
    token_healing: bool | None
    draft_tokens: int | None
    logprobs: int | None

@final
class Engine:
    @staticmethod
    def load(source: _Path) -> Engine: ...
    def request(self, prompt: str | Sequence[int], **options: Unpack[_Options]) -> Request: ...
    def chat(self, messages: str | Sequence[Mapping[str, Any]], **options: Unpack[_Options]) -> Request: ...
    @property
    def tokenizer(self) -> Tokenizer: ...
    @property
    def end(self) -> list[int]: ...
    @property
    def context_length(self) -> int: ...

@final
class Request:
    def text(self) -> Written: ...
    def texts(self, count: int) -> list[Written]: ...
    def prompts(self, prompts: Sequence[str | Sequence[int] | Sequence[Mapping[str, Any]]]) -> list[Written]: ...
    def stream(self) -> Stream: ...
    @overload
    def json(self, type: type[_T]) -> _T: ...
    @overload
    def json(self, type: Any) -> Any: ...

@final
class Stream:
    def __iter__(self) -> Stream: ...
    def __next__(self) -> str: ...
    @property
    def written(self) -> Written | None: ...

@final
class Written:
    text: str
    tokens: list[int]
    prompt_tokens: int
    stop: Literal["end", "length", "context", "stop_string", "cancelled"]
    stop_string: str | None
    complete: bool | None
    closed: bool
    seed: int
    calls: int | None
    drafted: int | None
    accepted: int | None
    logprobs: list[TokenLogprobs] | None
    mark: MarkCheck | None

@final
class MarkCheck:
    status: Literal["watermarked", "too_weak", "skipped"]
    reason: str | None
    scored: int
    log10_p: float

@final
class TokenLogprobs:
    chosen: Logprob
    top: list[Logprob]

@final
class Logprob:
    token: int
    text: str
    logprob: float
    rank: int

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
    constraint: Constraint | None = None,
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
    constraint: Constraint | None = None,
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
