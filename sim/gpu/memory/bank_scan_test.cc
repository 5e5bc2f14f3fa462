#include "gpu/memory/bank_scan.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace kvtide::gpu {
namespace {

constexpr int kCount = kMaxBanks;

struct Banks {
  alignas(32) PerBank<std::int32_t> key, open_row;
  PerBank<ShortTick> gate{};
  Banks() {
    key.fill(kNoKey);
    open_row.fill(-1);
  }
};

TEST(BankScan, TakesTheOldestOfTheReadyAndTellsWhenTheFirstIs) {
  Banks banks;
  banks.key[0] = 7, banks.gate[0] = 10;
  banks.key[1] = 3, banks.gate[1] = 40;
  banks.key[3] = 5, banks.gate[3] = 20;  // bank 2 has no candidate, its gate 0 does not count
  for (const BankScanner& scanner : {portable_bank_scanner(), best_bank_scanner()}) {
    const auto scan = [&](ShortTick now) { return scanner.columns(banks.key.data(), banks.gate.data(), 8, now); };
    EXPECT_EQ(scan(20).oldest, 5);
    EXPECT_EQ(scan(19).oldest, 7);  // bank 3 is ready at 20, not before
    EXPECT_EQ(scan(10).oldest, 7);
    EXPECT_EQ(scan(9).oldest, kNoKey);
    EXPECT_EQ(scan(9).next, 10);
    EXPECT_EQ(scan(40).oldest, 3);
  }
}

TEST(BankScan, NobodyWaitsWhereThereIsNoCandidate) {
  const Banks banks;
  for (const BankScanner& scanner : {portable_bank_scanner(), best_bank_scanner()}) {
    const BankScan scan = scanner.columns(banks.key.data(), banks.gate.data(), kCount, 100);
    EXPECT_EQ(scan.oldest, kNoKey);
    EXPECT_EQ(scan.next, kNotSoon);
  }
}

TEST(BankScan, OpenBanksWaitForThePrechargeGateAndClosedOnesForTheActivateGate) {
  Banks banks;
  banks.key[0] = 1, banks.open_row[0] = 9, banks.gate[0] = 5;  // open
  banks.key[1] = 2, banks.gate[1] = 5;                         // closed
  for (const BankScanner& scanner : {portable_bank_scanner(), best_bank_scanner()}) {
    const auto scan = [&](ShortTick precharge, ShortTick activate) {
      const RowGates gates{.open_row = banks.open_row.data(), .precharge = precharge, .activate = activate};
      return scanner.rows(banks.key.data(), banks.gate.data(), gates, 8, 10);
    };
    EXPECT_EQ(scan(10, 10).oldest, 1);
    EXPECT_EQ(scan(11, 10).oldest, 2);
    EXPECT_EQ(scan(11, 12).oldest, kNoKey);
    EXPECT_EQ(scan(11, 12).next, 11);
    EXPECT_EQ(scan(13, 12).next, 12);
  }
}

TEST(BankScan, WideInstructionsGiveWhatALoopGives) {
  RandomStream random(1, "bank scan");
  for (int round = 0; round < 2000; ++round) {
    Banks banks;
    const int count = kBanksPerScan * (1 + static_cast<int>(random.next() % (kCount / kBanksPerScan)));
    const auto now = static_cast<ShortTick>(random.next() % 64);
    RowGates gates{.open_row = banks.open_row.data(),
                   .precharge = static_cast<ShortTick>(random.next() % 64),
                   .activate = static_cast<ShortTick>(random.next() % 64)};
    BankScan columns, rows;
    for (std::size_t bank = 0; bank < static_cast<std::size_t>(count); ++bank) {
      if (random.next() % 2 == 0) banks.key[bank] = static_cast<std::int32_t>(random.next() >> 33);
      if (random.next() % 2 == 0) banks.open_row[bank] = static_cast<std::int32_t>(random.next() % 100);
      banks.gate[bank] = static_cast<ShortTick>(random.next() % 64);
      if (banks.key[bank] == kNoKey) continue;
      const auto look = [&](BankScan& scan, ShortTick ready) {
        if (ready <= now) scan.oldest = std::min(scan.oldest, banks.key[bank]);
        scan.next = std::min(scan.next, ready);
      };
      look(columns, banks.gate[bank]);
      look(rows, std::max(banks.gate[bank], banks.open_row[bank] < 0 ? gates.activate : gates.precharge));
    }
    for (const BankScanner& scanner : {portable_bank_scanner(), best_bank_scanner()}) {
      const BankScan some = scanner.columns(banks.key.data(), banks.gate.data(), count, now);
      EXPECT_EQ(some.oldest, columns.oldest);
      EXPECT_EQ(some.next, columns.next);
      const BankScan all = scanner.rows(banks.key.data(), banks.gate.data(), gates, count, now);
      EXPECT_EQ(all.oldest, rows.oldest);
      EXPECT_EQ(all.next, rows.next);
    }
  }
}

}  // namespace
}  // namespace kvtide::gpu
