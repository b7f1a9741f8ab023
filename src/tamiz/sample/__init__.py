"""The sample shipped with tamiz: 400 documents written for it, in FineWeb's columns, as two Parquet files.

`sample-0.parquet` and `sample-1.parquet` have five row groups of 40 documents each. They are made by
scripts/make_sample.py; what each document should come to is in tests/golden/sample_labels.tsv. Texts: CC0 1.0.
"""
