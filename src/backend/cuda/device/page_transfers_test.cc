// Pages that are read and written beside batches, against the same calls one after another. The
// emulator's copies come as late as they may, so a wait that is missing shows there; on a GPU the
// same histories run with its own timing.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <vector>

#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/device/tiny_model_testing.h"
#include "base/random.h"

namespace pie {
namespace {

constexpr uint32_t kPages = 24;
constexpr uint32_t kPageTokens = 16;

using Content = std::vector<std::byte>;

class StoredPages final : public StoredKv {
 public:
  explicit StoredPages(std::vector<Content> pages) : pages_(std::move(pages)) {}
  RowsView rows() const override { return {}; }
  Result<std::span<const std::byte>> Page(uint32_t index) const override {
    if (index >= pages_.size()) return Fail(Code::kInternal, "page {} is not there", index);
    return std::span<const std::byte>(pages_[index]);
  }

 private:
  const std::vector<Content> pages_;
};

class PageTransfersTest : public testing::Test {
 protected:
  void SetUp() override {
    const CudaStatus status = FindCudaDevices();
    if (status.devices.empty()) GTEST_SKIP() << "there is no CUDA device: " << status.problem;
  }
  static std::unique_ptr<Backend> Open() {
    auto backend = MakeRandomCudaBackend(TinyModel(), {.page_tokens = kPageTokens,
                                                       .total_pages = kPages,
                                                       .max_batch_tokens = 16,
                                                       .max_batch_members = 4,
                                                       .graphs = false});
    EXPECT_TRUE(backend) << backend.error().text;
    return backend ? *std::move(backend) : nullptr;
  }
};

// A device with batches in flight. It moves pages by the calls for several of them, or one by one.
class Player {
 public:
  Player(std::unique_ptr<Backend> device, bool several)
      : device_(std::move(device)), several_(several) {}

  void Run(PageId page, uint32_t kv_tokens, uint32_t token, std::vector<PageCopy> copies) {
    static const std::vector<SampleSpec> kGreedy = {{.rows = {0}}};
    if (flights_.size() == device_->info().batches_in_flight) Wait();
    Batch& batch = flights_.emplace_back().batch;
    batch.tokens = {token};
    batch.positions = {kv_tokens};
    batch.pages = {page};
    batch.copies = std::move(copies);
    batch.members = {{.rows = 1, .pages = 1, .kv_tokens = kv_tokens, .samples = &kGreedy}};
    const auto ticket = device_->Submit(batch);
    ASSERT_TRUE(ticket) << ticket.error().text;
    flights_.back().ticket = *ticket;
  }
  void Wait() {
    if (flights_.empty()) return;
    const auto output = device_->Wait(flights_.front().ticket);
    ASSERT_TRUE(output) << output.error().text;
    tokens.push_back(std::get<TokenSlot>(output->slots[0][0]).token);
    flights_.pop_front();
  }
  void Read(const std::vector<PageId>& pages) {
    if (several_) {
      const auto contents = device_->ReadPages(pages);
      ASSERT_TRUE(contents) << contents.error().text;
      ASSERT_EQ((*contents)->pages(), pages.size());
      read_.push_back(*contents);
      return;
    }
    Content bytes;
    for (const PageId page : pages) {
      Content content(device_->info().page_bytes);
      ASSERT_TRUE(device_->ReadPage(page, content));
      bytes.insert(bytes.end(), content.begin(), content.end());
    }
    read_.push_back(MakePageContents(std::move(bytes), device_->info().page_bytes));
  }
  // Pages of `stored` from `first` on.
  void Write(const std::vector<PageId>& pages, const StoredKv& stored, uint32_t first) {
    if (several_) {
      const Status written = device_->WritePages(pages, stored, first);
      ASSERT_TRUE(written) << written.error().text;
      return;
    }
    for (uint32_t i = 0; i < pages.size(); ++i) {
      ASSERT_TRUE(device_->WritePage(pages[i], *stored.Page(first + i)));
    }
  }
  // Everything that was read, in order.
  std::vector<Content> Contents() {
    std::vector<Content> all;
    for (const PageContentsPtr& contents : read_) {
      for (uint32_t i = 0; i < contents->pages(); ++i) {
        const auto page = contents->Page(i);
        EXPECT_TRUE(page) << page.error().text;
        if (page) all.emplace_back(page->begin(), page->end());
      }
    }
    return all;
  }
  size_t page_bytes() const { return device_->info().page_bytes; }

  std::vector<uint32_t> tokens;

 private:
  struct Flight {
    Batch batch;
    Backend::Ticket ticket = 0;
  };
  const std::unique_ptr<Backend> device_;
  const bool several_;
  std::deque<Flight> flights_;  // a deque: batches stay where they are
  std::vector<PageContentsPtr> read_;
};

class Dice {
 public:
  explicit Dice(uint64_t seed) : seed_(seed) {}
  uint32_t Below(uint32_t end) { return static_cast<uint32_t>(Mix(seed_, ++rolls_) % end); }
  PageId Page() { return {Below(kPages)}; }
  std::vector<PageId> Pages() {  // different ones
    std::vector<PageId> pages;
    for (uint32_t left = 1 + Below(6); left > 0; --left) {
      const PageId page = Page();
      if (std::ranges::find(pages, page) == pages.end()) pages.push_back(page);
    }
    return pages;
  }

 private:
  uint64_t seed_;
  uint64_t rolls_ = 0;
};

void Play(Player& player, uint64_t seed) {
  Dice dice(seed);
  std::vector<Content> saved;
  for (uint32_t i = 0; i < 8; ++i) {
    // Numbers below 1, whatever the type.
    Content& content = saved.emplace_back(player.page_bytes());
    for (size_t b = 0; b < content.size(); ++b) {
      content[b] = static_cast<std::byte>(Mix(seed, i, b) & (b % 2 == 0 ? 0xFF : 0x3B));
    }
  }
  const StoredPages stored(std::move(saved));
  for (int step = 0; step < 60; ++step) {
    switch (dice.Below(5)) {
      case 0:
      case 1: {
        std::vector<PageCopy> copies;
        if (dice.Below(3) == 0) {
          const PageId from = dice.Page();
          const PageId to = dice.Page();
          if (from != to) copies.push_back({from, to});
        }
        const PageId page = dice.Page();
        const uint32_t kv_tokens = dice.Below(kPageTokens);
        player.Run(page, kv_tokens, dice.Below(100), std::move(copies));
        break;
      }
      case 2:
        player.Wait();
        break;
      case 3:
        player.Read(dice.Pages());
        break;
      default: {
        const std::vector<PageId> pages = dice.Pages();
        player.Write(pages, stored, dice.Below(2));
        break;
      }
    }
    if (testing::Test::HasFatalFailure()) return;
  }
  player.Wait();
  player.Wait();
  std::vector<PageId> all;
  for (uint32_t page = 0; page < kPages; ++page) all.push_back({page});
  player.Read(all);
}

TEST_F(PageTransfersTest, HistoriesAreThoseOfOneCallAfterAnother) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    Player beside(Open(), true);
    Player in_turn(Open(), false);
    Play(beside, seed);
    Play(in_turn, seed);
    if (HasFatalFailure()) return;
    EXPECT_EQ(beside.tokens, in_turn.tokens) << "seed " << seed;
    EXPECT_TRUE(beside.Contents() == in_turn.Contents()) << "seed " << seed;
  }
}

// Contents that were read may be used for any time, even after the device is gone.
TEST_F(PageTransfersTest, ContentsOutliveTheDevice) {
  auto device = Open();
  ASSERT_TRUE(device);
  const std::vector<Content> pages(2, Content(device->info().page_bytes, std::byte{7}));
  ASSERT_TRUE(device->WritePages(std::vector<PageId>{{3}, {1}}, StoredPages(pages), 0));
  const auto contents = device->ReadPages(std::vector<PageId>{{1}, {2}, {3}});
  ASSERT_TRUE(contents);
  device.reset();
  EXPECT_TRUE(std::ranges::equal(*(*contents)->Page(0), pages[0]));
  EXPECT_FALSE(std::ranges::equal(*(*contents)->Page(1), pages[0]));
  EXPECT_TRUE(std::ranges::equal(*(*contents)->Page(2), pages[0]));
}

// A stored page that cannot be read is an error of the call alone.
TEST_F(PageTransfersTest, StoredPageThatCannotBeRead) {
  const auto device = Open();
  ASSERT_TRUE(device);
  const StoredPages stored({Content(device->info().page_bytes)});
  const Status written = device->WritePages(std::vector<PageId>{{0}, {1}}, stored, 0);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().text, "page 1 is not there");
  EXPECT_TRUE(device->WritePages(std::vector<PageId>{{0}}, stored, 0));
}

}  // namespace
}  // namespace pie
