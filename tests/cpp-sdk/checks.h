// Checks of the C++ SDK that an inferlet runs itself. Each adds the faults it finds to `faults`.
#pragma once

#include <inferlet/inferlet.h>

#include <source_location>
#include <string>
#include <vector>

class Faults {
 public:
  void Expect(bool holds, std::string what,
              std::source_location at = std::source_location::current()) {
    if (holds) return;
    texts_.push_back(std::string(at.file_name()) + ":" + std::to_string(at.line()) + ": " + what);
  }
  const std::vector<std::string>& Texts() const { return texts_; }

 private:
  std::vector<std::string> texts_;
};

inferlet::Task<inferlet::Result<void>> CheckJson(Faults& faults);
inferlet::Task<inferlet::Result<void>> CheckDescribed(Faults& faults);
inferlet::Task<inferlet::Result<void>> CheckTasks(Faults& faults);
inferlet::Task<inferlet::Result<void>> CheckGenerators(Faults& faults);
inferlet::Task<inferlet::Result<void>> CheckContexts(Faults& faults);
