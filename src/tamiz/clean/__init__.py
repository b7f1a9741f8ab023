"""Text -> text: the line rules of C4 (`line_rules`) and the redaction of e-mail and IP addresses (`redact`).

Both are pure functions of the document: what they write does not depend on other documents, their order or the batch.
"""
