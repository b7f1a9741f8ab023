from __future__ import annotations

import os
from pathlib import Path

from hypothesis import settings

from tamiz.kernels import name_kernel_folder

os.environ.setdefault("NUMBA_CACHE_DIR", str(name_kernel_folder(Path.home() / ".cache" / "tamiz")))

# No deadline: the first example of a kernel compiles it.
settings.register_profile("tamiz", deadline=None)
settings.load_profile("tamiz")
