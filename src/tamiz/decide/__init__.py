"""Rules over metric columns: which documents a config keeps, and every reason it does not."""
