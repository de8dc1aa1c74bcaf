#!/usr/bin/env python3
"""Trains the model in examples/llama/model on this project's own text.

    examples/llama/train.py OUT --commit COMMIT

Needs git and PyTorch (Debian: python3-torch), which nothing else here does. OUT receives config.json, tokenizer.json,
model.safetensors (BF16), heldout.txt, train_log.csv and checkpoint.pt, from which an interrupted run continues.
The text is that of COMMIT, so that the same files are read whatever happens to the checkout.
"""

import argparse
import concurrent.futures
import csv
import json
import math
import os
import pathlib
import subprocess
import time
import zlib

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before PyTorch is loaded: threads here are parts of a batch

import numpy
import torch
from torch.nn import functional

CONTEXT = 256  # predictions in a row of a batch, and in a window of an evaluation
SHAPE = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 192,
    "intermediate_size": 448,
    "num_hidden_layers": 5,
    "num_attention_heads": 3,
    "num_key_value_heads": 1,
    "head_dim": 64,
    "vocab_size": 1024,
    "max_position_embeddings": CONTEXT,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
}
WINDOWS_LOGGED = 32  # of the held-out text


def is_held_out(path):
    return zlib.crc32(path.encode()) % 16 == 6


def repetitions(path):
    """Returns how often a file is repeated: documentation most; 0 for all but the library, its tool and examples."""
    if path.endswith(".md"):
        return 3
    return int(path.startswith(("include/", "examples/")) and path.endswith((".hpp", ".cpp", ".cuh", ".cu")))


def texts_of(commit):
    """Returns the text to train on and the held-out text, English first."""
    listed = subprocess.run(["git", "ls-tree", "-r", "--name-only", commit], check=True, capture_output=True, text=True)
    paths = sorted(filter(repetitions, listed.stdout.splitlines()),
                   key=lambda path: (not path.endswith(".md"), path))
    training, held_out = [], []
    for path in paths:
        text = subprocess.run(["git", "show", f"{commit}:{path}"], check=True, capture_output=True).stdout
        if is_held_out(path):
            held_out.append(text)
        else:
            training += [text] * repetitions(path)
    return b"\n".join(training), b"\n".join(held_out)


def merged(tokens, left, right, token):
    """Replaces each pair of `left` and `right` by `token`, the leftmost first."""
    places = numpy.flatnonzero((tokens[:-1] == left) & (tokens[1:] == right))
    if left == right:  # pairs may overlap: every other one of a run
        begins_run = numpy.diff(places, prepend=-2) > 1
        run = numpy.maximum.accumulate(numpy.where(begins_run, numpy.arange(len(places)), 0))
        places = places[(numpy.arange(len(places)) - run) % 2 == 0]
    tokens = tokens.copy()
    tokens[places] = token
    return numpy.delete(tokens, places + 1)


def learned_merges(text, vocabulary):
    """Returns the merges of a byte-level BPE that does not split text before it merges, and the text in its tokens."""
    tokens, merges = numpy.frombuffer(text, numpy.uint8).astype(numpy.int64), []
    for token in range(256, vocabulary):
        counts = numpy.bincount(tokens[:-1] * vocabulary + tokens[1:])
        merges.append(divmod(int(counts.argmax()), vocabulary))
        tokens = merged(tokens, *merges[-1], token)
    return merges, tokens


def tokens_of(text, merges):
    tokens = numpy.frombuffer(text, numpy.uint8).astype(numpy.int64)
    for token, (left, right) in enumerate(merges, 256):
        tokens = merged(tokens, left, right, token)
    return tokens


def write_tokenizer(path, merges):
    """Writes tokenizer.json. There, printable bytes stand for themselves, and characters from U+0100 on for others."""
    names, others = [], 256
    for byte in range(256):
        printable = 32 < byte < 127 or (byte > 160 and byte != 173)
        names.append(chr(byte if printable else others))
        others += not printable
    for left, right in merges:
        names.append(names[left] + names[right])
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    path.write_text(json.dumps({
        "version": "1.0", "added_tokens": [], "pre_tokenizer": byte_level, "decoder": byte_level,
        "model": {"type": "BPE", "vocab": {name: token for token, name in enumerate(names)},
                  "merges": [f"{names[left]} {names[right]}" for left, right in merges]},
    }, ensure_ascii=False, indent=0) + "\n")


def initial_weights(shape):
    """Returns tensors by their names in Hugging Face's checkpoints."""
    hidden, wide, layers = shape["hidden_size"], shape["intermediate_size"], shape["num_hidden_layers"]
    queries = shape["num_attention_heads"] * shape["head_dim"]
    keys = shape["num_key_value_heads"] * shape["head_dim"]
    into_residual = 0.02 / math.sqrt(2 * layers)

    def normal(rows, columns, sigma=0.02):
        return torch.randn(rows, columns) * sigma

    weights = {"model.embed_tokens.weight": normal(shape["vocab_size"], hidden)}
    for layer in range(layers):
        prefix = f"model.layers.{layer}."
        weights[prefix + "input_layernorm.weight"] = torch.ones(hidden)
        weights[prefix + "self_attn.q_proj.weight"] = normal(queries, hidden)
        weights[prefix + "self_attn.k_proj.weight"] = normal(keys, hidden)
        weights[prefix + "self_attn.v_proj.weight"] = normal(keys, hidden)
        weights[prefix + "self_attn.o_proj.weight"] = normal(hidden, queries, into_residual)
        weights[prefix + "post_attention_layernorm.weight"] = torch.ones(hidden)
        weights[prefix + "mlp.gate_proj.weight"] = normal(wide, hidden)
        weights[prefix + "mlp.up_proj.weight"] = normal(wide, hidden)
        weights[prefix + "mlp.down_proj.weight"] = normal(hidden, wide, into_residual)
    weights["model.norm.weight"] = torch.ones(hidden)
    return weights


def rms_norm(states, weight, epsilon):
    return states * torch.rsqrt(states.square().mean(-1, keepdim=True) + epsilon) * weight


def rotated(heads, cosines, sines):
    """Rotates pairs of elements of the lower and the upper half of each head."""
    low, high = heads.chunk(2, -1)
    return heads * cosines + torch.cat((-high, low), -1) * sines


def losses(shape, weights, tokens):
    """Returns -log(probability) of all tokens of each row but its first."""
    count, length = tokens.shape[0], tokens.shape[1] - 1
    heads, key_heads, width = shape["num_attention_heads"], shape["num_key_value_heads"], shape["head_dim"]
    epsilon = shape["rms_norm_eps"]
    frequencies = shape["rope_theta"] ** (-torch.arange(0, width, 2) / width)
    angles = torch.outer(torch.arange(length), frequencies).repeat(1, 2)
    cosines, sines = angles.cos(), angles.sin()
    ahead = torch.full((length, length), -math.inf).triu(1)

    states = weights["model.embed_tokens.weight"][tokens[:, :-1]]
    for layer in range(shape["num_hidden_layers"]):
        def projected(inputs, name, prefix=f"model.layers.{layer}."):
            return functional.linear(inputs, weights[f"{prefix}{name}.weight"])

        def in_heads(inputs, name, how_many):
            return projected(inputs, "self_attn." + name).view(count, length, how_many, width).transpose(1, 2)

        normed = rms_norm(states, weights[f"model.layers.{layer}.input_layernorm.weight"], epsilon)
        query = rotated(in_heads(normed, "q_proj", heads), cosines, sines)
        key = rotated(in_heads(normed, "k_proj", key_heads), cosines, sines)
        value = in_heads(normed, "v_proj", key_heads)
        shared = heads // key_heads
        key, value = key.repeat_interleave(shared, 1), value.repeat_interleave(shared, 1)
        shares = (query @ key.transpose(2, 3) / math.sqrt(width) + ahead).softmax(-1)
        mixed = (shares @ value).transpose(1, 2).reshape(count, length, heads * width)
        states = states + projected(mixed, "self_attn.o_proj")
        normed = rms_norm(states, weights[f"model.layers.{layer}.post_attention_layernorm.weight"], epsilon)
        gated = functional.silu(projected(normed, "mlp.gate_proj")) * projected(normed, "mlp.up_proj")
        states = states + projected(gated, "mlp.down_proj")
    normed = rms_norm(states, weights["model.norm.weight"], epsilon)
    logits = functional.linear(normed, weights["model.embed_tokens.weight"])
    return functional.cross_entropy(logits.transpose(1, 2), tokens[:, 1:], reduction="none")


@torch.no_grad()
def loss_of_windows(shape, weights, tokens, most=None):
    """Returns the mean loss over the windows into which `ecq-llama perplexity` cuts a text."""
    windows = tokens[: len(tokens) // (CONTEXT + 1) * (CONTEXT + 1)].view(-1, CONTEXT + 1)[:most]
    return torch.cat([losses(shape, weights, part) for part in windows.split(16)]).mean().item()


def write_safetensors(path, weights):
    header, data = {"__metadata__": {"format": "pt"}}, []
    begin = 0
    for name, tensor in weights.items():
        # As bits, since NumPy has no BF16.
        data.append(tensor.detach().bfloat16().contiguous().view(torch.int16).numpy().tobytes())
        header[name] = {"dtype": "BF16", "shape": list(tensor.shape), "data_offsets": [begin, begin + len(data[-1])]}
        begin += len(data[-1])
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(data))


def learning_rate(step, given):
    """Returns the rate, which rises, then falls by half a cosine to a twentieth."""
    if step < given.warm_up:
        return given.rate * (step + 1) / given.warm_up
    done = (step - given.warm_up) / max(1, given.steps - given.warm_up)
    return given.rate * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * done)))


def add_gradients(weights, rows, pool):
    """Sets the gradients of a batch, and returns its mean loss. Each of two threads takes half of the batch: threads
    within a product would wait for each other, for long if the machine has other work."""
    parts = rows.chunk(2)

    def part_of_mean(part):
        torch.set_num_threads(1)
        loss = losses(SHAPE, weights, part).sum() / (rows.shape[0] * CONTEXT)
        return loss.item(), torch.autograd.grad(loss, list(weights.values()))

    answers = list(pool.map(part_of_mean, parts))
    for tensor, gradients in zip(weights.values(), zip(*(gradients for _, gradients in answers))):
        tensor.grad = sum(gradients)
    return sum(loss for loss, _ in answers)


def train(given):
    torch.manual_seed(given.seed)
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    given.out.mkdir(parents=True, exist_ok=True)
    training_text, held_out_text = texts_of(given.commit)
    (given.out / "heldout.txt").write_bytes(held_out_text)
    (given.out / "config.json").write_text(json.dumps(SHAPE, indent=2) + "\n")
    merges, training = learned_merges(training_text, SHAPE["vocab_size"])
    write_tokenizer(given.out / "tokenizer.json", merges)
    training, held_out = torch.from_numpy(training), torch.from_numpy(tokens_of(held_out_text, merges))
    print(f"trains on {len(training_text)} bytes (repeated ones counted), {len(training)} tokens; "
          f"{len(held_out_text)} bytes held out, {len(held_out)} tokens", flush=True)

    weights = {name: tensor.requires_grad_() for name, tensor in initial_weights(SHAPE).items()}
    matrices = [tensor for tensor in weights.values() if tensor.dim() == 2]
    norms = [tensor for tensor in weights.values() if tensor.dim() == 1]
    print(f"{sum(tensor.numel() for tensor in weights.values())} weights", flush=True)
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1}, {"params": norms, "weight_decay": 0.0}],
                                  betas=(0.9, 0.95), foreach=True)
    checkpoint, log, first, before = given.out / "checkpoint.pt", [], 0, 0.0
    if checkpoint.exists():
        saved = torch.load(checkpoint)
        first, before, log = saved["step"], saved["seconds"], saved["log"]
        optimizer.load_state_dict(saved["optimizer"])
        torch.set_rng_state(saved["random"])
        for name, tensor in weights.items():
            tensor.data.copy_(saved["weights"][name])
    start, recent, pool = time.monotonic() - before, [], concurrent.futures.ThreadPoolExecutor(2)
    for step in range(first, given.steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, given)
        begins = torch.randint(len(training) - CONTEXT, (given.batch, 1))
        rows = training[begins + torch.arange(CONTEXT + 1)]
        optimizer.zero_grad(set_to_none=True)
        recent.append(add_gradients(weights, rows, pool))
        torch.nn.utils.clip_grad_norm_(weights.values(), 1.0)
        optimizer.step()
        done = step + 1
        if done % given.log_every == 0 or done == given.steps:
            log.append({"step": done, "tokens": done * given.batch * CONTEXT,
                        "training_loss": f"{sum(recent) / len(recent):.4f}",
                        "heldout_loss": f"{loss_of_windows(SHAPE, weights, held_out, WINDOWS_LOGGED):.4f}",
                        "seconds": round(time.monotonic() - start)})
            recent = []
            print(*log[-1].values(), flush=True)
            torch.save({"step": done, "seconds": time.monotonic() - start, "log": log, "random": torch.get_rng_state(),
                        "weights": weights, "optimizer": optimizer.state_dict()}, checkpoint)

    with open(given.out / "train_log.csv", "w", newline="") as file:
        table = csv.DictWriter(file, log[0].keys(), lineterminator="\n")
        table.writeheader()
        table.writerows(log)
    write_safetensors(given.out / "model.safetensors", weights)
    rounded = {name: tensor.bfloat16().float() for name, tensor in weights.items()}
    print(f"loss on heldout.txt, weights in BF16: {loss_of_windows(SHAPE, rounded, held_out):.4f} nats per token")


def main():
    parser = argparse.ArgumentParser(description="Trains examples/llama/model on the project's own text.")
    parser.add_argument("out", type=pathlib.Path, help="the folder to write to")
    parser.add_argument("--commit", required=True, help="whose text it is trained on")
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--batch", type=int, default=8, help=f"rows of {CONTEXT} predictions")
    parser.add_argument("--rate", type=float, default=4e-3, help="highest learning rate")
    parser.add_argument("--warm-up", type=int, default=100, help="steps")
    parser.add_argument("--log-every", type=int, default=100, help="steps")
    parser.add_argument("--seed", type=int, default=1)
    train(parser.parse_args())


if __name__ == "__main__":
    main()
