// The dummy device: it has no weights and hardly computes, but it follows every rule of a real
// device.
//
// A KV slot holds a hash of (token, position). A row's state is the sum of the slots it attends to,
// so a wrong page, a missed copy or a mask that is off by one changes the text. The logits are a
// pure function of (seed, state): lowercase gibberish that ends the model's turn now and then. The
// tokens do not depend on the batch, the page size, the chunking or the history of forks. Logits
// are fixed-point numbers that a float holds exactly, so they are the same on every machine.
//
// An embedding is eight numbers between -1 and 1, another pure function of (seed, state).
//
// An adapter changes the slots: the hash of a slot is mixed with a hash of the adapter's products,
// and of its noise. An adapter that changes nothing (B = 0, no noise) leaves the slots alone.
//
// With a script, a row whose context the script knows gets the script's tokens with all the
// probability; the others are out of reach, but keep their order, for masks that forbid the
// script's tokens. The device then remembers the tokens of its slots.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "backend/backend.h"
#include "model/scripted_token.h"

namespace pie {

// The kinds of tokens, by which the device writes something that looks like text and ends.
enum class DummyToken : uint8_t {
  kWord,     // lowercase letters, perhaps with a space in front: what it writes
  kText,     // other printable text
  kOther,    // bytes of other scripts, control characters
  kSpecial,  // never written, unless nothing else is allowed
  kEnd,      // ends the model's turn: about one greedy step in eighty
};

struct DummyOptions {
  uint64_t seed = 0;        // another seed, another model
  uint32_t vocab_size = 0;  // 0 = the dummy model's own
  uint32_t page_tokens = 16;
  uint32_t total_pages = 4096;
  uint32_t max_batch_tokens = 2048;
  uint32_t max_batch_members = 256;
  uint32_t max_positions = 32'768;
  uint32_t latency_us = 0;  // the minimum duration of a batch
  uint32_t fail_every = 0;  // every n-th batch fails; 0 = none
  // One for each token of the vocabulary of another model. Empty: the dummy model's own tokens.
  std::vector<DummyToken> tokens = {};
  NextTokens script;  // null: there is none; called on the step thread
};

std::unique_ptr<Backend> MakeDummyBackend(DummyOptions options);
// Returns the memory that its pages would take.
uint64_t DummyMemoryOf(const DummyOptions& options);

// The oracle of tests: the logits, or the embedding, of one row that attends to these slots.
struct DummySlot {
  uint32_t token;
  uint32_t position;
};
std::vector<float> DummyLogits(const DummyOptions& options, const std::vector<DummySlot>& attended);
std::vector<float> DummyEmbedding(const DummyOptions& options,
                                  const std::vector<DummySlot>& attended);

// The sizes of the matrices that it pretends to have: two layers of hidden size 8.
AdapterShape DummyAdapterShape();

}  // namespace pie
