#!/usr/bin/env python3
"""Quantises a causal language model with error feedback, by texts that the model writes itself.

    examples/python/calibrate.py MODEL -o OUT --bits 3
    ecq compress OUT -o CODED --lossless

MODEL is a folder with config.json and safetensors files of any decoder that transformers loads. OUT is the same
checkpoint with 8-bit codes and one scale per matrix (compressed-tensors, "int-quantized"), whose codes have about
--bits bits of entropy per weight: the second command stores them at about that size. Linear modules of layers are
quantised; stacks of matrices, in which transformers 5 keeps experts, stay as they are.

Needs PyTorch, transformers and safetensors, and nothing of this project but the folder beside this file. Tried only on
the CPU, with PyTorch 1.13 and transformers 4.40: two trained Llama models, and small models with random weights of
Mistral, Mixtral, Qwen2, Gemma, Phi, GPT-2, GPT-NeoX, OPT, Bloom and Mamba. Memory: the model in FP32, its matrices
twice, the states of all tokens twice. A device other than the CPU holds the whole model while texts are written, and
then one layer at a time.

Layers are taken in the order of computation, and within each the matrices that share an input. Let x be such an input
in the original model, x_q in the one quantised so far, H = E[x_q x_q^T], C = E[x x_q^T], and d a share of the mean of
E[x_q^2] that grows with the steps of codes: about 15 % at 2.1 bits, 4 % at 3, and at least 1 %. A matrix W first makes
up for a share a of the errors of everything quantised before it (--correction),

    W' = W + a (W (C + d) (H + d)^-1 - W),

and is then rounded column after column, where each column makes up for the errors of those before it (GPTQ, LDLQ). The
grid is evenly spaced, as entropy coding gives frequent codes few bits. Layers are taken a second time, with other
steps, where feedback changes the entropy by more than 0.02 bits. Exit status: 1 for a failure, 2 for wrong usage.
"""

import argparse
import pathlib
import sys

from calibration.answers import Failure, progress


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", metavar="MODEL", type=pathlib.Path, help="a folder with config.json and safetensors")
    parser.add_argument("-o", "--output", metavar="OUT", type=pathlib.Path, required=True, help="the folder to write")
    parser.add_argument("--bits", type=float, default=3.0, help="entropy of the codes (default: 3)")
    parser.add_argument("--tokens", type=int, default=16384, help="that the model writes (default: 16384)")
    parser.add_argument("--window", type=int, default=256, help="tokens of a text (default: 256)")
    parser.add_argument("--seed", type=int, default=0, help="of the texts (default: 0)")
    parser.add_argument("--correction", type=float, default=0.75, help="share of what lies upstream (default: 0.75)")
    parser.add_argument("--sensitivity", metavar="FILE", type=pathlib.Path, help="JSON of ecq-llama calibrate")
    parser.add_argument("--dequantized", metavar="FOLDER", type=pathlib.Path, help="also write code * scale")
    parser.add_argument("--few-tokens", action="store_true", help="allow fewer tokens than a matrix has columns")
    parser.add_argument("--device", default="cpu", help="cpu or cuda (default: cpu)")
    given = parser.parse_args()
    if not 0 < given.bits < 8 or given.tokens < 1 or given.window < 2 or not 0 <= given.correction <= 1:
        parser.error("--bits between 0 and 8, --tokens from 1, --window from 2, --correction from 0 to 1")
    if given.dequantized == given.output:
        parser.error("--dequantized needs a folder of its own")
    return given


def main() -> int:
    given = parsed()
    try:
        from calibration.model import calibrate  # after the arguments, as --help needs no PyTorch
        calibrate(given)
        return 0
    except ImportError as missing:
        print(f"calibrate.py: needs PyTorch, transformers and safetensors: {missing}", file=sys.stderr)
    except (Failure, OSError) as failure:
        progress()
        print(f"calibrate.py: {failure}", file=sys.stderr)
    except KeyboardInterrupt:
        progress()
        return 130
    return 1


if __name__ == "__main__":
    sys.exit(main())
