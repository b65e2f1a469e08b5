// PerUser: one object for each user, made when it is first asked for, and forgotten when no
// reference to it is left. Any thread may use it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

namespace pie::host {

template <class T>
class PerUser {
 public:
  using Make = std::function<std::shared_ptr<T>(std::string_view user)>;
  explicit PerUser(Make make) : make_(std::move(make)) {}

  std::shared_ptr<T> Of(std::string_view user) {
    std::lock_guard lock(mutex_);
    auto found = objects_.find(user);
    if (found != objects_.end()) {
      if (auto object = found->second.lock()) return object;
    } else {
      if (objects_.size() >= forget_at_) ForgetExpired();
      found = objects_.emplace(std::string(user), std::weak_ptr<T>()).first;
    }
    auto made = make_(user);
    found->second = made;
    return made;
  }

 private:
  // The search for objects without references is slow, so it runs only when their number has
  // doubled.
  void ForgetExpired() {
    std::erase_if(objects_, [](const auto& entry) { return entry.second.expired(); });
    forget_at_ = std::max<size_t>(64, objects_.size() * 2);
  }

  const Make make_;
  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<T>, std::less<>> objects_;
  size_t forget_at_ = 64;
};

}  // namespace pie::host
