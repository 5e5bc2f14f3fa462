#pragma once
// Test support: a config.json given as text.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/error.h"
#include "model/model.h"

namespace kvtide::testing_support {

/// Writes `text` into a file of its own and loads it.
inline Model load_text(const std::string& text) {
  const std::string test = ::testing::UnitTest::GetInstance()->current_test_info()->name();
  const std::filesystem::path path = std::filesystem::path(::testing::TempDir()) / ("model_" + test + ".json");
  std::ofstream(path) << text;
  return load_model(path.string());
}

/// The message of the InputError that loading `text` throws; empty when it loads.
inline std::string error_of(const std::string& text) {
  try {
    (void)load_text(text);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

/// A small model of class `type` (4 layers, 8 heads of 16) with further entries.
inline std::string small(const std::string& type, const std::string& more) {
  return R"({"model_type": ")" + type +
         R"(", "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 16,
          "hidden_size": 128, "intermediate_size": 256, "vocab_size": 100, "max_position_embeddings": 4096)" +
         (more.empty() ? "" : ", " + more) + "}";
}

}  // namespace kvtide::testing_support
