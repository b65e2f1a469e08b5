#include "inferlet/runtime.h"

#include "inferlet/reactor.h"

namespace inferlet {

using detail::Lift;
using detail::LiftText;
using detail::Text;
using detail::Texts;

namespace runtime {

namespace host = pie::core::runtime;

std::vector<std::string> Models() {
  return Texts(host::Models());
}
std::string Version() {
  return Text(host::Version());
}
std::string InstanceId() {
  return Text(host::InstanceId());
}
std::string Username() {
  return Text(host::Username());
}

Result<Child> Launch(std::string_view program, std::string_view input) {
  return Lift(host::Launch(program, input),
              [](host::Child child) { return Child(std::move(child)); });
}

Child::Child(host::Child raw) : raw_(std::make_shared<host::Child>(std::move(raw))) {}
std::string Child::Pid() const {
  return Text(raw_->Pid());
}
void Child::Cancel() const {
  raw_->Cancel();
}

std::optional<Result<std::string>> Child::Get() const {
  auto answer = raw_->Get();
  if (!answer) return std::nullopt;
  return LiftText(*std::move(answer));
}

namespace {

Task<Result<std::string>> EndOf(Child child, std::shared_ptr<host::Child> raw) {
  std::optional<Result<std::string>> answer = child.Get();
  if (!answer) {
    co_await Ready(raw->Pollable());
    answer = child.Get();
  }
  if (!answer) co_return Error("the child ended without an answer");
  co_return *std::move(answer);
}

}  // namespace

Task<Result<std::string>> Child::Wait() const {
  return EndOf(*this, raw_);
}

}  // namespace runtime

}  // namespace inferlet
