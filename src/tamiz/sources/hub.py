"""Datasets of the Hugging Face Hub: the files of a subset's split at a pinned commit, and ranges of their bytes."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator

import huggingface_hub
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils import build_hf_headers, hf_raise_for_status  # type: ignore[attr-defined]

from tamiz.errors import ConfigError, SourceError
from tamiz.sources import patience
from tamiz.sources.access import get_cache
from tamiz.sources.files import JSONL_SUFFIXES, PARQUET_SUFFIXES, FoundFile
from tamiz.sources.ranges import RangeFile
from tamiz.sources.split import HubSource

_ADDRESS = re.compile(r"hf://datasets/(?P<dataset>[^@]+)@(?P<revision>[0-9a-f]{40})/(?P<path>.+)")
_N_SIZES = 500  # paths asked about in one request


def find_files(spec: HubSource) -> tuple[tuple[FoundFile, ...], str]:
    """The data files of the dataset's subset and split in its own order, and the commit they are pinned to.

    Which files those are is what `datasets` says: the dataset's card, or the usual names when it has none.
    Raises ConfigError for a dataset, revision, subset or split that does not exist and for files that are neither
    Parquet nor JSONL, SourceError when the Hub cannot be reached.
    """
    patience.install()
    with explain_failures(spec.dataset, spec.name):
        api = huggingface_hub.HfApi()
        commit = api.dataset_info(spec.dataset, revision=spec.revision).sha
        if commit is None:
            raise SourceError(f"the Hub names no commit for {spec.dataset}")
        paths = _resolve_paths(spec, commit)
        sizes: dict[str, int] = {}
        for start in range(0, len(paths), _N_SIZES):
            some = paths[start : start + _N_SIZES]
            for entry in api.get_paths_info(spec.dataset, some, revision=commit, repo_type="dataset"):
                sizes[entry.path] = getattr(entry, "size", 0)
    top = f"hf://datasets/{spec.dataset}@{commit}/"
    return tuple(FoundFile(path, top + path, sizes[path]) for path in paths), commit


def _resolve_paths(spec: HubSource, commit: str) -> list[str]:
    import datasets  # 1.5 s, and only planning needs it

    datasets.disable_progress_bars()
    try:
        builder = datasets.load_dataset_builder(spec.dataset, name=spec.subset, revision=commit)
    except ValueError as error:
        subsets = datasets.get_dataset_config_names(spec.dataset, revision=commit)
        if spec.subset in subsets:
            raise SourceError(f"{spec.dataset}: {error}") from error
        seen = "there are several and none is named" if spec.subset is None else f"there is no {spec.subset!r}"
        raise ConfigError(
            f"sources.{spec.name}.subset: {seen} in {spec.dataset}; it has {', '.join(subsets)}"
        ) from error
    except FileNotFoundError as error:  # what `datasets` raises when a dataset or its data files are missing
        raise ConfigError(f"sources.{spec.name}.dataset: {spec.dataset} has no data files ({error})") from error
    found = builder.config.data_files or {}
    if spec.split not in found:
        raise ConfigError(
            f"sources.{spec.name}.split: {spec.dataset} has no split {spec.split!r}; it has {', '.join(found)}"
        )
    paths = []
    for address in found[spec.split]:
        match = _ADDRESS.fullmatch(address)
        if match is None or match["revision"] != commit:
            raise SourceError(f"{spec.dataset}: {address} is not a file of its commit {commit}")
        if not address.endswith(PARQUET_SUFFIXES + JSONL_SUFFIXES):
            raise ConfigError(f"sources.{spec.name}.dataset: {address} is neither Parquet nor JSONL")
        paths.append(match["path"])
    return paths


def open_ranges(address: str, n_bytes: int | None = None) -> RangeFile:
    """The file at an hf:// URL pinned to a commit; its size is asked for when `n_bytes` is None.

    What the cache of this process has is not asked for. Reading raises SourceError when the Hub cannot be reached or
    answers with other bytes than asked for.
    """
    match = _ADDRESS.fullmatch(address)
    if match is None:
        raise SourceError(f"{address} is not an address pinned to a commit of a dataset")
    dataset, path = match["dataset"], match["path"]
    patience.install()
    url = huggingface_hub.hf_hub_url(dataset, path, repo_type="dataset", revision=match["revision"])
    # Some servers pack what they send when allowed to, and ranges of packed bytes are something else.
    headers = {**build_hf_headers(library_name="tamiz"), "Accept-Encoding": "identity"}

    def ask_size() -> bytes:
        with explain_failures(dataset):
            size = huggingface_hub.get_hf_file_metadata(url).size
        if size is None:
            raise SourceError(f"{dataset}: the Hub does not say how large {path} is")
        return str(size).encode()

    def fetch(start: int, stop: int) -> bytes:
        with explain_failures(dataset):
            response = huggingface_hub.get_session().get(url, headers={**headers, "Range": f"bytes={start}-{stop - 1}"})
            hf_raise_for_status(response)
        data: bytes = response.content
        if len(data) != stop - start:
            raise SourceError(f"{dataset}: asked for {stop - start} bytes of {path}, the Hub sent {len(data)}")
        return data

    if n_bytes is None:
        n_bytes = int(_remember(f"{address}#size", ask_size))
    return RangeFile(lambda start, stop: _remember(f"{address}#{start}-{stop}", lambda: fetch(start, stop)), n_bytes)


def _remember(key: str, ask: Callable[[], bytes]) -> bytes:
    """What the cache has under `key`, or the answer to `ask`, kept there from now on."""
    cache = get_cache()
    if cache is None:
        return ask()
    data = cache.load(key)
    if data is None:
        data = ask()
        cache.save(key, data)
    return data


@contextlib.contextmanager
def explain_failures(dataset: str, source: str | None = None) -> Iterator[None]:
    """Say what a failure of the Hub means for the user: ConfigError while listing `source`, SourceError in reading."""
    try:
        yield
    except patience.UnreachableError as error:
        if error.status == 429:
            raise SourceError(
                f"the Hub lets no more requests for {dataset} through ({error}); run the same command again later, "
                "or log in with `hf auth login` for a higher limit"
            ) from error
        if error.status is not None:
            raise SourceError(
                f"the Hub failed again and again to serve {dataset} ({error}); run the same command again later"
            ) from error
        raise SourceError(
            f"could not reach the Hub for {dataset}: {error}; check the connection, then run the same command again"
        ) from error
    except OfflineModeIsEnabled as error:
        raise SourceError(f"could not reach the Hub for {dataset}: HF_HUB_OFFLINE is set") from error
    except GatedRepoError as error:
        message = f"{dataset} is gated; accept its terms on its page of the Hub and log in with `hf auth login`"
        raise _blame(source, "dataset", message) from error
    except (RepositoryNotFoundError, HFValidationError) as error:
        message = f"the Hub has no dataset {dataset}, or it is private: check the name, or log in with `hf auth login`"
        raise _blame(source, "dataset", message) from error
    except (RevisionNotFoundError, EntryNotFoundError) as error:
        message = f"{dataset} has no such branch, tag, commit or file: {str(error).splitlines()[-1]}"
        raise _blame(source, "revision", message) from error
    except HfHubHTTPError as error:
        raise SourceError(f"the Hub refused {dataset}: {str(error).strip().splitlines()[0]}") from error


def _blame(source: str | None, key: str, message: str) -> ConfigError | SourceError:
    return SourceError(message) if source is None else ConfigError(f"sources.{source}.{key}: {message}")
