#include "backend/recording.h"

#include <algorithm>
#include <utility>

#include "backend/page_tokens.h"
#include "backend/sampling.h"

namespace pie {
namespace {

class RecordingBackend final : public Backend {
 public:
  RecordingBackend(std::unique_ptr<Backend> backend, TokenObserver observe)
      : backend_(std::move(backend)),
        observe_(std::move(observe)),
        info_(backend_->info()),
        tokens_(info_.total_pages, info_.page_tokens) {
    info_.page_bytes += tokens_.page_bytes();
    info_.layout = "tokens, " + info_.layout;
    info_.batches_in_flight = 1;
  }

  const BackendInfo& info() const override { return info_; }

  Result<Ticket> Submit(const Batch& batch) override {
    tokens_.Enter(batch);
    batch_ = &batch;
    return backend_->Submit(batch);
  }

  Result<BatchOutput> Wait(Ticket ticket) override {
    BatchOutput output = PIE_TRY(backend_->Wait(ticket));
    for (uint32_t i = 0; i < batch_->members.size(); ++i) {
      const auto failed = std::ranges::find(output.failures, i, &BatchOutput::Failure::member);
      if (failed == output.failures.end()) Report(batch_->members[i], output.slots[i]);
    }
    return output;
  }

  Status ReadPage(PageId page, std::span<std::byte> content) override {
    PIE_RETURN_IF_ERROR(backend_->ReadPage(page, content.first(inner_bytes())));
    tokens_.Read(page, content.subspan(inner_bytes()));
    return {};
  }
  Status WritePage(PageId page, std::span<const std::byte> content) override {
    PIE_RETURN_IF_ERROR(backend_->WritePage(page, content.first(inner_bytes())));
    tokens_.Write(page, content.subspan(inner_bytes()));
    return {};
  }
  Result<DeviceAdapterPtr> LoadAdapter(const AdapterWeights& weights) const override {
    return backend_->LoadAdapter(weights);
  }
  void SetMeanwhile(const std::shared_ptr<Meanwhile>& meanwhile) override {
    backend_->SetMeanwhile(meanwhile);
  }

 private:
  size_t inner_bytes() const { return backend_->info().page_bytes; }

  void Report(const Batch::Member& member, const std::vector<Slot>& slots) {
    if (member.samples == nullptr) return;
    size_t slot = 0;
    for (const SampleSpec& spec : *member.samples) {
      for (const uint32_t row : spec.rows) {
        if (row < member.pass_row || row >= member.pass_row + member.rows) continue;
        for (uint32_t i = 0; i < SlotsPerRow(spec); ++i) {
          if (const auto* const chosen = std::get_if<TokenSlot>(&slots[slot++])) {
            observe_(tokens_.Attended(*batch_, member, row - member.pass_row), chosen->token);
          }
        }
      }
    }
  }

  const std::unique_ptr<Backend> backend_;
  const TokenObserver observe_;
  BackendInfo info_;
  PageTokens tokens_;
  const Batch* batch_ = nullptr;  // in flight
};

}  // namespace

std::unique_ptr<Backend> MakeRecording(std::unique_ptr<Backend> backend, TokenObserver observe) {
  return std::make_unique<RecordingBackend>(std::move(backend), std::move(observe));
}

}  // namespace pie
