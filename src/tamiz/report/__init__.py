"""What a run did, as numbers that balance: the summary, the console table, the page."""
