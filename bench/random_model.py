"""Writes a Hugging Face folder of random weights in the shape of a Llama, to measure kernels
without a real checkpoint of that size or type. It has no tokenizer: pie-cpu-bench needs none.

    python bench/random_model.py --dtype bf16 --hidden 2048 --layers 4 FOLDER
    build/bin/pie-cpu-bench prefill --model FOLDER --level avx512-bf16
"""

import argparse
import json
import math
import pathlib
import random
import struct
import sys

# Upper bytes of numbers from 2^-7 to 2^-5, of either sign.
UPPER = {"bf16": b"\x3c\xbc", "f16": b"\x20\x24\xa0\xa4"}


def numbers(dtype: str, seed: int) -> bytes:
    """One mebibyte of random weights."""
    draw = random.Random(seed)
    upper = bytes(draw.choices(UPPER[dtype], k=1 << 19))
    lower = draw.randbytes(1 << 19)
    both = bytearray(1 << 20)
    both[0::2], both[1::2] = lower, upper
    return bytes(both)


def shapes(args: argparse.Namespace) -> dict[str, list[int]]:
    kv = args.hidden // args.heads * args.kv_heads
    tensors = {"model.embed_tokens.weight": [args.vocab, args.hidden]}
    for layer in range(args.layers):
        at = f"model.layers.{layer}."
        tensors |= {
            f"{at}self_attn.q_proj.weight": [args.hidden, args.hidden],
            f"{at}self_attn.k_proj.weight": [kv, args.hidden],
            f"{at}self_attn.v_proj.weight": [kv, args.hidden],
            f"{at}self_attn.o_proj.weight": [args.hidden, args.hidden],
            f"{at}mlp.gate_proj.weight": [args.ffn, args.hidden],
            f"{at}mlp.up_proj.weight": [args.ffn, args.hidden],
            f"{at}mlp.down_proj.weight": [args.hidden, args.ffn],
            f"{at}input_layernorm.weight": [args.hidden],
            f"{at}post_attention_layernorm.weight": [args.hidden],
        }
    return tensors | {"model.norm.weight": [args.hidden]}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--dtype", choices=sorted(UPPER), default="bf16")
    parser.add_argument("--hidden", type=int, default=2048)
    parser.add_argument("--ffn", type=int, default=8192)
    parser.add_argument("--heads", type=int, default=32)
    parser.add_argument("--kv-heads", type=int, default=8)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--vocab", type=int, default=32768)
    args = parser.parse_args()
    if args.hidden % args.heads or args.heads % args.kv_heads:
        sys.exit("random_model: --hidden must be a multiple of --heads, and --heads of --kv-heads")
    args.folder.mkdir(parents=True, exist_ok=True)
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": args.hidden,
        "intermediate_size": args.ffn,
        "num_attention_heads": args.heads,
        "num_key_value_heads": args.kv_heads,
        "num_hidden_layers": args.layers,
        "vocab_size": args.vocab,
        "max_position_embeddings": 8192,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": True,
    }
    (args.folder / "config.json").write_text(json.dumps(config, indent=1))
    header, at = {}, 0
    for name, shape in shapes(args).items():
        end = at + 2 * math.prod(shape)
        header[name] = {"dtype": args.dtype.upper(), "shape": shape, "data_offsets": [at, end]}
        at = end
    text = json.dumps(header).encode()
    block = numbers(args.dtype, 1)
    with (args.folder / "model.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for start in range(0, at, len(block)):
            file.write(block[: at - start])


if __name__ == "__main__":
    main()
