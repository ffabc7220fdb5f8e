#!/usr/bin/env python3
"""tools/tensorboard-check finds what is wrong with the event files of a run: damaged, cut, missing and foreign records.

  tensorboard_check.py PROGRAM SOURCE_DIR

Where TensorBoard is not installed, a stand-in reads the files as it does: it stops at the first damaged record of a file,
without a word.
"""
import glob, importlib.util, os, struct, subprocess, sys, tempfile

STAND_IN = '''
import collections, glob, os, struct

Point = collections.namedtuple("Point", "step value")

def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82f63b78 if crc & 1 else 0)
    crc ^= 0xffffffff
    return ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff

def records(data):
    while len(data) >= 12:
        size, check = struct.unpack("<QI", data[:12])
        whole = check == crc32c(data[:8]) and len(data) >= size + 16
        if not whole or struct.unpack("<I", data[12 + size:16 + size])[0] != crc32c(data[12:12 + size]):
            return
        yield data[12:12 + size]
        data = data[16 + size:]

def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7f) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 0x80:
            return value, at

def fields(data):
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        else:
            size = {1: 8, 5: 4}.get(key & 7)
            if size is None:
                size, at = varint(data, at)
            value, at = data[at:at + size], at + size
        yield key >> 3, value

class EventAccumulator:
    def __init__(self, path, size_guidance):
        self.path, self.curves = path, {}
    def Reload(self):
        for name in sorted(glob.glob(os.path.join(self.path, "*tfevents*"))):
            with open(name, "rb") as file:
                for record in records(file.read()):
                    event = dict(fields(record))
                    for _, scalar in fields(event.get(5, b"")):
                        scalar = dict(fields(scalar))
                        self.curves.setdefault(scalar[1].decode(), []).append(
                            Point(event.get(2, 0), struct.unpack("<f", scalar[2])[0]))
    def Tags(self):
        return {"scalars": list(self.curves)}
    def Scalars(self, tag):
        return self.curves[tag]
'''

program, source = sys.argv[1:]
with tempfile.TemporaryDirectory() as work:
    run, environment = os.path.join(work, "run"), dict(os.environ)
    if importlib.util.find_spec("tensorboard") is None:
        place = os.path.join(work, "tensorboard", "backend", "event_processing")
        os.makedirs(place)
        with open(os.path.join(place, "event_accumulator.py"), "w") as file:
            file.write(STAND_IN)
        environment["PYTHONPATH"] = work
    ours = {}
    exec(STAND_IN, ours)
    subprocess.run([program, "train", "tiny-100k", "seq_len=16", "micro_batch=1", "global_batch=2", "threads=1", "train.steps=5",
                    "log.tensorboard=true", "output=" + run], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    path, = glob.glob(os.path.join(run, "*tfevents*"))
    with open(path, "rb") as file:
        good = file.read()
    ends = [0]  # of the records
    while ends[-1] < len(good):
        ends.append(ends[-1] + struct.unpack("<Q", good[ends[-1]:ends[-1] + 8])[0] + 16)
    part = [good[a:b] for a, b in zip(ends, ends[1:])]
    assert len(part) == 7, "the file's version, the session's start and five steps"
    wrong = []

    def expect(code, what, content, says="DIFFERENT"):
        with open(path, "wb") as file:
            file.write(content)
        done = subprocess.run([sys.executable, os.path.join(source, "tools", "tensorboard-check"), run], env=environment,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != code or (says in done.stdout) != (code == 1):
            wrong.append(f"{what}: exit {done.returncode} instead of {code}\n{done.stdout}")

    def flipped(at):
        return good[:at] + bytes([good[at] ^ 1]) + good[at + 1:]

    content = bytearray(part[4][12:-4])  # a value that another run may have had, in a record that is whole
    content[-1] ^= 0x40
    foreign = part[4][:12] + bytes(content) + struct.pack("<I", ours["crc32c"](bytes(content)))
    expect(0, "as it was written", good)
    expect(1, "a bit of a step", flipped(ends[4] + 40))
    expect(1, "a bit of the last step", flipped(ends[7] - 20))
    expect(1, "a bit of a length", flipped(ends[4]))
    expect(1, "a bit of a checksum", flipped(ends[5] - 1))
    expect(1, "a bit of the first record", flipped(20))
    expect(1, "the last record is cut", good[:-1])
    expect(1, "a step is missing", b"".join(part[:4] + part[5:]))
    expect(1, "a step is there twice", b"".join(part[:5] + part[4:]))
    expect(1, "steps in another order", b"".join(part[:4] + [part[5], part[4], part[6]]))
    expect(1, "a value of another run", b"".join(part[:4] + [foreign] + part[5:]))
    expect(1, "no records", b"")
    open(os.path.join(run, "metrics.jsonl"), "w").close()
    expect(1, "nothing to compare with", good, "holds no curve")
sys.exit("\n".join(wrong) or 0)
