"""Loads adapters into the peft package and answers with the logits that they give.

    python peft_logits.py < requests

A request is a line of JSON, {"model", "adapter", "tokens"}: two folders, and a prompt's tokens. The
answer is a line of JSON, the logits after each token. It runs in a virtual environment that has
torch, transformers and peft.
"""

from __future__ import annotations

import json
import sys
import warnings

import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM


def logits_of(model: str, adapter: str, tokens: list[int]) -> list[list[float]]:
    base = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    with warnings.catch_warnings():
        # A tensor that is missing or unknown is a warning there, and a failure here.
        warnings.filterwarnings("error", message=".*(missing|unexpected).*keys.*")
        adapted = PeftModel.from_pretrained(base, adapter)
    with torch.no_grad():
        return adapted.eval()(torch.tensor([tokens])).logits[0].tolist()


def main() -> None:
    for line in sys.stdin:
        print(json.dumps(logits_of(**json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
