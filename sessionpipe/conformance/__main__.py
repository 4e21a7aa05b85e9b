"""``python -m sessionpipe.conformance``: the same, where the script is not installed."""

from __future__ import annotations

from sessionpipe.conformance import main

if __name__ == "__main__":
    main(prog_name="sessionpipe-conformance")
