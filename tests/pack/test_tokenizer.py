"""Tokenizers other than Tekken, trained here: files fastokens takes, files it refuses, and names that are wrong."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
import tokenizers
from tokenizers import models, normalizers, pre_tokenizers, trainers

from tamiz.errors import ConfigError, RunError, SchemaError
from tamiz.pack import tokenizer as seam
from tamiz.pack.decode import decode_documents, make_token_bytes
from tamiz.pack.tokenizer import FastEngine, SlowEngine, check_agreement, cut_batches, load_tokenizer
from tamiz.pack.vocabulary import read_vocabulary

TRAINING = ["the cat sat on the mat, and the other cats sat on other mats."] * 20
TEXTS = ["the cat", "", "  the</s>\n<s>cats", "héllo ☃", "mats " * 50]
ALPHABET = pre_tokenizers.ByteLevel.alphabet()


def train_byte_level(specials: list[str], normalizer=None, pre_tokenizer=None) -> tokenizers.Tokenizer:
    model = tokenizers.Tokenizer(models.BPE())
    model.pre_tokenizer = pre_tokenizer or pre_tokenizers.ByteLevel(add_prefix_space=False)
    if normalizer:
        model.normalizer = normalizer
    trainer = trainers.BpeTrainer(
        vocab_size=300, special_tokens=specials, initial_alphabet=ALPHABET, show_progress=False
    )
    model.train_from_iterator(TRAINING, trainer)
    return model


def train_word_piece() -> tokenizers.Tokenizer:
    model = tokenizers.Tokenizer(models.WordPiece(unk_token="<unk>"))
    model.pre_tokenizer = pre_tokenizers.Whitespace()
    trainer = trainers.WordPieceTrainer(vocab_size=100, special_tokens=["<unk>", "<eos>"], show_progress=False)
    model.train_from_iterator(TRAINING, trainer)
    return model


def save(model: tokenizers.Tokenizer, tmp_path) -> str:
    path = tmp_path / "tokenizer.json"
    model.save(str(path))
    return str(path)


def change(name: str, **changes) -> None:
    with open(name, encoding="utf-8") as file:
        content = json.load(file)
    content.update(changes)
    with open(name, "w", encoding="utf-8") as file:
        json.dump(content, file)


def texts_of(texts: list[str]) -> pa.LargeStringArray:
    return pa.array(texts, pa.large_string())


def test_a_byte_level_file(tmp_path):
    model = train_byte_level(["<s>", "</s>", "<pad>"])
    name = save(model, tmp_path)
    tokenizer = load_tokenizer(name, tmp_path)
    assert isinstance(tokenizer.engine, FastEngine)
    assert (tokenizer.bos_id, tokenizer.eos_id, tokenizer.pad_id) == (0, 1, 2)
    assert tokenizer.n_vocab == model.get_vocab_size()
    assert tokenizer.is_lossless
    check_agreement(tokenizer, texts_of(TEXTS))
    model.encode_special_tokens = True
    values, offsets = tokenizer.encode(texts_of(TEXTS))
    assert (values.dtype, offsets.dtype) == (np.int32, np.int64)
    assert [row.tolist() for row in np.split(values, offsets[1:-1])] == [model.encode(text).ids for text in TEXTS]
    assert decode_documents(make_token_bytes(tokenizer), values, offsets).to_pylist() == [t.encode() for t in TEXTS]


def test_a_file_fastokens_refuses_goes_to_tokenizers(tmp_path):
    model = train_word_piece()
    tokenizer = load_tokenizer(save(model, tmp_path), tmp_path)
    assert isinstance(tokenizer.engine, SlowEngine)
    assert (tokenizer.bos_id, tokenizer.eos_id, tokenizer.pad_id) == (None, 1, 1)
    assert not tokenizer.is_lossless
    values, offsets = tokenizer.encode(texts_of(["the cat", "", "mats sat"]))
    assert [row.tolist() for row in np.split(values, offsets[1:-1])] == [
        model.encode(text).ids for text in ("the cat", "", "mats sat")
    ]
    assert tokenizer.decode(values[offsets[0] : offsets[1]]) == model.decode(model.encode("the cat").ids)
    check_agreement(tokenizer, texts_of(TEXTS))
    with pytest.raises(ValueError, match="do not spell"):
        make_token_bytes(tokenizer)


@pytest.mark.parametrize("train", [lambda: train_byte_level(["</s>"]), train_word_piece])
def test_truncation_and_padding_in_the_file_are_ignored(tmp_path, train):
    model = train()
    wanted = model.encode("the cat sat on the mat").ids
    model.enable_truncation(2)
    model.enable_padding(length=50)
    tokenizer = load_tokenizer(save(model, tmp_path), tmp_path)
    assert tokenizer.encode(texts_of(["the cat sat on the mat"]))[0].tolist() == wanted


@pytest.mark.parametrize(
    ("normalizer", "pre_tokenizer"),
    [
        (normalizers.NFC(), None),
        (None, pre_tokenizers.ByteLevel(add_prefix_space=True)),
        (None, pre_tokenizers.Metaspace()),
        (
            None,
            pre_tokenizers.Sequence(
                [pre_tokenizers.Split(" ", "removed"), pre_tokenizers.ByteLevel(add_prefix_space=False)]
            ),
        ),
        (
            None,
            pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.ByteLevel(add_prefix_space=False)]),
        ),
    ],
)
def test_files_that_change_the_text_are_not_lossless(tmp_path, normalizer, pre_tokenizer):
    name = save(train_byte_level(["</s>"], normalizer, pre_tokenizer), tmp_path)
    assert not load_tokenizer(name, tmp_path).is_lossless


def test_an_added_token_that_eats_blanks_is_not_lossless(tmp_path):
    model = train_byte_level(["</s>"])
    model.add_tokens([tokenizers.AddedToken("cat", lstrip=True)])
    assert not load_tokenizer(save(model, tmp_path), tmp_path).is_lossless


def test_an_added_token_that_is_text_decodes(tmp_path):
    model = train_byte_level(["</s>"])
    model.add_tokens([tokenizers.AddedToken("☃", normalized=False)])
    tokenizer = load_tokenizer(save(model, tmp_path), tmp_path)
    assert tokenizer.is_lossless
    check_agreement(tokenizer, texts_of(TEXTS))
    values, offsets = tokenizer.encode(texts_of(TEXTS))
    assert tokenizer.n_vocab - 1 in values
    assert decode_documents(make_token_bytes(tokenizer), values, offsets).to_pylist() == [t.encode() for t in TEXTS]


@pytest.mark.parametrize(
    ("specials", "eos", "bos"),
    [
        (["<|im_end|>", "<|endoftext|>"], "<|endoftext|>", None),
        (["<|begin_of_text|>", "<|eot_id|>", "<|end_of_text|>"], "<|end_of_text|>", "<|begin_of_text|>"),
        (["<pad>", "<eos>", "<bos>"], "<eos>", "<bos>"),
        (["<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"], "<｜end▁of▁sentence｜>", "<｜begin▁of▁sentence｜>"),
        (["<|im_start|>", "<|im_end|>"], "<|im_end|>", None),
    ],
)
def test_boundaries_are_found_by_their_names(tmp_path, specials, eos, bos):
    tokenizer = load_tokenizer(save(train_byte_level(specials), tmp_path), tmp_path)
    assert tokenizer.eos_id == specials.index(eos)
    assert tokenizer.bos_id == (None if bos is None else specials.index(bos))
    assert tokenizer.pad_id == (0 if specials[0] == "<pad>" else tokenizer.eos_id)


def test_an_end_of_document_token_can_be_named(tmp_path):
    name = save(train_byte_level(["[STOP]", "</s>"]), tmp_path)
    assert load_tokenizer(name, tmp_path, eos="[STOP]").eos_id == 0
    with pytest.raises(ConfigError, match=r"pack\.tokenizer.*no '<halt>'.*\[STOP\]"):
        load_tokenizer(name, tmp_path, eos="<halt>")
    with pytest.raises(ConfigError, match="no 'the'"):  # a token that text could produce
        load_tokenizer(name, tmp_path, eos="the")


def test_a_file_without_a_known_end_of_document_names_the_candidates(tmp_path):
    name = save(train_byte_level(["[STOP]"]), tmp_path)
    with pytest.raises(ConfigError, match=r"none of </s>, <\|endoftext\|>.*\[STOP\]"):
        load_tokenizer(name, tmp_path)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"model": {}}', '{"model": null}', '{"model": {"vocab": {}}}'])
def test_other_json_is_refused(tmp_path, content):
    path = tmp_path / "tokenizer.json"
    path.write_text(content)
    with pytest.raises(ConfigError, match=r"pack\.tokenizer.*is not a tokenizer\.json"):
        load_tokenizer(str(path), tmp_path)


def test_a_model_no_library_knows_is_refused(tmp_path):
    name = save(train_byte_level(["</s>"]), tmp_path)
    change(name, model={"type": "Oracle", "vocab": {"</s>": 0}})
    with pytest.raises(ConfigError, match=r"pack\.tokenizer.*refused"):
        load_tokenizer(name, tmp_path)


def test_dropout_is_refused(tmp_path):
    model = train_byte_level(["</s>"])
    model.model.dropout = 0.1
    with pytest.raises(ConfigError, match="dropout"):
        load_tokenizer(save(model, tmp_path), tmp_path)


def test_unigram_ids_are_positions():
    content = {
        "added_tokens": [{"id": 0, "content": "<s>", "special": True}, {"id": 5, "content": "</s>", "special": True}],
        "model": {"type": "Unigram", "vocab": [["<s>", 0.0], ["a", -1.0], ["b", -2.0]]},
    }
    assert read_vocabulary(json.dumps(content).encode(), "u") == (6, 0, 5, 5, False)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gone/tokenizer.json", "there is no file 'gone/tokenizer.json'"),
        ("tekkn", "'tekkn' is not 'tekken', the path of a tokenizer.json, or a Hub repository"),
        ("a/b/c", "'a/b/c' is not"),
    ],
)
def test_wrong_names(tmp_path, name, message):
    with pytest.raises(ConfigError, match=f"pack.tokenizer: {message}"):
        load_tokenizer(name, tmp_path)


def test_hub_names_go_to_the_hub_client(tmp_path, monkeypatch):
    import huggingface_hub

    name = save(train_byte_level(["</s>"]), tmp_path)
    asked = []

    def download(repo_id, filename):
        asked.append((repo_id, filename))
        return name

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    assert load_tokenizer("owner/model-1.5", tmp_path).name == "owner/model-1.5"
    assert asked == [("owner/model-1.5", "tokenizer.json")]


def test_hub_failures_name_the_repository(tmp_path, monkeypatch):
    import huggingface_hub
    from huggingface_hub.errors import LocalEntryNotFoundError

    def refuse(repo_id, filename):
        raise LocalEntryNotFoundError("offline")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", refuse)
    with pytest.raises(ConfigError, match=r"pack\.tokenizer.*'owner/model'.*offline"):
        load_tokenizer("owner/model", tmp_path)


def test_fingerprint_is_the_hash_of_the_file(tmp_path):
    import hashlib

    name = save(train_byte_level(["</s>"]), tmp_path)
    with open(name, "rb") as file:
        assert load_tokenizer(name, tmp_path).fingerprint == hashlib.sha256(file.read()).hexdigest()


def test_batches_do_not_change_the_ids(tmp_path, monkeypatch):
    tokenizer = load_tokenizer(save(train_byte_level(["</s>"]), tmp_path), tmp_path)
    texts = texts_of([*TEXTS * 3, "x" * 100, "the end"])
    whole = tokenizer.encode(texts)
    monkeypatch.setattr(seam, "BATCH_DOCUMENTS", 4)
    monkeypatch.setattr(seam, "BATCH_BYTES", 60)
    sizes = [len(text.encode()) for text in texts.to_pylist()]
    cuts = list(cut_batches(texts))
    assert [first for first, _ in cuts] == [sum(n for _, n in cuts[:i]) for i in range(len(cuts))]
    assert sum(n for _, n in cuts) == len(texts)
    assert all(n == 1 or (n <= 4 and sum(sizes[first : first + n]) <= 60) for first, n in cuts)
    parts = tokenizer.encode(texts)
    assert parts[0].tolist() == whole[0].tolist()
    assert parts[1].tolist() == whole[1].tolist()
    tail = tokenizer.encode(texts.slice(3, 5))
    assert tail[0].tolist() == whole[0][whole[1][3] : whole[1][8]].tolist()


def test_no_texts_and_null_texts(tmp_path):
    tokenizer = load_tokenizer(save(train_byte_level(["</s>"]), tmp_path), tmp_path)
    values, offsets = tokenizer.encode(texts_of([]))
    assert (values.tolist(), offsets.tolist()) == ([], [0])
    with pytest.raises(SchemaError):
        tokenizer.encode(texts_of(["a", None]))


def test_a_text_the_pattern_cannot_split_is_named(tmp_path):
    split = pre_tokenizers.Split(tokenizers.Regex(r"(\s+)+x|.|\n"), "isolated")
    pattern = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer = load_tokenizer(save(train_byte_level(["</s>"], pre_tokenizer=pattern), tmp_path), tmp_path)
    with pytest.raises(RunError, match=r"pack\.tokenizer.*cannot encode '   .*match limit"):
        tokenizer.encode(texts_of(["fine", " " * 60, "fine"]))
