"""Mistral's Tekken vocabulary, from the file inside the package mistral-common to a Hugging Face tokenizer.json.

The file (data/tekken_240911.json of mistral-common, Apache-2.0; the vocabulary of the Nemo and Devstral families) lists
150,000 byte strings by rank. A tokenizer uses the first 130,072 of them after 1,000 special ids: 131,072 ids in all.
It names no merges: those are recovered from the ranks. For each entry, merging its bytes with strictly lower ranks
leaves two pieces, and they are its merge. That merge list gives exactly the ids of the rank rule ("join the adjacent
pair whose bytes have the lowest rank"), because inside any longer word an entry's bytes meet the same merges in the
same order.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import json
import os
import tempfile
from itertools import pairwise
from pathlib import Path

from tamiz.errors import ConfigError

FILE_NAME = "tekken_240911.json"
N_VOCAB = 131_072
N_SPECIAL = 1_000
LAYOUT = 1  # raise when make_tokenizer_json writes something else for the same input: it is part of the cache's name

# Ids 0 to 19, as mistral-common names them; ids 20 to 999 are <SPECIAL_20> to <SPECIAL_999>.
SPECIAL_NAMES = (
    "<unk>",
    "<s>",
    "</s>",
    "[INST]",
    "[/INST]",
    "[AVAILABLE_TOOLS]",
    "[/AVAILABLE_TOOLS]",
    "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]",
    "[TOOL_CALLS]",
    "[IMG]",
    "<pad>",
    "[IMG_BREAK]",
    "[IMG_END]",
    "[PREFIX]",
    "[MIDDLE]",
    "[SUFFIX]",
    "[SYSTEM_PROMPT]",
    "[/SYSTEM_PROMPT]",
    "[TOOL_CONTENT]",
)


def find_tekken() -> Path:
    """The Tekken file of the installed mistral-common, found without importing it (its import takes seconds).

    Raises ConfigError when the package or the file is missing.
    """
    spec = importlib.util.find_spec("mistral_common")
    if spec is None or spec.origin is None:
        raise ConfigError("pack.tokenizer: 'tekken' needs the package mistral-common: pip install mistral-common")
    path = Path(spec.origin).parent / "data" / FILE_NAME
    if not path.is_file():
        raise ConfigError(
            f"pack.tokenizer: 'tekken' needs data/{FILE_NAME}, which the installed mistral-common does not have; "
            "install mistral-common>=1.4"
        )
    return path


def cache_tekken(cache_dir: Path) -> Path:
    """Path of the tokenizer.json made from the installed Tekken file, written under `cache_dir` if it is not there.

    The name carries the SHA-256 of the input and the layout version. Written aside and renamed, so any number of
    processes may race: each sees either no file or a whole one, and all would write the same bytes.
    """
    content = find_tekken().read_bytes()
    digest = hashlib.sha256(b"%d:" % LAYOUT + content).hexdigest()
    path = cache_dir / f"tekken-{digest[:16]}.json"
    if path.is_file():
        return path
    text = make_tokenizer_json(content)
    cache_dir.mkdir(parents=True, exist_ok=True)
    handle, aside = tempfile.mkstemp(prefix=path.name, suffix=".part", dir=cache_dir)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    except BaseException:
        Path(aside).unlink(missing_ok=True)
        raise
    return path


def make_tokenizer_json(content: bytes) -> str:
    """The tokenizer.json (one JSON object, the same bytes every time) for the content of a Tekken file.

    Raises ConfigError when the file is not a Tekken file of the expected size.
    """
    try:
        tekken = json.loads(content)
        pattern = tekken["config"]["pattern"]
        entries = [base64.b64decode(entry["token_bytes"]) for entry in tekken["vocab"][: N_VOCAB - N_SPECIAL]]
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"pack.tokenizer: {FILE_NAME} of mistral-common is not a Tekken file: {error!r}") from error
    if len(set(entries)) != N_VOCAB - N_SPECIAL or entries[:256] != [bytes([i]) for i in range(256)]:
        raise ConfigError(
            f"pack.tokenizer: {FILE_NAME} of mistral-common has {len(set(entries))} distinct entries after the 256 "
            f"bytes, {N_VOCAB - N_SPECIAL} expected; install mistral-common>=1.4"
        )
    letters = make_byte_letters()
    names = [*SPECIAL_NAMES, *(f"<SPECIAL_{i}>" for i in range(len(SPECIAL_NAMES), N_SPECIAL))]
    spelled = ["".join(letters[byte] for byte in entry) for entry in entries]
    merges = [
        ["".join(letters[byte] for byte in left), "".join(letters[byte] for byte in right)]
        for left, right in recover_merges(entries)
    ]
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    model = {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": False,
        "vocab": {name: i for i, name in enumerate([*names, *spelled])},
        "merges": merges,
    }
    return json.dumps(
        {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": [{"id": i, "content": name, **flags} for i, name in enumerate(names)],
            "normalizer": None,
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level]},
            "post_processor": None,
            "decoder": byte_level,
            "model": model,
        },
        ensure_ascii=False,
        separators=(",", ":"),
    )


def recover_merges(entries: list[bytes]) -> list[tuple[bytes, bytes]]:
    """The merge of every entry after the 256 bytes, in rank order. 0.7 CPU-s for the 130,072 entries.

    Raises ConfigError when an entry's bytes do not merge into two pieces: the list is not a BPE vocabulary by rank.
    """
    ranks = {entry: rank for rank, entry in enumerate(entries)}
    merges = []
    for rank, entry in enumerate(entries[256:], start=256):
        pieces = [entry[i : i + 1] for i in range(len(entry))]
        while len(pieces) > 2:
            joined = [ranks.get(left + right, rank) for left, right in pairwise(pieces)]
            lowest = min(joined)
            if lowest == rank:
                break
            at = joined.index(lowest)
            pieces[at : at + 2] = [pieces[at] + pieces[at + 1]]
        if len(pieces) != 2:
            raise ConfigError(f"pack.tokenizer: entry {rank} of {FILE_NAME} has no merge; the file is not ranked BPE")
        merges.append((pieces[0], pieces[1]))
    return merges


def make_byte_letters() -> list[str]:
    """The letter that stands for each of the 256 bytes in a byte-level tokenizer.json (GPT-2's table, 2019).

    Printable ASCII and Latin-1 stand for themselves; the other 68 bytes take the code points from 256 on, in order.
    """
    itself = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    letters = []
    n_moved = 0
    for byte in range(256):
        letters.append(chr(byte if byte in itself else 256 + n_moved))
        n_moved += byte not in itself
    return letters
