"""The part of NBD that the clients of these measurements need."""

import struct

OPTION, GO, ACK = 0x49484156454F5054, 7, 1
REQUEST, READ, WRITE, FLUSH = 0x25609513, 0, 1, 3


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


def request(kind, name, offset, count):
    """Returns a request's header; `name` is returned with the answer."""
    return struct.pack(">IHHQQI", REQUEST, 0, kind, name, offset, count)


def answered(link, count=0):
    """Waits for an answer with this many bytes."""
    _, error, name = struct.unpack(">IIQ", exactly(link, 16))
    if error:
        raise SystemExit(f"request {name} failed: {error}")
    return exactly(link, count)
