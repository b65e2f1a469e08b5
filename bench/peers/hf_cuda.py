"""Measures Hugging Face transformers on a GPU: hf_cuda.py [BATCH …]

The peer of pie-gpu-bench's 8B shape: LlamaForCausalLM with random weights in bfloat16 and a static
cache of 1,024 tokens. A step is captured in a CUDA graph and replayed, and chooses tokens greedily.
Every step computes the last place of the cache: its time does not depend on what the cache holds.

Prints one JSON object: {"1": tokens a second of one sequence, "64": …}. It runs with any python3
that has torch and transformers.
"""

from __future__ import annotations

import json
import sys
import time

CONTEXT = 1024
WARM_STEPS = 5
STEPS = 50


def main() -> None:
    """Measures every batch that is named."""
    try:
        import torch
        from transformers import LlamaConfig, LlamaForCausalLM, StaticCache
    except ImportError as error:
        sys.exit(f"{sys.executable} has no {error.name}")
    if not torch.cuda.is_available():
        sys.exit("torch finds no GPU")
    torch.set_grad_enabled(False)
    torch.set_default_dtype(torch.bfloat16)
    config = LlamaConfig(
        hidden_size=4096,
        num_hidden_layers=32,
        num_attention_heads=32,
        num_key_value_heads=8,
        head_dim=128,
        intermediate_size=14336,
        vocab_size=128256,
        max_position_embeddings=8192,
        rope_theta=500000.0,
    )
    config._attn_implementation = "sdpa"
    with torch.device("cuda"):
        model = LlamaForCausalLM(config).eval()

    def measure(batch: int) -> float:
        cache = StaticCache(
            config=config,
            max_batch_size=batch,
            max_cache_len=CONTEXT,
            device="cuda",
            dtype=torch.bfloat16,
        )
        tokens = torch.randint(0, config.vocab_size, (batch, 1), device="cuda")
        place = torch.full((1,), CONTEXT - 1, device="cuda", dtype=torch.long)

        def step() -> None:
            logits = model(
                tokens,
                past_key_values=cache,
                cache_position=place,
                position_ids=place.view(1, 1).expand(batch, 1),
                use_cache=True,
            ).logits
            tokens.copy_(logits[:, -1].argmax(-1, keepdim=True))

        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):  # a capture needs everything to be allocated and chosen
            for _ in range(3):
                step()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
        for _ in range(WARM_STEPS):
            graph.replay()
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(STEPS):
            graph.replay()
        torch.cuda.synchronize()
        return batch * STEPS / (time.perf_counter() - begin)

    batches = [int(batch) for batch in sys.argv[1:]] or [1, 64]
    print(json.dumps({str(batch): measure(batch) for batch in batches}))


if __name__ == "__main__":
    main()
