#include "cli/table.h"

#include <gtest/gtest.h>

namespace kvtide::cli {
namespace {

TEST(Table, AlignsByCodePointsNotBytes) {
  Table table({{"name", Align::left}, {"x", Align::right}});
  table.add_row({"µs", "10"});
  table.add_row({"ns", "5"});
  EXPECT_EQ(table.text(),
            "name   x\n"
            "----  --\n"
            "µs    10\n"
            "ns     5\n");
}

TEST(Table, LinesHaveNoTrailingSpaces) {
  Table table({{"a", Align::left}, {"long title", Align::left}});
  table.add_row({"1", "x"});
  EXPECT_EQ(table.text(), "a  long title\n-  ----------\n1  x\n");
}

}  // namespace
}  // namespace kvtide::cli
