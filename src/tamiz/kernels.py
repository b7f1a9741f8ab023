"""Where compiled kernels are cached: a folder named after the code they were compiled from.

numba looks only at the file of the kernel itself, so a change in a function that another module's kernel has inlined
would go unseen; with a folder per state of the rooms that have kernels, a stale one cannot be found. Imports nothing
heavy: it must run before numba is imported.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

ROOMS = ("clean", "dedup", "measure", "pack")


def name_kernel_folder(cache_dir: Path) -> Path:
    """`<cache_dir>/kernels-<hash of the Python files of ROOMS>`."""
    package = Path(__file__).parent
    digest = hashlib.sha256()
    for path in sorted(path for room in ROOMS for path in (package / room).glob("*.py")):
        digest.update(f"{path.relative_to(package)}\0".encode() + path.read_bytes())
    return cache_dir / f"kernels-{digest.hexdigest()[:16]}"
