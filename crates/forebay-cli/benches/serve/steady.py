"""Reads of 4 KiB from an export at times that do not depend on its answers: exponential gaps from one seed.

steady.py SOCKET EXPORT RATE SECONDS

(fio lets all that is under way end before it waits for a request's time, and its nbd engine cannot submit from
threads of their own.)
"""

import random
import socket
import struct
import sys
import threading
import time

OPTION, GO, ACK, READ = 0x49484156454F5054, 7, 1, 0x25609513
BYTES, SPAN = 4096, 1 << 30


def exactly(link, count):
    data = bytearray()
    while len(data) < count:
        came = link.recv(count - len(data))
        if not came:
            raise SystemExit("the server is gone")
        data += came
    return data


def choose(link, export):
    exactly(link, 18)
    name = export.encode()
    option = struct.pack(f">I{len(name)}sH", len(name), name, 0)
    link.sendall(struct.pack(">IQII", 3, OPTION, GO, len(option)) + option)
    kind = 0
    while kind != ACK:
        _, _, kind, count = struct.unpack(">QIII", exactly(link, 20))
        exactly(link, count)
        if kind >> 31:
            raise SystemExit(f"the server refuses '{export}'")


def main():
    path, export, rate, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4])
    link = socket.socket(socket.AF_UNIX)
    link.connect(path)
    choose(link, export)
    drawn, at, times = random.Random(1), 0.0, []
    while (at := at + drawn.expovariate(rate)) < seconds:
        times.append(at)
    answers = threading.Thread(target=lambda: [exactly(link, 16 + BYTES) for _ in times])
    answers.start()
    begin = time.monotonic()
    for nth, at in enumerate(times):
        time.sleep(max(0.0, begin + at - time.monotonic()))
        offset = drawn.randrange(SPAN // BYTES) * BYTES
        link.sendall(struct.pack(">IHHQQI", READ, 0, 0, nth, offset, BYTES))
    answers.join()


main()
