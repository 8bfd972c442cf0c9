"""libCacheSim's own loop over a file: accesses per second and miss ratio of LRU and S3-FIFO. python beside.py FILE
FRAMES RUNS
"""

import os
import sys
import time

import libcachesim as lcs

path, frames, runs = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
accesses = os.path.getsize(path) // 24
for policy in (lcs.LRU, lcs.S3FIFO):
    best, ratio = 0.0, None
    for _ in range(runs):
        reader = lcs.TraceReader(path, lcs.TraceType.ORACLE_GENERAL_TRACE, lcs.ReaderInitParam())
        cache = policy(frames)
        begun = time.perf_counter()
        ratio, _ = cache.process_trace(reader)
        best = max(best, accesses / (time.perf_counter() - begun))
    print(best, ratio)
