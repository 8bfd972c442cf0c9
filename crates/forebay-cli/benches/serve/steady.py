"""Reads of 4 KiB from an export at times that do not depend on its answers: exponential gaps from one seed.

steady.py SOCKET EXPORT RATE SECONDS

(With a rate limit, fio waits until all outstanding requests have completed before it waits for the next request's
time, and its nbd engine cannot submit from separate threads.)
"""

import random
import socket
import sys
import threading
import time

from protocol import READ, answered, choose, request

BYTES, SPAN = 4096, 1 << 30


def main():
    path, export, rate, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4])
    link = socket.socket(socket.AF_UNIX)
    link.connect(path)
    choose(link, export)
    drawn, at, times = random.Random(1), 0.0, []
    while (at := at + drawn.expovariate(rate)) < seconds:
        times.append(at)
    answers = threading.Thread(target=lambda: [answered(link, BYTES) for _ in times])
    answers.start()
    begin = time.monotonic()
    for nth, at in enumerate(times):
        time.sleep(max(0.0, begin + at - time.monotonic()))
        offset = drawn.randrange(SPAN // BYTES) * BYTES
        link.sendall(request(READ, nth, offset, BYTES))
    answers.join()


main()
