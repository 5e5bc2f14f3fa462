#include "config/csv_table.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace kvtide::config {
namespace {

TEST(CsvTable, CellsAreFoundByColumnNameWhateverTheLineEnds) {
  const CsvTable table = CsvTable::parse(
      "\xEF\xBB\xBF"
      "gpu,batch,us\r\nh100,8,1.5\r\n\r\na100,16,2e1",
      "x.csv");
  ASSERT_EQ(table.num_rows(), 2u);
  EXPECT_EQ(table.text(1, "gpu"), "a100");
  EXPECT_EQ(table.integer(0, "batch", 1, 8), 8);
  EXPECT_EQ(table.number(1, "us", 0, 20), 20);
  EXPECT_EQ(table.line(0), "h100,8,1.5");
}

TEST(CsvTable, QuotedCellsHoldCommasAndQuotes) {
  const CsvTable table = CsvTable::parse("\"us\",answer,batch\n\"1\",\"Paris, \"\"F\"\"\",8\n2,5\" disk,\"\"", "x.csv");
  EXPECT_EQ(table.number(0, "us", 0, 20), 1);
  EXPECT_EQ(table.text(0, "answer"), "Paris, \"F\"");
  EXPECT_EQ(table.integer(0, "batch", 1, 8), 8);
  EXPECT_EQ(table.text(1, "answer"), "5\" disk");
  EXPECT_EQ(table.text(1, "batch"), "");
}

std::string error_of(const std::string& text) {
  try {
    const CsvTable table = CsvTable::parse(text, "x.csv");
    (void)table.integer(0, "batch", 1, 8);
    (void)table.number(0, "us", 0, 20);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(CsvTable, ManyColumnsAreToldApartAtOnce) {
  // Each compared with all before it, they would take 5e9 comparisons.
  constexpr int kColumns = 100'000;
  std::string header = "0";
  for (int column = 1; column < kColumns; ++column) header += "," + std::to_string(column);
  EXPECT_EQ(CsvTable::parse(header + "\n", "wide.csv").columns().size(), std::size_t{kColumns});
  EXPECT_THROW((void)CsvTable::parse(header + ",0\n", "wide.csv"), InputError);
}

TEST(CsvTable, ErrorsNameFileLineAndColumn) {
  EXPECT_EQ(error_of("batch,us\n8,1"), "");
  EXPECT_EQ(error_of("batch,us\n9,1"), "x.csv:2: batch: expected an integer in 1..8, got \"9\"");
  EXPECT_EQ(error_of("batch,us\n0,1"), "x.csv:2: batch: expected an integer in 1..8, got \"0\"");
  EXPECT_EQ(error_of("batch,us\n8x,1"), "x.csv:2: batch: expected an integer in 1..8, got \"8x\"");
  EXPECT_EQ(error_of("batch,us\n8,nan"), "x.csv:2: us: expected a number in 0..20, got \"nan\"");
  EXPECT_EQ(error_of("batch,us\n8"), "x.csv:2: 1 cells, but the header names 2 columns");
  EXPECT_EQ(error_of("batch,batch\n8,8"), "x.csv:1: column \"batch\" is named twice");
  EXPECT_EQ(error_of("batch\n8"), "x.csv: no column \"us\" (columns: batch)");
  for (const char* broken : {"batch,us\n\"8,1", "batch,us\n\"8\"0,1", "batch,us\n8,\"", "batch,us\n8,\"1\"\""})
    EXPECT_EQ(error_of(broken), "x.csv:2: a quoted cell does not end before a comma or the line's end") << broken;
  EXPECT_EQ(error_of(""), "x.csv: empty; expected a header row");
  EXPECT_THROW((void)CsvTable::load("no/such.csv"), InputError);
  EXPECT_THROW((void)CsvTable::load("/"), InputError);
}

}  // namespace
}  // namespace kvtide::config
