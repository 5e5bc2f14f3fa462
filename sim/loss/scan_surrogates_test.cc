#include "loss/scan_surrogates.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

namespace kvtide::loss {
namespace {

/// All orders of a scan that `draws` draws show, as text: x fails.
std::set<std::string> orders_of(const std::string& scan, int draws) {
  std::vector<double> values;
  for (const char c : scan) values.push_back(c == 'x' ? 1 : 0);
  MovedStretches stretches(values, 1);
  std::set<std::string> result;
  std::vector<std::size_t> order;
  for (int i = 0; i < draws; ++i) {
    stretches.draw(order);
    std::string text;
    for (const std::size_t place : order) text += scan[place];
    result.insert(text);
  }
  return result;
}

// One stretch of 2 among 3 other places can begin at 4 places.
TEST(MovedStretches, AreMovedWhole) {
  EXPECT_EQ(orders_of(".xx..", 200), (std::set<std::string>{"xx...", ".xx..", "..xx.", "...xx"}));
}

// Where most fail, those that do not are the stretches.
TEST(MovedStretches, AreOfTheRarerKind) {
  EXPECT_EQ(orders_of("x..xx", 200), (std::set<std::string>{"..xxx", "x..xx", "xx..x", "xxx.."}));
}

// Stretches of 2 and 4 with gaps of 2 and 2: a grid of 2, on which the three pieces (xx, xxxx) and two gaps are moved: no
// stretch of 1 or 3.
TEST(MovedStretches, StayOnTheirGrid) {
  for (const std::string& order : orders_of("..xx..xxxx..", 500)) {
    for (std::size_t i = 0; i < order.size(); i += 2) EXPECT_EQ(order[i], order[i + 1]) << order;
  }
}

// The first change at 3, the grid 2: a cell of one place begins.
TEST(MovedStretches, KeepEveryPlaceOnce) {
  std::vector<double> values{0, 0, 0, 1, 1, 0, 0, 1, 1, 1, 1, 0, 0, 0};
  MovedStretches stretches(values, 1);
  std::vector<std::size_t> order;
  for (int i = 0; i < 20; ++i) {
    stretches.draw(order);
    std::sort(order.begin(), order.end());
    ASSERT_EQ(order.size(), values.size());
    for (std::size_t place = 0; place < order.size(); ++place) ASSERT_EQ(order[place], place);
  }
}

}  // namespace
}  // namespace kvtide::loss
