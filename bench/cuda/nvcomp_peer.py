#!/usr/bin/env python3
"""Measures how fast nvCOMP's ANS (Python package nvidia-nvcomp) decodes the bytes of files, on the GPU at hand.

Prints a line per file, in GB/s of output, and writes the same as JSON. Needs only nvidia-nvcomp, numpy and the CUDA
runtime. Files of BF16 are coded as 16-bit numbers, which suits them better, others as bytes. Everything that can be is
prepared before the calls, and eight calls are queued at a time, since each takes the host longer than others do.
"""
import argparse
import ctypes
import json
import os
import statistics
import sys
import time

RELEASE_THRESHOLD = 4  # cudaMemPoolAttrReleaseThreshold


class Timer:
    """Times work by CUDA events, on a stream on which the work must be put."""

    def __init__(self):
        for name in ("libcudart.so", "libcudart.so.13", "libcudart.so.12"):
            try:
                self.cuda = ctypes.CDLL(name)
                break
            except OSError:
                continue
        else:
            sys.exit("nvcomp_peer.py: no libcudart: skipped")
        # The codec allocates what it returns, from now on out of memory that the pool keeps.
        pool, most = ctypes.c_void_p(), ctypes.c_uint64(2**64 - 1)
        self.check(self.cuda.cudaDeviceGetDefaultMemPool(ctypes.byref(pool), 0))
        self.check(self.cuda.cudaMemPoolSetAttribute(pool, RELEASE_THRESHOLD, ctypes.byref(most)))
        self.stream = ctypes.c_void_p()
        self.check(self.cuda.cudaStreamCreate(ctypes.byref(self.stream)))
        self.events = [ctypes.c_void_p(), ctypes.c_void_p()]
        for event in self.events:
            self.check(self.cuda.cudaEventCreate(ctypes.byref(event)))

    @staticmethod
    def check(status):
        if status != 0:
            sys.exit(f"nvcomp_peer.py: CUDA error {status}")

    def synchronize(self):
        self.check(self.cuda.cudaStreamSynchronize(self.stream))

    def seconds(self, work, turns=9, at_once=8):
        """Returns the time of a call: the median of `turns` turns of `at_once` calls, after 20 ms that do not count."""
        begin = time.monotonic()
        while time.monotonic() - begin < 0.02:
            work()
            self.synchronize()
        found = []
        for _ in range(turns):
            self.check(self.cuda.cudaEventRecord(self.events[0], self.stream))
            kept = [work() for _ in range(at_once)]
            self.check(self.cuda.cudaEventRecord(self.events[1], self.stream))
            self.check(self.cuda.cudaEventSynchronize(self.events[1]))
            milliseconds = ctypes.c_float()
            self.check(self.cuda.cudaEventElapsedTime(ctypes.byref(milliseconds), *self.events))
            found.append(milliseconds.value * 1e-3 / at_once)
            del kept
        return statistics.median(found)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--json", help="where the figures go")
    options = parser.parse_args()
    try:
        import numpy
        from nvidia import nvcomp
    except ImportError as missing:
        print(f"nvcomp_peer.py: {missing}: skipped")
        return

    timer = Timer()
    rows = []
    for path in options.files:
        plain = numpy.fromfile(path, dtype=numpy.uint8)
        name = os.path.basename(path)
        kind = {"data_type": "<f2"} if name.startswith("BF16") else {}
        codec = nvcomp.Codec(algorithm="ANS", cuda_stream=timer.stream.value, **kind)
        on_device = nvcomp.as_array(plain).cuda()
        coded = codec.encode(on_device)
        timer.synchronize()
        decoded = codec.decode(coded)
        ready = codec.decompression_config(coded)
        decode = timer.seconds(lambda: codec.decode(coded, out=decoded, decompression_config=ready))
        if numpy.asarray(decoded.cpu()).tobytes() != plain.tobytes():
            sys.exit(f"nvcomp_peer.py: {path}: other bytes came back")
        spare = codec.encode(on_device)
        planned = codec.compression_config(int(plain.size))
        encode = timer.seconds(lambda: codec.encode(on_device, out=spare, compression_config=planned))
        rows.append({
            "file": name,
            "bytes": plain.size,
            "bits_a_byte": round(8 * coded.buffer_size / plain.size, 4),
            "decode_gb_per_s": round(plain.size * 1e-9 / decode, 2),
            "encode_gb_per_s": round(plain.size * 1e-9 / encode, 2),
        })
        print("{file:32} {bits_a_byte:7.3f} bits  decode {decode_gb_per_s:8.1f} GB/s  encode {encode_gb_per_s:8.1f} GB/s"
              .format(**rows[-1]))
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"peer": "nvCOMP ANS", "version": nvcomp.__version__, "rows": rows}, file, indent=2)


if __name__ == "__main__":
    main()
