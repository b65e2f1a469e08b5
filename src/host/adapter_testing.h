// For the tests of adapters: weights, and a folder for each test.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <string>

#include "backend/dummy/dummy_backend.h"
#include "model/adapter/adapter.h"

namespace pie::host {

// Makes an empty folder, which the test removes.
inline std::string TestFolder() {
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  const std::string folder =
      ::testing::TempDir() + "adapters-" + std::to_string(getpid()) + "-" + test->name();
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}

// Weights of an adapter of the dummy model, one of which is `number`.
inline AdapterWeights Weights(float number, uint32_t rank = 2) {
  AdapterWeights weights = *MakeAdapter(DummyAdapterShape(), rank, 4);
  weights.layers[1][2].b[3] = number;
  return weights;
}

}  // namespace pie::host
