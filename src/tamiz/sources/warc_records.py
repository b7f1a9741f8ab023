"""The records of a WARC file (ISO 28500:2017, and 1.0 before it), damaged ones included.

Damage: warc_truncated (the file ends inside the record), warc_bad_packing (it cannot be unpacked), warc_bad_header (no
record begins here), warc_bad_length (behind the length that it states, no other record begins), record_too_long.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from tamiz.sources.tape import Tape

RECORD_BYTES_MAX = 64 << 20  # a longer one is passed over without being held in memory
_HEADER_BYTES_MAX = 64 << 10
_HEADER_END = re.compile(rb"\r?\n\r?\n")
_VERSION = re.compile(rb"WARC/[01]\.[0-9]{1,2}[ \t]*\r?\n")
_LENGTH = re.compile(r"[0-9]{1,18}")


class Record(NamedTuple):
    """A record, or what is left of one.

    position   names it: where it begins in the file (Tape.mark)
    headers    field name in lower case -> value
    block      its content; empty when `damage` says why
    damage     None for a whole record
    """

    position: int
    headers: dict[str, str]
    block: bytes
    damage: str | None = None


def iterate_records(tape: Tape) -> Iterator[Record]:
    """Every record from the tape's place on. Where one cannot be read, the next one found comes after it."""
    while True:
        tape.skip_breaks()
        tape.drop()
        if not tape.peek(1) and tape.damage is None:
            return
        position = tape.mark()
        record = _read_record(tape, position)
        yield record
        if record.damage is None or record.damage == "record_too_long":
            continue
        if not tape.find_record() and not (tape.damage and tape.recover()):
            return


def _read_record(tape: Tape, position: int) -> Record:
    """The record that begins here; behind it, or if it is damaged where the search for the next one is to begin."""
    headers, damage = _read_header(tape)
    if damage:
        tape.read(1)  # so that the search does not find this place again
        return Record(position, {}, b"", damage)
    length = int(headers["content-length"])
    if length > RECORD_BYTES_MAX:
        return _pass_over(tape, position, headers, length)
    block = tape.read(length)
    if len(block) < length:
        tape.unread(len(block))
        return Record(position, headers, b"", tape.damage or "warc_truncated")
    is_closed = tape.peek(4) == b"\r\n\r\n"  # as it must be: what follows is the next record's matter
    n_breaks = tape.skip_breaks()
    if is_closed or _is_between_records(tape):
        return Record(position, headers, block)
    tape.unread(length + n_breaks)
    return Record(position, headers, b"", "warc_bad_length")


def _pass_over(tape: Tape, position: int, headers: dict[str, str], length: int) -> Record:
    tape.drop()
    place = tape.place
    damage = "warc_bad_length"
    if tape.skip(length) < length:
        damage = tape.damage or "warc_truncated"
    else:
        tape.skip_breaks()
        if _is_between_records(tape):
            return Record(position, headers, b"", "record_too_long")
    tape.rewind(place)
    return Record(position, headers, b"", damage)


def _is_between_records(tape: Tape) -> bool:
    ahead = tape.peek(5)
    return ahead in (b"", b"WARC/") or tape.is_at_frame


def _read_header(tape: Tape) -> tuple[dict[str, str], str | None]:
    """The fields of the header, or the damage: it has no end, no version or no length."""
    n = 1 << 10
    while True:
        ahead = tape.peek(n)
        end = _HEADER_END.search(ahead)
        if end is not None or len(ahead) < n or n >= _HEADER_BYTES_MAX:
            break
        n *= 4
    version = _VERSION.match(ahead)
    if version is None:
        return {}, "warc_bad_header" if ahead else tape.damage
    if end is None:
        return {}, "warc_bad_header" if len(ahead) == n else tape.damage or "warc_truncated"
    headers = parse_fields(ahead[version.end() : end.start()])
    if not _LENGTH.fullmatch(headers.get("content-length", "")):
        return {}, "warc_bad_header"
    tape.read(end.end())
    return headers, None


def parse_fields(lines: bytes) -> dict[str, str]:
    """Header fields, name in lower case -> value; of a repeated one the first; a line that is none is left out."""
    fields: dict[str, str] = {}
    unfolded = re.sub(rb"\r?\n[ \t]+", b" ", lines)
    for line in unfolded.split(b"\n"):
        name, colon, value = line.partition(b":")
        if colon:
            fields.setdefault(name.strip().decode("latin-1").lower(), value.strip().decode(errors="replace"))
    return fields
