// Backend: a device that runs batches. One owner, the step thread; no call is made from another
// thread.
//
// A backend writes the KV of each new token into its member's pages (slot kv_tokens + i of the
// concatenated pages), attends to what the masks allow, and reads what the samples ask for. It
// knows nothing of contexts, users or guests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "backend/batch.h"
#include "backend/meanwhile.h"
#include "base/result.h"

namespace pie {

struct BackendInfo {
  std::string name;  // "dummy", "cpu", …
  uint32_t vocab_size = 0;
  uint32_t page_tokens = 16;  // tokens a page
  uint32_t total_pages = 0;
  uint32_t max_batch_tokens = 0;  // rows a batch
  uint32_t max_batch_members = 0;
  uint32_t max_positions = 0;  // longest sequence
  // Of pages that are kept elsewhere for a while: they fit a device whose three are the same.
  size_t page_bytes = 0;
  std::string layout;       // how a page is laid out: type, heads, layers, tokens
  std::string fingerprint;  // of the model that computed it
};

class Backend {
 public:
  using Ticket = uint64_t;

  virtual ~Backend() = default;
  virtual const BackendInfo& info() const = 0;

  // Starts a batch. `batch` and what it points to stay alive until Wait returns. At most one batch
  // is under way.
  virtual Result<Ticket> Submit(const Batch& batch) = 0;
  // Waits for it. An error fails every member of that batch, and nothing else.
  virtual Result<BatchOutput> Wait(Ticket ticket) = 0;

  // A page's content out of and into the device, info().page_bytes of it; while no batch is under
  // way. Written back, to any page, it is as if it had been computed there.
  virtual Status ReadPage(PageId page, std::span<std::byte> content) = 0;
  virtual Status WritePage(PageId page, std::span<const std::byte> content) = 0;

  // What threads of its own may do while there is no batch, for its whole life.
  virtual void SetMeanwhile(const std::shared_ptr<Meanwhile>&) {}
};

}  // namespace pie
