"""Plan, run and record: turns a Config into plain values for the rooms, and the rooms' results into published files."""
