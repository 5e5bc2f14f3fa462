#include "loss/head_reduction.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace kvtide::loss {
namespace {

TEST(HeadReduction, NamesRoundTripAndOthersAreRefused) {
  for (const HeadReduction reduction : {HeadReduction::reader, HeadReduction::mean, HeadReduction::max}) {
    EXPECT_EQ(head_reduction_from_string(to_string(reduction)), reduction);
  }
  EXPECT_THROW((void)head_reduction_from_string("median"), InputError);
}

}  // namespace
}  // namespace kvtide::loss
