#include "pie_client/process.h"

#include "loop.h"
#include "pie_client/async.h"

namespace pie_client {

struct Process::Inside {
  std::shared_ptr<Loop> loop;
  async::Process process;
};

Process::Process(std::shared_ptr<Loop> loop, async::Process process)
    : in_(std::make_unique<Inside>(std::move(loop), std::move(process))) {}
Process::~Process() = default;
Process::Process(Process&&) noexcept = default;
Process& Process::operator=(Process&&) noexcept = default;

const std::string& Process::id() const {
  return in_->process.id();
}

Event Process::Recv(std::optional<std::chrono::milliseconds> limit) {
  return in_->loop->Run(in_->process.Recv(limit));
}

std::optional<Event> Process::Next() {
  return in_->loop->Run(in_->process.Next());
}

std::optional<std::string> Process::NextText() {
  return in_->loop->Run(in_->process.NextText());
}

std::string Process::Text() {
  return in_->loop->Run(in_->process.Text());
}

std::string Process::Result() {
  return in_->loop->Run(in_->process.Result());
}

std::optional<std::string> Process::return_value() const {
  return in_->process.return_value();
}

bool Process::ended() const {
  return in_->process.ended();
}

std::optional<uint64_t> Process::seen() const {
  return in_->process.seen();
}

void Process::Discard() {
  in_->process.Discard();
}

void Process::Signal(std::string_view message) {
  in_->loop->Run(in_->process.Signal(message));
}

void Process::TransferFile(std::string_view bytes) {
  in_->loop->Run(in_->process.TransferFile(std::string(bytes)));
}

void Process::Terminate() {
  in_->loop->Run(in_->process.Terminate());
}

}  // namespace pie_client
