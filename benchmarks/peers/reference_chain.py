"""datatrove 0.10.1 on a file of documents: CPU seconds of each stage, plain and repaired. For the peers' environment.

    python reference_chain.py DOCUMENTS.parquet LID.ftz TOKENIZER.json

"Repaired" puts a memo per whitespace chunk in front of spaCy, through the tokenizer that every `language` argument
accepts: the same words and sentences, and what a careful user could get from datatrove without changing it.
Prints a JSON object: variant -> stage -> [CPU seconds, bytes of text read, documents that came out].
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterable

import pyarrow.parquet as pq
from datatrove.data import Document
from datatrove.pipeline.dedup import MinhashDedupSignature
from datatrove.pipeline.dedup.minhash import MinhashConfig
from datatrove.pipeline.filters import (
    C4QualityFilter,
    FineWebQualityFilter,
    GopherQualityFilter,
    GopherRepetitionFilter,
    LanguageFilter,
)
from datatrove.pipeline.formatters import PIIFormatter
from datatrove.pipeline.tokens import TokensCounter
from datatrove.utils.hashing import HashConfig
from datatrove.utils.word_tokenizers import WordTokenizer
from fasttext.FastText import _FastText
from loguru import logger

Step = Callable[[Iterable[Document]], Iterable[Document]]


class MemoTokenizer(WordTokenizer):
    """spaCy's English words with a memo per chunk between white space, and its rule sentencizer over them."""

    def __init__(self) -> None:
        import spacy
        from spacy.pipeline import Sentencizer

        super().__init__("en")
        self._split = spacy.blank("en").tokenizer
        self._ends = frozenset(Sentencizer.default_punct_chars)
        self._memo: dict[str, list[tuple[str, bool, bool]]] = {}

    def _find(self, text: str) -> Iterable[tuple[str, bool, bool]]:
        """(word, ends a sentence, is punctuation) of the text."""
        for chunk in text.split():
            words = self._memo.get(chunk)
            if words is None:
                tokens = self._split(chunk)
                words = [(token.text, token.text in self._ends, token.is_punct) for token in tokens]
                self._memo[chunk] = words
            yield from words

    def word_tokenize(self, text: str) -> list[str]:
        return [word for word, _, _ in self._find(text)]

    def sent_tokenize(self, text: str) -> list[str]:
        sentences: list[list[str]] = [[]]
        has_ended = False
        for word, is_end, is_punct in self._find(text):
            if is_end:
                has_ended = True
            elif has_ended and not is_punct:
                sentences.append([])
                has_ended = False
            sentences[-1].append(word)
        return [" ".join(words) for words in sentences]

    def span_tokenize(self, text: str) -> list[tuple[int, int]]:
        """C4 counts the spans and nobody reads them: the i-th is (i, i + 1)."""
        return [(i, i + 1) for i in range(len(self.sent_tokenize(text)))]


def read_documents(path: str) -> list[Document]:
    texts = pq.read_table(path, columns=["text"])["text"].to_pylist()
    return [Document(text=text, id=str(i)) for i, text in enumerate(texts)]


def make_stages(language: str | WordTokenizer, model: str, tokenizer: str, folder: str) -> dict[str, list[Step]]:
    """Stage -> its steps, each a pass over documents, as datatrove's executor runs them."""
    lid = LanguageFilter("en", 0.65)
    lid.model._model = _FastText(model)
    config = MinhashConfig(hash_config=HashConfig(hash_fc="sha1", precision=64))
    return {
        "words": [WordPass(language)],
        "language": [lid.run],
        "chain": [
            lid.run,
            GopherRepetitionFilter(language=language).run,
            GopherQualityFilter(language=language).run,
            C4QualityFilter(filter_no_terminal_punct=False, language=language).run,
            FineWebQualityFilter(language=language).run,
        ],
        "minhash": [SignaturePass(MinhashDedupSignature(folder, config, language=language))],
        "redaction": [PIIFormatter().run],
        "tokenize": [TokensCounter(tokenizer).run],
    }


class WordPass:
    """The words of every document, and nothing else."""

    def __init__(self, language: str | WordTokenizer) -> None:
        from datatrove.utils.word_tokenizers import load_word_tokenizer

        self._tokenizer = load_word_tokenizer(language)

    def __call__(self, documents: Iterable[Document]) -> Iterable[Document]:
        for document in documents:
            self._tokenizer.word_tokenize(document.text)
            yield document


class SignaturePass:
    """datatrove's signature step ends a pipeline: it takes all and yields none."""

    def __init__(self, step: MinhashDedupSignature) -> None:
        self._step = step

    def __call__(self, documents: Iterable[Document]) -> Iterable[Document]:
        self._step.run(documents)
        return ()


def time_stage(steps: list[Step], documents: list[Document]) -> tuple[float, int, int]:
    """CPU seconds, bytes of text read, documents that came out."""
    n_bytes = sum(len(document.text.encode()) for document in documents)
    flow: Iterable[Document] = documents
    started = time.process_time()
    for step in steps:
        flow = step(flow)
    n = sum(1 for _ in flow)
    return time.process_time() - started, n_bytes, n


def main() -> None:
    documents, model, tokenizer = sys.argv[1:4]
    logger.remove()
    languages: dict[str, Callable[[], str | WordTokenizer]] = {"datatrove": lambda: "en", "repaired": MemoTokenizer}
    costs: dict[str, dict[str, tuple[float, int, int]]] = {}
    for variant, make_language in languages.items():
        costs[variant] = {}
        for stage in make_stages("en", model, tokenizer, tempfile.gettempdir()):
            with tempfile.TemporaryDirectory() as folder:
                # A new memo for each stage, so that none finds it filled by the one before.
                steps = make_stages(make_language(), model, tokenizer, folder)[stage]
                for _ in flow_through(steps, "A first sentence to load what is loaded lazily. And one more of them."):
                    pass
                costs[variant][stage] = time_stage(steps, read_documents(documents))
    print(json.dumps(costs))


def flow_through(steps: list[Step], text: str) -> Iterable[Document]:
    flow: Iterable[Document] = [Document(text=text, id="warm")]
    for step in steps:
        flow = step(flow)
    return flow


if __name__ == "__main__":
    main()
