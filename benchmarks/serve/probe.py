"""Asks a server again and again whether it lives, and prints how long it took to say so.

python -m benchmarks.serve.probe URL SECONDS
"""

from __future__ import annotations

import json
import sys
import time
import urllib.error
import urllib.request

from benchmarks.serve.load import quantiles_ms

_PAUSE_SECONDS = 0.05


def main() -> None:
    """Ask for liveness over new connections, one after another."""
    url, seconds = sys.argv[1], float(sys.argv[2])
    times, failed, end = [], 0, time.perf_counter() + seconds
    while (begun := time.perf_counter()) < end:
        try:
            with urllib.request.urlopen(f"{url}/health/live", timeout=10) as response:
                response.read()
            times.append(time.perf_counter() - begun)
        except (urllib.error.URLError, OSError):
            failed += 1
        time.sleep(_PAUSE_SECONDS)
    print(json.dumps({"asked": len(times) + failed, "failed": failed, **quantiles_ms(times)}))


if __name__ == "__main__":
    main()
