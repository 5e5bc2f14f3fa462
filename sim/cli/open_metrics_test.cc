#include "cli/open_metrics.h"

#include <gtest/gtest.h>

#include <limits>

namespace kvtide::cli {
namespace {

// Order and spelling as the specification's section on the text format gives them.
TEST(OpenMetrics, DocumentIsTypedAndClosed) {
  EXPECT_EQ(open_metrics_text({{"kvtide_scan_period_tokens", "tokens", "Period.", 64}},
                              {{"scan", "a"}, {"axis", "position"}}),
            "# TYPE kvtide_scan_period_tokens gauge\n"
            "# UNIT kvtide_scan_period_tokens tokens\n"
            "# HELP kvtide_scan_period_tokens Period.\n"
            "kvtide_scan_period_tokens{scan=\"a\",axis=\"position\"} 64\n"
            "# EOF\n");
}

TEST(OpenMetrics, LabelsAreEscapedAndNanIsSpelled) {
  EXPECT_EQ(open_metrics_text({{"x", "", "h", std::numeric_limits<double>::quiet_NaN()}}, {{"scan", "a\"b\\c\nd"}}),
            "# TYPE x gauge\n# HELP x h\nx{scan=\"a\\\"b\\\\c\\nd\"} NaN\n# EOF\n");
  EXPECT_EQ(open_metrics_text({}, {}), "# EOF\n");
}

}  // namespace
}  // namespace kvtide::cli
