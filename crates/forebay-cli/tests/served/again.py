# Writes and reads back data. Reconnects whenever the server is gone, and repeats unanswered
# requests.
import select
import sys
import time

import nbd

BLOCK, BLOCKS = 4096, 1024


def connected():
    for _ in range(2400):
        h = nbd.NBD()
        try:
            h.connect_uri(sys.argv[1])
            return h
        except nbd.Error:
            time.sleep(0.05)
    raise AssertionError("the server does not come back")


h, known, lost, count = connected(), {}, 0, 0
# Continue until the process that started this one has seen enough.
while not select.select([sys.stdin], [], [], 0)[0]:
    count += 1
    at = count * 37 % BLOCKS
    known[at] = count.to_bytes(8, "little") * (BLOCK // 8)
    while True:
        try:
            h.pwrite(known[at], at * BLOCK)
            if count % 10 == 0:
                h.flush()
            there = (count // 2) * 37 % BLOCKS
            assert there not in known or bytes(h.pread(BLOCK, there * BLOCK)) == known[there], there
            break
        except nbd.Error:
            lost += 1
            h = connected()
    if count % 500 == 0:
        print(f"goes on after {lost} losses", flush=True)
for at, block in known.items():
    assert bytes(h.pread(BLOCK, at * BLOCK)) == block, at
print(f"lost the server {lost} times", flush=True)
