"""What a Hugging Face tokenizer.json says about its ids, read without building a tokenizer.

The file has no field for BOS, EOS or padding: they are found by the names that published tokenizers use. Only special
added tokens qualify, because the text of any other token could produce its id inside a document.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from tamiz.errors import ConfigError
from tamiz.pack.tekken import make_byte_letters

# In order of preference. <|endoftext|> before <|im_end|>: files that have both end documents with the first and chat
# turns with the second (Qwen). The names with full-width bars are DeepSeek's.
EOS_NAMES = (
    "</s>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<eos>",
    "<|eos|>",
    "<\uff5cend\u2581of\u2581sentence\uff5c>",
    "<|im_end|>",
    "[EOS]",
)
BOS_NAMES = (
    "<s>",
    "<|begin_of_text|>",
    "<bos>",
    "<|bos|>",
    "<|startoftext|>",
    "<\uff5cbegin\u2581of\u2581sentence\uff5c>",
    "[BOS]",
)
PAD_NAMES = ("<pad>", "<|pad|>", "<|padding|>", "<|finetune_right_pad_id|>", "[PAD]", "<\uff5c\u2581pad\u2581\uff5c>")


class Vocabulary(NamedTuple):
    """Ids of a tokenizer.json. `is_lossless`: decoding the ids of a text gives back its bytes, whatever the text."""

    n_vocab: int  # highest id + 1
    bos_id: int | None
    eos_id: int
    pad_id: int  # the id of EOS when the file names no padding
    is_lossless: bool


def parse_tokenizer_json(content: bytes, name: str) -> dict[str, Any]:
    """The object in a tokenizer.json; ConfigError unless it has a model with a vocabulary."""
    try:
        file = json.loads(content)
        has_vocabulary = bool(file["model"]["vocab"])
    except (ValueError, KeyError, TypeError):
        has_vocabulary = False
    if not has_vocabulary:
        raise ConfigError(f"pack.tokenizer: {name!r} is not a tokenizer.json (no model with a vocabulary)")
    if file["model"].get("dropout"):
        raise ConfigError(f"pack.tokenizer: {name!r} has BPE dropout {file['model']['dropout']}; its ids are random")
    return dict(file)


def read_vocabulary(content: bytes, name: str, eos: str | None = None) -> Vocabulary:
    """Ids of the tokenizer.json `content`; `name` is for messages, `eos` the EOS token when its name is not well known.

    Raises ConfigError when the file has no such EOS among its special tokens, naming the candidates.
    """
    file = parse_tokenizer_json(content, name)
    tokens = list_tokens(file)
    specials = {token["content"]: token["id"] for token in file.get("added_tokens") or [] if token.get("special")}
    eos_names = EOS_NAMES if eos is None else (eos,)
    eos_id = _find_first(specials, eos_names)
    if eos_id is None:
        seen = ", ".join(list(specials)[:12]) or "none"
        wanted = "none of " + ", ".join(EOS_NAMES) if eos is None else f"no {eos!r}"
        raise ConfigError(
            f"pack.tokenizer: {name!r} has {wanted} among its special tokens ({seen}); name its end-of-document token"
        )
    pad_id = _find_first(specials, PAD_NAMES)
    return Vocabulary(
        n_vocab=max(tokens) + 1,
        bos_id=_find_first(specials, BOS_NAMES),
        eos_id=eos_id,
        pad_id=eos_id if pad_id is None else pad_id,
        is_lossless=_is_lossless(file),
    )


def list_tokens(file: dict[str, Any]) -> dict[int, str]:
    """id -> token as the file spells it; added tokens win over entries of the model."""
    vocab = file["model"]["vocab"]
    if isinstance(vocab, dict):
        tokens = {i: token for token, i in vocab.items()}
    else:  # Unigram: a list of [token, score]
        tokens = {i: entry[0] for i, entry in enumerate(vocab)}
    tokens.update({token["id"]: token["content"] for token in file.get("added_tokens") or []})
    return tokens


def spell_tokens(content: bytes, name: str) -> list[bytes]:
    """The bytes each id of a lossless tokenizer.json stands for; b"" for ids in a hole of the vocabulary."""
    file = parse_tokenizer_json(content, name)
    tokens = list_tokens(file)
    added = {token["id"] for token in file.get("added_tokens") or []}
    byte_of = {letter: byte for byte, letter in enumerate(make_byte_letters())}
    spelled = [b""] * (max(tokens) + 1)
    for i, token in tokens.items():
        # An entry with a letter outside the table cannot come from text: it is a placeholder, spelled as it stands.
        is_bytes = i not in added and all(letter in byte_of for letter in token)
        spelled[i] = bytes(byte_of[letter] for letter in token) if is_bytes else token.encode("utf-8")
    return spelled


def _find_first(specials: dict[str, int], names: tuple[str, ...]) -> int | None:
    return next((specials[name] for name in names if name in specials), None)


def _is_lossless(file: dict[str, Any]) -> bool:
    """Byte-level BPE over all 256 bytes, nothing normalised, no text removed or added on the way."""
    model = file["model"]
    normalizer = file.get("normalizer")
    letters = make_byte_letters()
    added = [token for token in file.get("added_tokens") or [] if not token.get("special")]
    steps = _list_pre_tokenizers(file.get("pre_tokenizer"))
    return (
        isinstance(model["vocab"], dict)
        and model.get("type", "BPE") == "BPE"
        and not model.get("continuing_subword_prefix")
        and not model.get("end_of_word_suffix")
        and (normalizer is None or normalizer.get("normalizers") == [])
        and all(letter in model["vocab"] for letter in letters)
        and sum(step["type"] == "ByteLevel" for step in steps) == 1
        and all(_keeps_text(step) for step in steps)
        and not any(token.get("lstrip") or token.get("rstrip") for token in added)
    )


def _list_pre_tokenizers(step: dict[str, Any] | None) -> list[dict[str, Any]]:
    if step is None:
        return []
    if step["type"] == "Sequence":
        return [leaf for child in step["pretokenizers"] for leaf in _list_pre_tokenizers(child)]
    return [step]


def _keeps_text(step: dict[str, Any]) -> bool:
    if step["type"] == "ByteLevel":
        return not step.get("add_prefix_space", True)
    if step["type"] in ("Split", "Punctuation"):
        return step.get("behavior") != "Removed"
    return step["type"] in ("Digits", "UnicodeScripts")
