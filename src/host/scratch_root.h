// ScratchRoot: the folder below which an engine makes the /scratch folders of its inferlets.
//
// Engines share a root. Each engine has a folder of its own there, which it locks, and removes when
// it ends. An engine that starts removes the folders of engines that were killed.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"

namespace pie::host {

class ScratchRoot {
 public:
  // Fails if another user of the machine owns `root` or may write to it.
  static Result<std::unique_ptr<ScratchRoot>> Make(const std::string& root,
                                                   const std::string& engine);
  ~ScratchRoot();
  ScratchRoot(const ScratchRoot&) = delete;
  ScratchRoot& operator=(const ScratchRoot&) = delete;

  const std::string& dir() const { return dir_; }

 private:
  ScratchRoot(std::string dir, int lock) : dir_(std::move(dir)), lock_(lock) {}

  std::string dir_;
  int lock_;  // a descriptor of the folder, which is locked
};

}  // namespace pie::host
