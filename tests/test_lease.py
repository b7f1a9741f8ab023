from __future__ import annotations

import pytest

from tamiz.errors import StoreError
from tamiz.lease import Hold, read_clock


def test_a_lease_that_was_not_renewed_is_lost_by_the_clock_alone() -> None:
    hold = Hold("s3://bucket/run", read_clock() + 60)
    hold.check()
    hold.until = read_clock() - 1
    with pytest.raises(StoreError, match=r"s3://bucket/run: this process did not renew its lease for 30 s"):
        hold.check()
    hold.until = read_clock() + 60  # too late: another may have been there
    with pytest.raises(StoreError, match="did not renew"):
        hold.check()


def test_a_lock_does_not_run_out() -> None:
    Hold("/runs/x").check()
