"""pack: text -> tokens -> sequences -> SHARD tables, and back.

    tekken      Mistral's Tekken vocabulary as a tokenizer.json
    tokenizer   the seam: load a tokenizer by name, text columns to flat token buffers
    fill        which piece of which document goes to which row (best fit, or end to end)
    shards      document boundaries, the holdout, SHARD tables
    decode      SHARD tables back to documents, and the checks of a shard
    card        README.md of a corpus folder

A document's tokens are its text's tokens between an optional BOS and an EOS; a row is `sequence_length` tokens; a piece
is what one row holds of one document.
"""
