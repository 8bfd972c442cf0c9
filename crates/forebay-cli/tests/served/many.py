# Keeps many requests outstanding, whose answers may come in any order. Every read must return the latest data written
# to its address.
import random
import sys

import nbd

uri, trims = sys.argv[1], sys.argv[2] == "trims"
draw = random.Random(5)
BLOCK, BLOCKS = 16384, 512


def connected(structured=True, full=True):
    h = nbd.NBD()
    h.set_request_structured_replies(structured)
    if full and structured:
        h.add_meta_context(nbd.CONTEXT_BASE_ALLOCATION)
    if not full:
        # The oldest form of the handshake, which has a name but no flags.
        h.set_handshake_flags(0)
    h.connect_uri(uri)
    return h


def drain(h, most):
    while h.aio_in_flight() > most:
        h.poll(-1)


for structured in (True, False):
    h, other = connected(structured), connected(structured)
    known = [h.pread(BLOCK, at * BLOCK) for at in range(BLOCKS)]
    known = [bytes(one) for one in known]
    order, answered, failed = [], [], []

    def over(cookie):
        def done(error):
            answered.append(cookie)
            if error:
                failed.append((cookie, error))
            return 1
        order.append(cookie)
        return done

    for round in range(4):
        blocks = draw.sample(range(BLOCKS), 160)
        for at in blocks[:100]:
            data = draw.randbytes(BLOCK)
            known[at] = data
            flags = nbd.CMD_FLAG_FUA if at % 5 == 0 else 0
            buffer = nbd.Buffer.from_bytearray(bytearray(data))
            h.aio_pwrite(buffer, at * BLOCK, over(("write", round, at)), flags)
        for at in blocks[100:130]:
            known[at] = bytes(BLOCK)
            flags = nbd.CMD_FLAG_NO_HOLE if at % 2 else 0
            h.aio_zero(BLOCK, at * BLOCK, over(("zero", round, at)), flags)
        reads = []
        for at in blocks[130:]:
            buffer = nbd.Buffer(BLOCK)
            reads.append((at, buffer))
            h.aio_pread(buffer, at * BLOCK, over(("read", round, at)))
        drain(h, 0)
        assert not failed, failed
        for at, buffer in reads:
            assert bytes(buffer.to_bytearray()) == known[at], at
        h.flush()
        # A second connection sees all data.
        for at in blocks:
            assert bytes(other.pread(BLOCK, at * BLOCK)) == known[at], (structured, at)
    assert sorted(order) == sorted(answered)

    chunks = []
    if structured:
        def chunk(data, offset, status, error):
            chunks.append((offset, len(data), status))
        h.pread_structured(BLOCK * 4, BLOCK, chunk, nbd.CMD_FLAG_DF)
        assert chunks == [(BLOCK, BLOCK * 4, nbd.READ_DATA)], chunks
        extents = []
        h.block_status(BLOCK * BLOCKS, 0, lambda name, at, entries, error: extents.extend(entries))
        assert sum(extents[::2]) <= BLOCK * BLOCKS and all(extents[::2])
        one = []
        h.block_status(BLOCK * BLOCKS, 0, lambda name, at, entries, error: one.extend(entries),
                       nbd.CMD_FLAG_REQ_ONE)
        assert one == extents[:2], (one, extents[:2])
    h.cache(BLOCK * 100, 0)
    h.trim(BLOCK * 2, BLOCK * 7)
    if trims:
        assert bytes(h.pread(BLOCK * 2, BLOCK * 7)) == bytes(BLOCK * 2)
    h.zero(BLOCK * 50, 0, nbd.CMD_FLAG_FAST_ZERO)
    assert bytes(h.pread(BLOCK * 50, 0)) == bytes(BLOCK * 50)
    h.shutdown()
    other.shutdown()

# A client that only sends a name cannot learn the block size. It is rejected if blocks are longer
# than 512 bytes.
new = connected()
if new.get_block_size(nbd.SIZE_MINIMUM) <= 512:
    old = connected(structured=False, full=False)
    old.pwrite(b"x" * 4096, 4096)
    assert bytes(new.pread(4096, 4096)) == b"x" * 4096
    old.shutdown()

# Each kind of invalid request gets the right error.
raw = connected()
raw.set_strict_mode(0)
for ask, errno in [
    (lambda: raw.pread(512, BLOCK * BLOCKS), "EINVAL"),
    (lambda: raw.pwrite(bytes(512), BLOCK * BLOCKS), "ENOSPC"),
    (lambda: raw.zero(512, BLOCK * BLOCKS - 256 - 256 + 512), "ENOSPC"),
    (lambda: raw.pread(512, 1 << 62), "EINVAL"),
    (lambda: raw.zero(4096, 0, nbd.CMD_FLAG_FAST_ZERO | nbd.CMD_FLAG_NO_HOLE), "ENOTSUP"),
]:
    try:
        ask()
        raise AssertionError(f"{errno} expected")
    except nbd.Error as error:
        assert error.errno in (errno, "EOPNOTSUPP" if errno == "ENOTSUP" else errno), (errno, error)
raw.shutdown()
