"""Tekken: the ids of tiktoken, mistral-common and Hugging Face tokenizers, from a file made here."""

from __future__ import annotations

import base64
import importlib.util
import json
import multiprocessing
import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import tiktoken
from hypothesis import given
from hypothesis import strategies as st

from tamiz.errors import ConfigError, RunError
from tamiz.pack import tekken
from tamiz.pack.decode import decode_documents, make_token_bytes
from tamiz.pack.tokenizer import Tokenizer, check_agreement, load_tokenizer

ODD_TEXTS = [
    "",
    " ",
    "\n",
    "\0",
    "<s>[INST] Hello [/INST]</s>",
    "</s><pad><unk><SPECIAL_20>[TOOL_CALLS]",
    " " * 1_000,
    "\t \n \r\n\r\n   x",
    "\u3000\u00a0\u2028 \u200b\ufeff",
    "👩‍👩‍👧‍👦 👍🏽 🇪🇸 ❤️",
    "e\u0301 é ﬁ Å Å İ ı ß",
    "नमस्ते दुनिया สวัสดี مرحبا שלום 你好，世界",
    "\U0010ffff\ue000\ufffd",
    "it's I'LL we'Re 1234567890 3.14 a_b __init__ // /* */ \\\\",
    "A" * 5_000 + "ab" * 5_000,
    "aaaa" * 3 + "!" * 3_001 + "\n" * 777,
]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory) -> Tokenizer:
    return load_tokenizer("tekken", tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def reference() -> tiktoken.Encoding:
    """tiktoken over the ranks of the file: what mistral-common does."""
    file = json.loads(tekken.find_tekken().read_bytes())
    ranks = {base64.b64decode(entry["token_bytes"]): entry["rank"] for entry in file["vocab"][:130_072]}
    return tiktoken.Encoding("tekken", pat_str=file["config"]["pattern"], mergeable_ranks=ranks, special_tokens={})


def encode(tokenizer: Tokenizer, texts: list[str]) -> list[list[int]]:
    values, offsets = tokenizer.encode(pa.array(texts, pa.large_string()))
    return [row.tolist() for row in np.split(values, offsets[1:-1])] if texts else []


def make_odd_text(rng: random.Random) -> str:
    """Code points of all planes, runs of white space, and words with marks, mixed."""
    pieces = []
    for _ in range(rng.randint(1, 30)):
        kind = rng.randrange(6)
        if kind == 0:
            pieces.append(
                "".join(chr(rng.choice([rng.randrange(0xD800), rng.randrange(0xE000, 0x110000)])) for _ in "abc")
            )
        elif kind == 1:
            pieces.append(rng.choice([" ", "\n", "\t", "\r\n", "\u00a0", "\u2003"]) * rng.randint(1, 40))
        elif kind == 2:
            pieces.append(rng.choice(["<s>", "[INST]", "</s>", "<SPECIAL_999>", "[IMG]"]))
        elif kind == 3:
            pieces.append(
                "".join(chr(rng.choice([0x1F600, 0x1F3FB, 0x200D, 0xFE0F, 0x1F1E6]) + rng.randrange(5)) for _ in "abcd")
            )
        else:
            pieces.append("".join(rng.choice("aAéßñ'0_-.́x ") for _ in range(rng.randint(1, 12))))
    return "".join(pieces)


def test_ids_are_those_of_mistral_common(tokenizer):
    from mistral_common.tokens.tokenizers.tekken import Tekkenizer

    theirs = Tekkenizer.from_file(str(tekken.find_tekken()))
    assert (tokenizer.n_vocab, tokenizer.bos_id, tokenizer.eos_id, tokenizer.pad_id) == (
        theirs.n_words,
        theirs.bos_id,
        theirs.eos_id,
        theirs.pad_id,
    )
    tokens = json.loads(tokenizer.path.read_text(encoding="utf-8"))["added_tokens"]
    assert [token["content"] for token in tokens] == [theirs.id_to_piece(i) for i in range(1_000)]
    assert encode(tokenizer, ODD_TEXTS) == [theirs.encode(text, bos=False, eos=False) for text in ODD_TEXTS]


def test_ids_are_those_of_tiktoken_on_odd_texts(tokenizer, reference):
    rng = random.Random(3)
    texts = ODD_TEXTS + [make_odd_text(rng) for _ in range(1_500)]
    assert encode(tokenizer, texts) == [[i + 1_000 for i in reference.encode_ordinary(text)] for text in texts]


@given(text=st.text(max_size=200))
def test_ids_are_those_of_tiktoken_on_any_text(tokenizer, reference, text):
    assert encode(tokenizer, [text]) == [[i + 1_000 for i in reference.encode_ordinary(text)]]


def test_agreement_with_hugging_face_tokenizers(tokenizer):
    rng = random.Random(4)
    texts = ODD_TEXTS + [make_odd_text(rng) for _ in range(300)]
    check_agreement(tokenizer, pa.array(texts, pa.large_string()))


def test_disagreement_stops_the_run(tokenizer):
    class Wrong:
        def encode(self, texts):
            values, offsets = tokenizer.engine.encode(texts)
            return values + (values == 29706), offsets  # 29706 is "hello"

        def decode(self, ids):
            return ""

    check_agreement(tokenizer._replace(engine=Wrong()), pa.array(["Hi"], pa.large_string()))
    with pytest.raises(RunError, match="disagree on 'hello there'"):
        check_agreement(tokenizer._replace(engine=Wrong()), pa.array(["Hi", "hello there"], pa.large_string()))


def test_text_never_becomes_a_special_id(tokenizer):
    rng = random.Random(5)
    ids = encode(tokenizer, ODD_TEXTS + [make_odd_text(rng) for _ in range(200)])
    assert min(i for row in ids for i in row) >= 1_000


def test_decoding_gives_back_the_bytes(tokenizer):
    assert tokenizer.is_lossless
    rng = random.Random(6)
    texts = ODD_TEXTS + [make_odd_text(rng) for _ in range(300)]
    values, offsets = tokenizer.encode(pa.array(texts, pa.large_string()))
    tokens = make_token_bytes(tokenizer)
    assert len(tokens.offsets) == tokenizer.n_vocab + 1
    wanted = [text.encode() for text in texts]
    assert decode_documents(tokens, values, offsets).to_pylist() == wanted
    assert decode_documents(tokens, values, offsets[7:20]).to_pylist() == wanted[7:19]
    assert tokenizer.decode(values[offsets[4] : offsets[5]]) == texts[4]
    with pytest.raises(RunError, match="131072"):
        decode_documents(tokens, np.array([131_072], dtype=np.int32), np.array([0, 1]))


@pytest.mark.parametrize(
    "text", [" " * 5_500_000, "a" * 5_500_000, "Sphinx of black quartz. " * 230_000, "漢" * 1_900_000]
)
def test_a_document_of_megabytes(tokenizer, text):
    """The number of tokens is not checked against tiktoken, which panics on the first."""
    values, offsets = tokenizer.encode(pa.array(["x", text, "y"], pa.large_string()))
    assert offsets[1] == 1
    assert offsets[3] == offsets[2] + 1
    decoded = decode_documents(make_token_bytes(tokenizer), values, offsets)
    assert decoded[1].as_py() == text.encode()


def test_the_cache_is_written_once_and_raced_safely(tmp_path):
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        paths = pool.map(tekken.cache_tekken, [tmp_path / "deep" / "cache"] * 4)
    assert len(set(paths)) == 1
    assert [path.name for path in (tmp_path / "deep" / "cache").iterdir()] == [paths[0].name]
    before = paths[0].stat()
    tekken.cache_tekken(tmp_path / "deep" / "cache")
    assert paths[0].stat() == before


def test_missing_mistral_common_is_the_users_to_mend(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pack\.tokenizer.*pip install mistral-common"):
        load_tokenizer("tekken", tmp_path)


def test_a_package_without_the_file_is_the_users_to_mend(tmp_path, monkeypatch):
    class Spec:
        origin = str(tmp_path / "mistral_common" / "__init__.py")

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: Spec)
    with pytest.raises(ConfigError, match="tekken_240911"):
        tekken.find_tekken()


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"config": {"pattern": "x"}, "vocab": []}'])
def test_another_file_is_refused(content):
    with pytest.raises(ConfigError, match=r"pack\.tokenizer"):
        tekken.make_tokenizer_json(content)


def test_entries_that_do_not_merge_are_refused():
    entries = [bytes([i]) for i in range(256)]
    assert tekken.recover_merges([*entries, b"ab", b"abc"]) == [(b"a", b"b"), (b"ab", b"c")]
    with pytest.raises(ConfigError, match="entry 256"):
        tekken.recover_merges([*entries, b"abc"])


def test_byte_letters_are_those_of_the_published_table():
    from tokenizers.pre_tokenizers import ByteLevel

    letters = tekken.make_byte_letters()
    assert sorted(letters) == sorted(ByteLevel.alphabet())
    seen = ByteLevel(add_prefix_space=False, use_regex=False).pre_tokenize_str("".join(map(chr, range(128))))
    assert "".join(piece for piece, _ in seen) == "".join(letters[:128])


def test_real_documents(tokenizer, reference):
    """250 documents of each file of the shared sample."""
    folder = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "fineweb-like"
    if not folder.is_dir():
        pytest.skip("the shared sample is not beside the checkout")
    import pyarrow.parquet as pq

    for path in sorted(folder.glob("data/*/*.parquet")):
        texts = pq.read_table(path, columns=["text"])["text"].slice(0, 250).cast(pa.large_string()).to_pylist()
        assert encode(tokenizer, texts) == [[i + 1_000 for i in reference.encode_ordinary(text)] for text in texts]
