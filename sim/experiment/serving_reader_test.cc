#include <gtest/gtest.h>

#include "experiment/serving_setting.h"

namespace kvtide::experiment {
namespace {

// Routing deals requests among the engines that take them: the prefill ones where there are any, and caches among those that decode.
// It decides the result, and so is part of the key, wherever one of both are several.
TEST(ServingText, NamesTheRoutingWhereverThereIsAChoiceOfEngines) {
  const auto differs = [](std::int64_t replicas, std::int64_t prefill_replicas) {
    ServingSetting dealt;
    dealt.replicas = replicas;
    dealt.prefill_replicas = prefill_replicas;
    ServingSetting loaded = dealt;
    loaded.routing = serving::Routing::least_loaded;
    return serving_text(dealt, "") != serving_text(loaded, "");
  };
  EXPECT_FALSE(differs(1, 0));
  EXPECT_FALSE(differs(1, 1));
  EXPECT_TRUE(differs(2, 0));
  EXPECT_TRUE(differs(1, 2));
  EXPECT_TRUE(differs(2, 2));
}

}  // namespace
}  // namespace kvtide::experiment
