"""From a record's payload to text, or to the reason why there is none."""
