"""The tokenizer seam: a name to a tokenizer, a column of text to flat token buffers.

fastokens does the work (65 MB per CPU-second with Tekken where Hugging Face `tokenizers` does 1 to 2). `tokenizers`
takes the files fastokens refuses, and is the oracle of `check_agreement`, which each run calls on a sample.

Text is only ever text: "<s>" or "[INST]" in a web page becomes the tokens of those characters, never a special id, and
no BOS or EOS is added here (`shards.add_boundaries`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

import fastokens
import numpy as np
import pyarrow as pa
import tokenizers

from tamiz.errors import ConfigError, RunError
from tamiz.pack.tekken import cache_tekken
from tamiz.pack.vocabulary import Vocabulary, read_vocabulary
from tamiz.schema import I32, I64, view_text

BATCH_DOCUMENTS = 500
BATCH_BYTES = 4_000_000  # a longer document is a batch of its own; bounds the Python strings and token buffers held
AGREEMENT_BYTES = 100_000  # longer documents are left out of check_agreement: the oracle takes seconds for a few MB

_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")


class Engine(Protocol):
    """A tokenizer library behind the seam."""

    def encode(self, texts: list[str]) -> tuple[I32, I64]:
        """ids int32[] of all texts in a row, offsets int64[len(texts) + 1]."""
        ...

    def decode(self, ids: list[int]) -> str: ...


class FastEngine:
    """fastokens. Its threads are set by the environment: FASTOKENS_BPE_THREADS=1 and RAYON_NUM_THREADS=1 in workers."""

    def __init__(self, content: str) -> None:
        self._model = fastokens.Tokenizer.from_json_str(content)
        self._model.no_truncation()
        self._model.no_padding()

    def encode(self, texts: list[str]) -> tuple[I32, I64]:
        ids, offsets = self._model.encode_batch_flat(texts, add_special_tokens=False, split_special_tokens=True)
        return np.frombuffer(ids, dtype=np.int32), np.frombuffer(offsets, dtype=np.int64)

    def decode(self, ids: list[int]) -> str:
        return str(self._model.decode(ids, skip_special_tokens=False))


class SlowEngine:
    """Hugging Face tokenizers."""

    def __init__(self, content: str) -> None:
        self._model = tokenizers.Tokenizer.from_str(content)
        self._model.no_truncation()
        self._model.no_padding()
        self._model.encode_special_tokens = True

    def encode(self, texts: list[str]) -> tuple[I32, I64]:
        ids = [encoding.ids for encoding in self._model.encode_batch_fast(texts, add_special_tokens=False)]
        offsets = np.zeros(len(ids) + 1, dtype=np.int64)
        np.cumsum([len(row) for row in ids], out=offsets[1:])
        return np.fromiter((i for row in ids for i in row), dtype=np.int32, count=int(offsets[-1])), offsets

    def decode(self, ids: list[int]) -> str:
        return str(self._model.decode(ids, skip_special_tokens=False))


class Tokenizer(NamedTuple):
    """A loaded tokenizer. Not picklable: each process loads its own, by name.

    `fingerprint` is the SHA-256 of the tokenizer.json in hex. `pad_id` is the id of EOS when the file has no padding
    token. `is_lossless` means that decoding the ids of any text gives back its bytes.
    """

    name: str
    fingerprint: str
    path: Path  # the tokenizer.json
    n_vocab: int
    bos_id: int | None
    eos_id: int
    pad_id: int
    is_lossless: bool
    engine: Engine

    def encode(self, text: pa.LargeStringArray) -> tuple[I32, I64]:
        """values int32[] and offsets int64[len(text) + 1]: document i is values[offsets[i]:offsets[i + 1]].

        No BOS or EOS. Raises SchemaError on null texts, RunError naming the text that the library cannot encode.
        """
        parts = [self._encode_batch(text.slice(first, n).to_pylist()) for first, n in cut_batches(text)]
        offsets = np.zeros(len(text) + 1, dtype=np.int64)
        if not parts:
            return np.zeros(0, dtype=np.int32), offsets
        np.cumsum(np.concatenate([np.diff(part) for _, part in parts]), out=offsets[1:])
        return np.concatenate([values for values, _ in parts]), offsets

    def decode(self, values: I32) -> str:
        """The text of one document's tokens, special tokens spelled out. For many documents see decode.py."""
        return self.engine.decode(values.tolist())

    def _encode_batch(self, texts: list[str]) -> tuple[I32, I64]:
        """A pattern that backtracks can exceed a limit of the regular-expression engine: fastokens then raises
        ValueError, tokenizers panics, which Python sees as a BaseException. No published pattern is known to do so.
        """
        try:
            return self.engine.encode(texts)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            if len(texts) > 1:  # one by one, to name the text
                for text in texts:
                    self._encode_batch([text])
            raise RunError(f"pack.tokenizer: {self.name!r} cannot encode {texts[0][:80]!r}: {error}") from error


def cut_batches(text: pa.LargeStringArray) -> Iterator[tuple[int, int]]:
    """(first, count) of consecutive slices of at most BATCH_DOCUMENTS documents and, unless it is one, BATCH_BYTES."""
    offsets, _ = view_text(text)
    first = 0
    while first < len(text):
        past = int(np.searchsorted(offsets, offsets[first] + BATCH_BYTES, side="right")) - 1
        n = min(max(past - first, 1), BATCH_DOCUMENTS, len(text) - first)
        yield first, n
        first += n


def load_tokenizer(name: str, cache_dir: Path, eos: str | None = None) -> Tokenizer:
    """The tokenizer called `name`: "tekken", the path of a tokenizer.json, or a Hub repository (owner/name).

    `cache_dir` receives the tokenizer.json made for Tekken; Hub files go to the Hub client's own cache. `eos` names the
    end-of-document token of a file whose own has no well-known name. Raises ConfigError naming pack.tokenizer.
    """
    path = find_tokenizer_file(name, cache_dir)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"pack.tokenizer: {name!r} cannot be read: {error}") from error
    vocabulary: Vocabulary = read_vocabulary(content, name, eos)
    return Tokenizer(
        name=name,
        fingerprint=hashlib.sha256(content).hexdigest(),
        path=path,
        engine=load_engine(content.decode("utf-8"), name),
        **vocabulary._asdict(),
    )


def find_tokenizer_file(name: str, cache_dir: Path) -> Path:
    """Where the tokenizer.json of `name` is, after making or downloading it if needed."""
    if name == "tekken":
        return cache_tekken(cache_dir)
    path = Path(name).expanduser()
    if path.is_file():
        return path
    if path.suffix == ".json":
        raise ConfigError(f"pack.tokenizer: there is no file {name!r}")
    if not _HUB_NAME.fullmatch(name):
        raise ConfigError(
            f"pack.tokenizer: {name!r} is not 'tekken', the path of a tokenizer.json, or a Hub repository (owner/name)"
        )
    return download_tokenizer(name)


def download_tokenizer(name: str) -> Path:
    """tokenizer.json of the Hub repository `name`, from the Hub client's cache when it is there."""
    import huggingface_hub  # a second of import that most runs do not need
    from huggingface_hub import errors

    refusals = (errors.HfHubHTTPError, errors.EntryNotFoundError, errors.HFValidationError, OSError)
    try:
        return Path(huggingface_hub.hf_hub_download(name, "tokenizer.json"))
    except refusals as error:
        reason = str(error).strip().splitlines()[0]
        raise ConfigError(
            f"pack.tokenizer: cannot get tokenizer.json of the Hub repository {name!r}: {reason} "
            "(a private or gated repository needs HF_TOKEN; offline, give the path of a tokenizer.json)"
        ) from error


def load_engine(content: str, name: str) -> Engine:
    """fastokens, or Hugging Face tokenizers for a file that fastokens refuses (models other than BPE)."""
    try:
        return FastEngine(content)
    except ValueError as refusal:
        try:
            return SlowEngine(content)
        except Exception as error:  # tokenizers raises bare Exception
            raise ConfigError(
                f"pack.tokenizer: {name!r} is refused by tokenizers ({error}) and by fastokens ({refusal})"
            ) from error


def check_agreement(tokenizer: Tokenizer, texts: pa.LargeStringArray) -> None:
    """Raise RunError if the tokenizer and Hugging Face tokenizers give different ids for any of the texts.

    Texts of more than AGREEMENT_BYTES are left out. Nothing to compare when the engine is tokenizers itself.
    """
    if isinstance(tokenizer.engine, SlowEngine):
        return
    oracle = SlowEngine(tokenizer.path.read_text(encoding="utf-8"))
    sizes = np.diff(view_text(texts)[0])
    sample = texts.take(pa.array(np.flatnonzero(sizes <= AGREEMENT_BYTES)))
    for first, n in cut_batches(sample):
        batch = sample.slice(first, n).to_pylist()
        seen, starts = tokenizer.engine.encode(batch)
        wanted, wanted_starts = oracle.encode(batch)
        for i, text in enumerate(batch):
            ours, theirs = seen[starts[i] : starts[i + 1]], wanted[wanted_starts[i] : wanted_starts[i + 1]]
            if not np.array_equal(ours, theirs):
                raise RunError(
                    f"pack.tokenizer: {tokenizer.name!r}: fastokens and tokenizers disagree on {text[:80]!r} "
                    f"({len(ours)} against {len(theirs)} tokens); please report it with the text"
                )
