// Backend: a device that runs batches. One owner, the step thread; no call but LoadAdapter is made
// from another thread.
//
// A backend writes the KV of each new token into its member's pages (slot kv_tokens + i of the
// concatenated pages), attends to the slots that the masks allow, and reads what the samples ask
// for. It knows nothing of contexts, users or guests.
//
// Everything happens in the order of the calls. A batch finds what earlier batches wrote to pages,
// also while those are still in flight. So the caller may give a page to another sequence before
// the last batch that uses it has run. The same holds for calls that read and write pages, even if
// their copies are still under way when they return.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "backend/adapter.h"
#include "backend/batch.h"
#include "backend/meanwhile.h"
#include "base/result.h"
#include "kv/stored_kv.h"
#include "model/adapter/adapter.h"

namespace pie {

struct BackendInfo {
  std::string name;  // "dummy", "cpu", …
  uint32_t vocab_size = 0;
  uint32_t hidden_size = 0;   // numbers of an embedding; 0: the device gives no embeddings
  uint32_t page_tokens = 16;  // tokens a page
  uint32_t total_pages = 0;
  uint32_t max_batch_tokens = 0;  // rows a batch
  uint32_t max_batch_members = 0;
  uint32_t max_positions = 0;  // longest sequence
  // How many batches may be in flight: submitted, and not waited for. A device that takes more than
  // one runs asynchronously, and understands carried tokens (batch.h).
  uint32_t batches_in_flight = 1;
  // It does not compute on the processors of the host, which are idle while a batch runs.
  bool leaves_processors = false;
  // A stored page loads only where page_bytes, layout and fingerprint match.
  size_t page_bytes = 0;
  uint64_t memory_bytes = 0;  // memory of the machine (not of a GPU) that weights and pages take
  std::string layout;         // how a page is laid out: type, heads, layers, tokens
  std::string fingerprint;    // of the model that computed it
  // How many bytes of pages one call should read or write, so that copies are fast and batches do
  // not wait for long.
  size_t read_bytes = size_t{4} << 20;
  size_t write_bytes = size_t{16} << 20;
  AdapterShape adapters;  // the sizes of adapters; no layers: the device takes no adapters
};

class Backend {
 public:
  using Ticket = BatchTicket;

  virtual ~Backend() = default;
  virtual const BackendInfo& info() const = 0;

  // Starts a batch, or queues it behind those in flight. `batch` and what it points to stay alive
  // and unchanged until Wait for it has returned. A device of one batch in flight may compute here.
  virtual Result<Ticket> Submit(const Batch& batch) = 0;
  // Waits for the oldest batch in flight, whose ticket is given. An error fails every member of
  // that batch, and no other batch. A member fails if its carried token was never chosen.
  virtual Result<BatchOutput> Wait(Ticket ticket) = 0;

  // Copies a page's content, info().page_bytes of it, out of and into the device, after the batches
  // in flight. Content that is written back, to any page, works as if it had been computed there.
  virtual Status ReadPage(PageId page, std::span<std::byte> content) = 0;
  virtual Status WritePage(PageId page, std::span<const std::byte> content) = 0;

  // The same for several pages. The contents may still be on their way when ReadPages returns.
  // WritePages takes pages [first, first + pages.size()) of `stored`, and may read them with
  // threads of its own, but not after it has returned. After an error, the pages' content is
  // undefined. Each has a default that uses the calls above.
  virtual Result<PageContentsPtr> ReadPages(std::span<const PageId> pages);
  virtual Status WritePages(std::span<const PageId> pages, const StoredKv& stored, uint32_t first);

  // Makes the device's form of an adapter, whose weights fit info().adapters. Any thread may call
  // it, at any time. Costs a pass over the weights.
  virtual Result<DeviceAdapterPtr> LoadAdapter(const AdapterWeights&) const {
    return Fail(Code::kUnavailable, "the device {} applies no adapters", info().name);
  }

  // Sets the work that the device's own threads may do while it has no batch, for the rest of its
  // life.
  virtual void SetMeanwhile(const std::shared_ptr<Meanwhile>&) {}
};

}  // namespace pie
