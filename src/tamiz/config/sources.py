"""Where documents come from, as typed values of the config."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PositiveInt, ValidationInfo, model_validator

from tamiz.objects import check_url


class Model(BaseModel):
    """Frozen; unknown keys are errors; the text below an attribute describes it in docs/config.md."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True)


class Condition(Model):
    """A condition on a column of the source: `{min: 3}`, `{max: 5}`, `{min: 1, max: 2}` or `{in: [en, de]}`."""

    min: float | None = None
    """smallest value selected"""
    max: float | None = None
    """largest value selected"""
    in_: Annotated[list[str] | list[int] | None, Field(alias="in")] = None
    """the values selected, instead of min and max"""

    @model_validator(mode="after")
    def _check(self) -> Condition:
        if self.min is None and self.max is None and self.in_ is None:
            raise ValueError("is empty; give min, max or in")
        if self.in_ is not None and (self.min is not None or self.max is not None):
            raise ValueError("has `in` together with min or max; give one kind")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"has min {self.min} > max {self.max}; nothing can pass")
        return self


class _Source(Model):
    license: str | None = None
    """for the dataset card, as the Hub spells it, e.g. odc-by"""
    limit: PositiveInt | None = None
    """documents to read, of those that `where` selects, in the order of the files"""


class _TableSource(_Source):
    where: dict[str, Condition] = {}
    """conditions by column; only documents that satisfy all are read, a null satisfies none"""


class SampleSource(_TableSource):
    """The sample shipped with tamiz."""

    kind: Literal["sample"]


def check_urls(paths: list[str], info: ValidationInfo) -> list[str]:
    """The paths, if those that are URLs can be opened; ValueError else."""
    for path in paths:
        check_url(path, str(info.field_name))
    return paths


Paths = Annotated[list[str], Field(min_length=1), AfterValidator(check_urls)]


class FileSource(_TableSource):
    """Files: Parquet, or JSON lines (plain, .gz, .zst)."""

    kind: Literal["parquet", "jsonl"]
    paths: Paths
    """files, folders, or patterns with `*`, `?`, `**`; local, or URLs such as s3://bucket/crawl/*.parquet"""
    text_column: str = "text"
    """the column, or JSON key, that holds the text"""


class HubSource(_TableSource):
    """A dataset on the Hugging Face Hub."""

    kind: Literal["hub"]
    dataset: str
    """owner/name"""
    subset: str | None = None
    """config of the dataset, e.g. sample-10BT; null is its default one"""
    split: str = "train"
    """split of the dataset"""
    revision: str | None = None
    """branch, tag or commit; pinned to a commit when the plan is made"""
    text_column: str = "text"
    """the column, or JSON key, that holds the text"""


class WarcSource(_Source):
    """Crawls: the HTML pages of WARC files, the texts of WET files, plain or with .gz or .zst."""

    kind: Literal["warc"]
    paths: Paths
    """files, folders, or patterns with `*`, `?`, `**`; local, or URLs such as s3://bucket/crawl/*.warc.gz"""


Source: TypeAlias = Annotated[SampleSource | FileSource | HubSource | WarcSource, Field(discriminator="kind")]
