#include "backend/asynchronous.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "backend/carried_tokens.h"
#include "backend/contain.h"

namespace pie {
namespace {

BackendInfo InfoOf(const Backend& device, const AsynchronousOptions& options) {
  BackendInfo info = device.info();
  info.batches_in_flight = std::max(options.batches_in_flight, 1U);
  return info;
}

class Asynchronous final : public Backend {
 public:
  Asynchronous(std::unique_ptr<Backend> device, AsynchronousOptions options)
      : device_(std::move(device)),
        info_(InfoOf(*device_, options)),
        latency_(options.latency_us),
        tokens_(info_.batches_in_flight),
        thread_([this] {
          pthread_setname_np(pthread_self(), "pie-device");
          RunJobs();
        }) {}
  ~Asynchronous() override {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  const BackendInfo& info() const override { return info_; }

  Result<Ticket> Submit(const Batch& batch) override {
    {
      const std::lock_guard lock(mutex_);
      PIE_CHECK(jobs_.size() < info_.batches_in_flight);
      jobs_.push_back({.ticket = ++last_ticket_, .batch = &batch, .output = std::nullopt});
    }
    changed_.notify_all();
    return last_ticket_;
  }

  Result<BatchOutput> Wait(Ticket ticket) override {
    std::unique_lock lock(mutex_);
    PIE_CHECK(!jobs_.empty() && jobs_.front().ticket == ticket);
    changed_.wait(lock, [&] { return jobs_.front().output.has_value(); });
    Result<BatchOutput> output = *std::move(jobs_.front().output);
    jobs_.pop_front();
    return output;
  }

  Status ReadPage(PageId page, std::span<std::byte> content) override {
    WaitForAll();
    return device_->ReadPage(page, content);
  }
  Status WritePage(PageId page, std::span<const std::byte> content) override {
    WaitForAll();
    return device_->WritePage(page, content);
  }
  Result<DeviceAdapterPtr> LoadAdapter(const AdapterWeights& weights) const override {
    return device_->LoadAdapter(weights);
  }
  void SetMeanwhile(const std::shared_ptr<Meanwhile>& meanwhile) override {
    WaitForAll();
    device_->SetMeanwhile(meanwhile);
  }

 private:
  struct Job {
    Ticket ticket = 0;
    const Batch* batch = nullptr;
    std::optional<Result<BatchOutput>> output;  // set when it has run
  };
  // The jobs that have run are at the front.
  Job* NextJob() {
    const auto next = std::ranges::find_if(jobs_, [](const Job& job) { return !job.output; });
    return next == jobs_.end() ? nullptr : &*next;
  }

  void WaitForAll() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return NextJob() == nullptr; });
  }

  void RunJobs() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return ends_ || NextJob() != nullptr; });
      Job* const job = NextJob();  // it stays where it is until it has run
      if (job == nullptr) return;
      lock.unlock();
      Result<BatchOutput> output = Run(job->ticket, *job->batch);
      lock.lock();
      job->output = std::move(output);
      changed_.notify_all();
    }
  }

  Result<BatchOutput> Run(Ticket ticket, const Batch& batch) {
    const auto end = std::chrono::steady_clock::now() + latency_;
    Result<BatchOutput> output =
        Contain(info_.name, [&] { return tokens_.Run(*device_, ticket, batch); });
    if (latency_.count() > 0) std::this_thread::sleep_until(end);
    return output;
  }

  const std::unique_ptr<Backend> device_;
  const BackendInfo info_;
  const std::chrono::microseconds latency_;
  CarriedTokens tokens_;  // used by the thread alone

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;    // in flight, the oldest first
  Ticket last_ticket_ = 0;  // written by the owner alone
  bool ends_ = false;
  std::thread thread_;  // last: it uses the rest
};

}  // namespace

std::unique_ptr<Backend> MakeAsynchronous(std::unique_ptr<Backend> device,
                                          AsynchronousOptions options) {
  return std::make_unique<Asynchronous>(std::move(device), options);
}

}  // namespace pie
