#!/usr/bin/env python3
"""Counts the instructions per element of the kernels in the compiler's listing.

In each kernel, the loop that does the work counts: the smallest one with look-ups in shared memory that stores
(encoders: loads) four elements at once, or 16 bytes. Of the ways through it that do so most often, the shortest is
counted, which is the one that whole groups of elements take; elements are those of these accesses. Nothing is run, so
this needs no GPU, only nvcc, and cuobjdump of the CUDA toolkit. It does not count kernels for tables in global memory
(any_coding), which have a loop for each coding, and for gap arrays, whose work per element depends on the codes.
Shared memory is what a kernel has without asking.
"""
import argparse
import collections
import datetime
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SOURCES = os.path.join(ROOT, "src", "cuda", "*.cu")

# Accesses of memory by which elements are counted: the first pattern found in the kernel's name applies. In quantisers,
# the loop that counts evaluates the equation of a row, from weights as FP32 in shared memory.
ACCESSES = [
    (r"any_coding|decode_gaps", None),
    (r"quantize_kernel", ("LDS",)),
    (r"encode_kernel", ("LDG", "LD")),
    (r"decode", ("STG", "ST")),
]
# Bytes of an element, by the kernel's name.
ELEMENT_BYTES = [
    (r"quantize_kernel|weights_to<float|exponent_split<fp32", 4),
    (r"weights_to<(bf16|fp16)|exponent_split<(bf16|fp16)", 2),
    (r"", 1),
]

WIDTHS = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16}


class Instruction:
    __slots__ = ("address", "predicate", "name", "operands")

    def __init__(self, address, predicate, name, operands):
        self.address, self.predicate, self.name, self.operands = address, predicate, name, operands

    @property
    def kind(self):
        return self.name.split(".")[0]

    @property
    def target(self):
        found = re.search(r"\b0x([0-9a-f]+)", self.operands)
        return int(found.group(1), 16) if found else None

    @property
    def bytes(self):
        return next((WIDTHS[part] for part in self.name.split(".")[1:] if part in WIDTHS), 4)


LINE = re.compile(r"^\s+/\*([0-9a-f]{4,6})\*/\s+(?:(@!?U?P[0-9T]+)\s+)?([A-Z][A-Z0-9_.]*)\s*([^;]*);")


def functions_of(listing):
    """Returns name -> instructions, from the output of `cuobjdump -sass`."""
    found = {}
    for line in listing.splitlines():
        named = re.match(r"^\s*Function : (\S+)", line)
        if named:
            current = found.setdefault(named.group(1), [])
            continue
        parts = LINE.match(line)
        if parts and found:
            current.append(Instruction(int(parts.group(1), 16), parts.group(2) or "", parts.group(3), parts.group(4)))
    return found


def blocks_of(code):
    """Returns straight runs of instructions as (first, behind the last), and for each the numbers of those that may
    follow."""
    index = {one.address: i for i, one in enumerate(code)}
    heads = {0}
    for i, one in enumerate(code):
        if one.kind in ("BRA", "BRX", "EXIT", "RET", "JMP"):
            heads.add(i + 1)
            heads.update(index[target] for target in [one.target] if target in index)
    heads = sorted(head for head in heads if head < len(code))
    number = {head: i for i, head in enumerate(heads)}
    blocks = list(zip(heads, heads[1:] + [len(code)]))
    followers = []
    for first, end in blocks:
        one = code[end - 1]
        to = []
        if one.kind in ("BRA", "JMP") and one.target in index:
            to.append(number[index[one.target]])
        leaves = one.kind in ("BRA", "BRX", "EXIT", "RET", "JMP") and one.predicate in ("", "@PT")
        if one.kind == "BRA" and "," in one.operands:
            leaves = False  # a condition besides the predicate: P0, !UP0 or, of BRA.DIV, UR4
        if not leaves and end < len(code):
            to.append(number[end])
        followers.append(to)
    return blocks, followers


def in_depth(start, followers, within=None):
    """Returns the blocks from `start` on, in an order in which each stands before those that follow it except along
    edges back, and these edges."""
    state, order, back = {start: 1}, [], set()
    stack = [(start, iter(followers[start]))]
    while stack:
        block, rest = stack[-1]
        for to in rest:
            if within is not None and to not in within:
                continue
            if to not in state:
                state[to] = 1
                stack.append((to, iter(followers[to])))
                break
            if state[to] == 1:
                back.add((block, to))
        else:
            state[block] = 2
            order.append(block)
            stack.pop()
    return order[::-1], back


def loops_of(followers):
    """Returns head -> blocks of the loop."""
    before = collections.defaultdict(set)
    for block, to in enumerate(followers):
        for one in to:
            before[one].add(block)
    loops = collections.defaultdict(set)
    for latch, head in in_depth(0, followers)[1]:
        body, waiting = {head, latch}, [latch] if latch != head else []
        while waiting:
            for one in before[waiting.pop()] - body:
                body.add(one)
                waiting.append(one)
        loops[head] |= body
    return loops


def looks_up(one):
    return one.kind == "LDS"


def left_out(last, address):
    """Returns the predicate that is false if `address` follows the last instruction of a block; None if no branch
    tells."""
    if last.kind != "BRA" or last.predicate == "" or "," in last.operands:
        return None
    if last.target != address:
        return last.predicate
    return last.predicate.replace("@!", "@") if "!" in last.predicate else last.predicate.replace("@", "@!")


def hot_way(code, blocks, followers, head, body, wanted):
    """Returns the instructions of the shortest of the ways once round a loop that meet `wanted` most often. Those under
    the predicate with which the block's branch would go elsewhere are not met."""
    order, back = in_depth(head, followers, body)
    # best[meets] = (instructions, block before, meets before) on the way to a block
    best = {block: {} for block in order}
    best[head][0] = (0, None, None)
    ends = []
    for block in order:
        part = code[slice(*blocks[block])]
        for meets, (count, _, _) in list(best[block].items()):
            value = (count + len(part), block, meets)
            for to in followers[block]:
                false = left_out(part[-1], code[blocks[to][0]].address)
                now = meets + sum(wanted(one) and one.predicate != false for one in part)
                if to == head:
                    ends.append((-now, value))
                elif to in body and (block, to) not in back and (now not in best[to] or value[0] < best[to][now][0]):
                    best[to][now] = value
    if not ends:
        return []
    _, (_, block, meets) = min(ends, key=lambda end: (end[0], end[1][0]))
    way = []
    while block is not None:
        way = code[slice(*blocks[block])] + way
        _, block, meets = best[block][meets]
    return way


def hot_loop(code, wanted):
    """Returns the way through the loop that does the work; empty if there is none."""
    blocks, followers = blocks_of(code)
    loops = {head: body for head, body in loops_of(followers).items()
             if any(looks_up(one) for block in body for one in code[slice(*blocks[block])])}
    ways = []
    for head, body in loops.items():
        way = hot_way(code, blocks, followers, head, body, wanted)
        # Coders ask all lanes of a warp whose state is full; loops that copy do not.
        asks = any(one.kind in ("VOTE", "VOTEU") for one in way)
        if any(map(wanted, way)):
            ways.append((not asks, len(body), way))
    return min(ways, default=(0, 0, []), key=lambda one: one[:2])[2]


def codings():
    """Returns the names of warp_coding by number."""
    with open(os.path.join(ROOT, "include/ecq/entropy/warp_table.hpp"), encoding="utf-8") as file:
        body = re.search(r"enum class warp_coding[^{]*\{(.*?)\}", file.read(), re.S).group(1)
    return re.findall(r"^\s*([a-z_]+)", body, re.M)


def plain_names(names):
    shown = subprocess.run(["c++filt"], input="\n".join(names), text=True, capture_output=True, check=True).stdout
    known = codings()
    for mangled, name in zip(names, shown.splitlines()):
        name = re.sub(r"\((?:[^()]|\([^()]*\))*\)(?: const)?$", "", re.sub(r"^void ", "", name))
        name = re.sub(r"(?:coded_as<)?\((?:ecq::)?warp_coding\)(\d+)>?", lambda found: known[int(found.group(1))], name)
        name = re.sub(r"(ecq|detail)::", "", name).replace(" >", ">")
        yield mangled, name


def resources_of(text):
    """Returns name -> registers, shared memory and stack, from the output of `cuobjdump -res-usage`."""
    found = {}
    for name, usage in re.findall(r"Function (\S+):\s*\n\s*(REG:.*)", text):
        found[name] = {key: int(value) for key, value in re.findall(r"(\w+):(\d+)", usage)}
    return found


def rows_of(path, arch):
    def dump(what):
        return subprocess.run(["cuobjdump", what, "-arch", f"sm_{arch}", path], text=True, capture_output=True,
                              check=True).stdout

    code = functions_of(dump("-sass"))
    resources = resources_of(dump("-res-usage"))
    for mangled, name in plain_names(list(code)):
        row = {"kernel": name, "arch": arch}
        accesses = next((kinds for pattern, kinds in ACCESSES if re.search(pattern, name)), None)
        element_bytes = next(width for pattern, width in ELEMENT_BYTES if re.search(pattern, name))

        def wanted(one, least=4 if "encode" in name else min(16, 4 * element_bytes), kinds=accesses):
            return one.kind in kinds and one.bytes >= least

        way = [] if accesses is None else hot_loop(code[mangled], wanted)
        kinds = collections.Counter(one.kind for one in way)
        elements = sum(one.bytes for one in way if wanted(one)) // element_bytes
        row["loop"] = len(way)
        row["elements"] = elements
        row["per_element"] = round(len(way) / elements, 2) if elements else None
        row["look_ups"] = kinds["LDS"]
        row["counts_of_bits"] = kinds["POPC"]
        row["all"] = len(code[mangled])
        used = resources.get(mangled, {})
        row.update(registers=used.get("REG"), shared=used.get("SHARED"), stack=used.get("STACK"),
                   local=used.get("LOCAL"))
        yield row


def compiled(nvcc, source, archs, folder):
    to = os.path.join(folder, os.path.basename(source) + ".fatbin")
    targets = [f"-gencode=arch=compute_{arch},code=sm_{arch}" for arch in archs]
    subprocess.run([nvcc, "-std=c++20", "-O3", "-I" + os.path.join(ROOT, "include"), *targets, "-fatbin", "-o", to,
                    source], check=True)
    return to


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", help="compiled kernels (.fatbin, .cubin, .o); else those of src/cuda")
    parser.add_argument("--arch", default="90", help="compute capabilities, such as 90,100 (90)")
    parser.add_argument("--only", default="", help="kernels whose name this pattern finds")
    parser.add_argument("--json", help="where the figures go, for programs")
    parser.add_argument("--commit", default=os.environ.get("ECQ_COMMIT", ""), help="what is counted, for the JSON")
    options = parser.parse_args()
    if shutil.which("cuobjdump") is None or shutil.which("c++filt") is None:
        print("cuobjdump or c++filt not found: instructions are not counted")
        return
    os.environ["PATH"] += os.pathsep + "/usr/local/cuda/bin"
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        print("nvcc not found: instructions are not counted")
        return
    archs = options.arch.split(",")
    with tempfile.TemporaryDirectory() as folder:
        files = options.files or [compiled(nvcc, source, archs, folder) for source in sorted(glob.glob(SOURCES))]
        rows = [row for file in files for arch in archs for row in rows_of(file, arch)
                if re.search(options.only, row["kernel"])]
    rows.sort(key=lambda row: (row["arch"], row["kernel"]))
    print(f"{'kernel':64} {'sm':>4} {'loop':>5} {'elements':>8} {'each':>6} {'regs':>5} {'shared':>6} {'stack':>5}")
    for row in rows:
        each = "-" if row["per_element"] is None else f"{row['per_element']:.2f}"
        print(f"{row['kernel']:64} {row['arch']:>4} {row['loop']:5} {row['elements']:8g} {each:>6} "
              f"{row['registers']:5} {row['shared']:6} {row['stack']:5}")
    if options.json:
        version = subprocess.run([nvcc, "--version"], text=True, capture_output=True, check=True).stdout
        commit = options.commit or subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty"], text=True,
                                                  capture_output=True).stdout.strip() or "unknown"
        with open(options.json, "w", encoding="utf-8") as file:
            head = {"nvcc": re.search(r"V([0-9.]+)", version).group(1), "commit": commit,
                    "date": datetime.date.today().isoformat()}
            lines = ",\n".join("  " + json.dumps(row) for row in rows)
            file.write(json.dumps(head)[:-1] + ', "kernels": [\n' + lines + "\n]}\n")


if __name__ == "__main__":
    sys.exit(main())
