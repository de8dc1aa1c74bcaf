"""Tests the ways through loops that bench/cuda/instructions.py finds in listings."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench", "cuda"))
import instructions  # noqa: E402


def hot_loop(*lines):
    """Returns the addresses of the instructions of the loop that does the work; 16 bytes each."""
    listing = "".join(f"        /*{16 * i:04x}*/   {line} ;\n" for i, line in enumerate(lines))
    code = instructions.functions_of("\t\tFunction : kernel\n" + listing)["kernel"]
    return [one.address for one in instructions.hot_loop(code, lambda one: one.kind == "STG")]


# Branches under conditions other than predicates fall through as well.
for condition in ("P0", "UP0", "!UP0", "UR4"):
    found = hot_loop("LDS R1, [R2]", "VOTE.ANY R3, PT, P0", f"BRA.U {condition}, 0x40", "STG.E desc[UR2][R4.64], R1",
                     "@P1 BRA 0x0", "EXIT")
    assert found == [0x00, 0x10, 0x20, 0x30, 0x40], (condition, found)

# No way passes both stores.
found = hot_loop("LDS R1, [R2]", "VOTE.ANY R3, PT, P0", "@!P1 STG.E desc[UR2][R4.64], R1", "@!P1 BRA 0x60",
                 "STG.E desc[UR2][R4.64], R1", "IADD3 R5, R5, R6, RZ", "@P2 BRA 0x0", "EXIT")
assert found == [0x00, 0x10, 0x20, 0x30, 0x60], found
