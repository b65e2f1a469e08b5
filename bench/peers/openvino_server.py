"""A minimal server around OpenVINO GenAI, in its own environment: openvino_server.py MODEL THREADS

It answers POST requests as `/v1/chat/completions` of the OpenAI API does, by streams. Requests run
together, by OpenVINO's own continuous batching. It prints its port when it is ready.
"""

from __future__ import annotations

import itertools
import json
import queue
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import openvino_genai as genai

KV_CACHE_GB = 1


class Batches:
    """Runs the requests of all connections in one thread."""

    def __init__(self, model: str, threads: int) -> None:
        scheduler = genai.SchedulerConfig()
        scheduler.cache_size = KV_CACHE_GB
        scheduler.enable_prefix_caching = True
        self._pipeline = genai.ContinuousBatchingPipeline(
            model, scheduler, "CPU", {"INFERENCE_NUM_THREADS": threads}
        )
        self._tokenizer = self._pipeline.get_tokenizer()
        self._ids = itertools.count()
        self._new: queue.SimpleQueue = queue.SimpleQueue()
        threading.Thread(target=self._run, daemon=True).start()

    def ask(self, messages: list[dict], max_tokens: int) -> queue.SimpleQueue:
        """Returns a queue of texts that ends with None."""
        config = genai.GenerationConfig()
        config.max_new_tokens = max_tokens
        config.do_sample = False
        prompt = self._tokenizer.apply_chat_template(messages, add_generation_prompt=True)
        texts: queue.SimpleQueue = queue.SimpleQueue()
        self._new.put((prompt, config, texts))
        return texts

    def _run(self) -> None:
        running: list[tuple] = []
        while True:
            while not running or not self._new.empty():
                prompt, config, texts = self._new.get()
                handle = self._pipeline.add_request(next(self._ids), prompt, config)
                running.append((handle, texts))
            self._pipeline.step()
            for handle, texts in running:
                while handle.can_read():
                    for output in handle.read().values():
                        texts.put(self._tokenizer.decode(output.generated_ids))
            for handle, texts in running:
                if handle.get_status() != genai.GenerationStatus.RUNNING:
                    texts.put(None)
            running = [
                one for one in running if one[0].get_status() == genai.GenerationStatus.RUNNING
            ]


class Handler(BaseHTTPRequestHandler):
    batches: Batches

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        texts = self.batches.ask(body["messages"], body["max_tokens"])
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        while (text := texts.get()) is not None:
            event = {"choices": [{"index": 0, "delta": {"content": text}}]}
            self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())
            self.wfile.flush()
        self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, *_: object) -> None:
        pass


def main() -> None:
    Handler.batches = Batches(sys.argv[1], int(sys.argv[2]))
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
