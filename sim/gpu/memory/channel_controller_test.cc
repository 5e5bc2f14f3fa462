// Each gate is probed on both sides: the command must not be out before its tick, and must be out after it.

#include "gpu/memory/channel_controller.h"

#include <gtest/gtest.h>

#include <optional>

namespace kvtide::gpu {
namespace {

/// One HBM3 channel at 6.4 Gb/s; ticks of 0.3125 ns; JEDEC values in ticks as in hw_profiles/memory/hbm3.yaml.
class Hbm3Channel : public testing::Test {
 protected:
  static constexpr int kBanksPerGroup = 4, kGroups = 4;
  static int bank(int stack, int group, int index) { return (stack * kGroups + group) * kBanksPerGroup + index; }

  Hbm3Channel() { make(RefreshMode::none); }
  void make(RefreshMode refresh, std::int64_t queue_size = 64) {
    const MemoryStandard standard = load_memory_standard("hbm3");
    channel_.emplace(standard.geometry, command_timings(standard, 6.4e9),
                     ControllerSettings{.queue_size = queue_size, .refresh = refresh});
  }
  void arrive(Tick tick, int bank, int row, bool is_write = false, int pseudo_channel = 0) {
    channel_->arrive({.arrival = tick,
                      .row = row,
                      .pseudo_channel = static_cast<std::uint8_t>(pseudo_channel),
                      .bank = static_cast<std::uint8_t>(bank),
                      .is_write = is_write});
  }
  /// What has been issued up to and including `tick`.
  const ChannelCounters& after(Tick tick) {
    channel_->run_until(tick + 1, completions_);
    return channel_->counters();
  }
  void expect_activate(std::int64_t nth, Tick tick) {
    EXPECT_EQ(after(tick - 1).activates, nth - 1) << "tick " << tick - 1;
    EXPECT_EQ(after(tick).activates, nth) << "tick " << tick;
  }
  void expect_read(std::int64_t nth, Tick tick) {
    EXPECT_EQ(after(tick - 1).reads, nth - 1) << "tick " << tick - 1;
    EXPECT_EQ(after(tick).reads, nth) << "tick " << tick;
  }
  void expect_write(std::int64_t nth, Tick tick) {
    EXPECT_EQ(after(tick - 1).writes, nth - 1) << "tick " << tick - 1;
    EXPECT_EQ(after(tick).writes, nth) << "tick " << tick;
  }

  std::optional<ChannelController> channel_;
  CompletionCalendar completions_{1 << 16};
};

TEST_F(Hbm3Channel, ReadOfAClosedBankWaitsRcd) {
  arrive(0, bank(0, 0, 0), 5);
  expect_activate(1, 0);
  expect_read(1, 64);                        // tRCD 62 + ACT 3 - RD 2 = 63, next whole clock (2 ticks): 64
  EXPECT_EQ(completions_.peek(64 + 44), 1);  // CL 40 + burst 4
}

TEST_F(Hbm3Channel, WriteOfAClosedBankWaitsItsOwnRcd) {
  arrive(0, bank(0, 0, 0), 5, true);
  expect_write(1, 32);  // tRCD write 30 + 1 = 31 -> 32
}

TEST_F(Hbm3Channel, SecondColumnOfTheSameBankGroupWaitsCcdL) {
  arrive(0, bank(0, 0, 0), 1);
  arrive(0, bank(0, 0, 1), 1);
  after(999);
  arrive(1000, bank(0, 0, 0), 1);
  arrive(1000, bank(0, 0, 1), 1);
  expect_read(3, 1000);
  expect_read(4, 1008);  // tCCD_L 4 CK
}

TEST_F(Hbm3Channel, SecondColumnOfAnotherBankGroupWaitsTheBurst) {
  arrive(0, bank(0, 0, 0), 1);
  arrive(0, bank(0, 1, 0), 1);
  after(999);
  arrive(1000, bank(0, 0, 0), 1);
  arrive(1000, bank(0, 1, 0), 1);
  expect_read(4, 1004);  // tCCD_S 2 CK = burst
}

TEST_F(Hbm3Channel, SecondColumnOfAnotherStackIdWaitsCcdR) {
  arrive(0, bank(0, 0, 0), 1);
  arrive(0, bank(1, 1, 0), 1);
  after(999);
  arrive(1000, bank(0, 0, 0), 1);
  arrive(1000, bank(1, 1, 0), 1);
  expect_read(4, 1006);  // tCCD_R 3 CK
}

TEST_F(Hbm3Channel, PseudoChannelsShareTheColumnBusOnly) {
  arrive(0, bank(0, 0, 0), 1, false, 0);
  arrive(0, bank(0, 0, 0), 1, false, 1);
  after(999);
  arrive(1000, bank(0, 0, 0), 1, false, 0);
  arrive(1000, bank(0, 0, 0), 1, false, 1);
  expect_read(3, 1000);
  expect_read(4, 1002);  // one column command a clock
}

TEST_F(Hbm3Channel, ActivatesOfTwoPseudoChannelsShareTheRowBus) {
  arrive(0, bank(0, 0, 0), 1, false, 0);
  arrive(0, bank(0, 0, 0), 1, false, 1);
  expect_activate(1, 0);
  expect_activate(2, 4);  // ACT holds the bus for 3 ticks, the next one starts on a whole clock
}

TEST_F(Hbm3Channel, ActivatesWaitRrdAndTheWindowOfFour) {
  for (const int group : {0, 1, 2, 3}) arrive(0, bank(0, group, 0), 1);
  arrive(0, bank(0, 0, 1), 1);
  expect_activate(2, 8);  // tRRD_S 2.5 ns = 8 ticks
  expect_activate(3, 16);
  expect_activate(4, 24);
  expect_activate(5, 48);  // tFAW 15 ns after the first, not 32
}

TEST_F(Hbm3Channel, ActivatesOfOneBankGroupWaitRrdL) {
  arrive(0, bank(0, 2, 0), 1);
  arrive(0, bank(0, 2, 1), 1);
  expect_activate(2, 10);  // tRRD_L 3.125 ns
}

TEST_F(Hbm3Channel, ReopeningABankWaitsRc) {
  arrive(0, bank(0, 0, 0), 1);
  arrive(0, bank(0, 0, 0), 2);
  // RD 64; PRE at max(tRAS 90 + 2, 64 + tRTP 18 + 1) = 92; ACT at max(92 + tRP 52 - 2, tRC 144) = 144.
  expect_activate(2, 144);
  expect_read(2, 144 + 64);
}

TEST_F(Hbm3Channel, ConflictAfterAReadWaitsRtpAndRp) {
  arrive(0, bank(0, 0, 0), 1);
  after(999);
  arrive(1000, bank(0, 0, 0), 1);
  arrive(1001, bank(0, 0, 0), 2);
  // RD 1000, PRE 1000 + 18 + 1 = 1019, ACT 1019 + 52 - 2 = 1069 -> 1070.
  expect_activate(2, 1070);
}

TEST_F(Hbm3Channel, ConflictAfterAWriteWaitsWriteRecovery) {
  arrive(0, bank(0, 0, 0), 1, true);
  after(999);
  arrive(1000, bank(0, 0, 0), 1, true);
  arrive(1001, bank(0, 0, 0), 2, true);
  // WR 1000, PRE 1000 + CWL 20 + burst 4 + tWR 66 + 1 = 1091, ACT 1091 + 50 = 1141 -> 1142.
  expect_activate(2, 1142);
}

TEST_F(Hbm3Channel, WriteAfterReadWaitsTheTurnaround) {
  arrive(0, bank(0, 0, 0), 1);
  after(999);
  arrive(1000, bank(0, 0, 0), 1);
  arrive(1000, bank(0, 0, 0), 1, true);
  expect_read(2, 1000);
  expect_write(1, 1040);  // 12.5 ns
}

TEST_F(Hbm3Channel, ReadAfterWriteWaitsLongerInTheSameBankGroup) {
  arrive(0, bank(0, 0, 0), 1);
  arrive(0, bank(0, 1, 0), 1);
  after(999);
  arrive(1000, bank(0, 0, 0), 1, true);
  arrive(1001, bank(0, 0, 0), 1);
  expect_write(1, 1000);
  expect_read(3, 1044);  // CWL 20 + burst 4 + tWTR_L 20
  arrive(2000, bank(0, 0, 0), 1, true);
  arrive(2001, bank(0, 1, 0), 1);
  expect_write(2, 2000);
  expect_read(4, 2038);  // CWL 20 + burst 4 + tWTR_S 14
}

TEST_F(Hbm3Channel, OlderHitsAreServedBeforeTheirRowIsClosed) {
  arrive(0, bank(0, 0, 0), 1);
  after(999);
  for (int i = 0; i < 8; ++i) arrive(1000, bank(0, 0, 0), 1);
  arrive(1000, bank(0, 0, 0), 2);
  // Eight hits 8 ticks apart: the last at 1056; only then PRE 1056 + 19 = 1075, ACT 1125 -> 1126.
  expect_read(9, 1056);
  expect_activate(2, 1126);
  EXPECT_EQ(after(2000).row_hits, 8);  // of ten requests two opened their row
}

TEST_F(Hbm3Channel, AYoungerHitDoesNotKeepARowOpen) {
  arrive(0, bank(0, 0, 0), 1);
  after(999);
  arrive(1000, bank(0, 0, 0), 2);  // PRE at once
  arrive(1002, bank(0, 0, 0), 1);
  expect_activate(2, 1050);  // tRP 52 - 2
  EXPECT_EQ(after(3000).activates, 3);
}

TEST_F(Hbm3Channel, RefreshBlocksTheChannelForRfc) {
  make(RefreshMode::all_bank);
  EXPECT_EQ(after(12479).refreshes, 0);
  EXPECT_EQ(after(12480).refreshes, 1);  // tREFI 3.9 us = 12,480 ticks; the second pseudo channel one clock later
  EXPECT_EQ(after(12481).refreshes, 1);
  EXPECT_EQ(after(12482).refreshes, 2);
  arrive(12483, bank(0, 0, 0), 1, false, 1);
  expect_activate(1, 12482 + 1118);  // tRFC 350 ns = 1,120, ACT two ticks longer than REF
}

TEST_F(Hbm3Channel, RefreshClosesOpenRowsFirst) {
  make(RefreshMode::all_bank);
  arrive(12000, bank(0, 0, 0), 1);
  after(12479);
  // Row open: PREab 12,480; REF tRP 52 later; the other pseudo channel is closed already.
  EXPECT_EQ(after(12480 + 51).refreshes, 0);
  EXPECT_EQ(after(12480 + 52).refreshes, 1);
}

TEST_F(Hbm3Channel, WritesUpToTheHighWatermarkWaitUntilNoReadIsLeft) {
  make(RefreshMode::none, 10);
  arrive(0, bank(0, 0, 0), 1);
  arrive(0, bank(0, 1, 0), 1, true);
  ASSERT_EQ(after(999).writes, 1);
  for (int i = 0; i < 10; ++i) arrive(1000, bank(0, 0, 0), 1);
  for (int i = 0; i < 8; ++i) arrive(1001, bank(0, 1, 0), 1, true);  // 0.8 x 10: not above the mark
  expect_read(11, 1000 + 9 * 8);
  expect_write(2, 1072 + 40);
}

TEST_F(Hbm3Channel, WritesAboveTheHighWatermarkDrainToTheLowOne) {
  make(RefreshMode::none, 10);
  arrive(0, bank(0, 0, 0), 1);
  arrive(0, bank(0, 1, 0), 1, true);
  ASSERT_EQ(after(999).writes, 1);
  for (int i = 0; i < 10; ++i) arrive(1000, bank(0, 0, 0), 1);
  for (int i = 0; i < 9; ++i) arrive(1001, bank(0, 1, 0), 1, true);
  expect_write(2, 1000 + 40);
  // Eight writes 8 ticks apart leave one, fewer than 0.2 x 10: reads go on tWTR_S = 38 ticks after the last.
  expect_write(9, 1040 + 7 * 8);
  expect_read(3, 1096 + 38);
  EXPECT_EQ(after(1096 + 38).writes, 9);
  expect_read(11, 1134 + 8 * 8);
  expect_write(10, 1198 + 40);
}

TEST_F(Hbm3Channel, AFullQueueHoldsLaterRequestsBack) {
  make(RefreshMode::none, 1);
  arrive(0, bank(0, 0, 0), 1);
  arrive(0, bank(0, 1, 0), 1);
  // The first leaves the queue with its ACT at 0, so the second enters at 1 and activates at tRRD_S = 8; a third would
  // wait for it.
  arrive(0, bank(0, 2, 0), 1);
  expect_activate(2, 8);
  expect_activate(3, 16);
}

TEST_F(Hbm3Channel, ColumnAndActivateWaitForAClockEdge) {
  arrive(0, bank(0, 0, 0), 1);
  after(998);
  arrive(1001, bank(0, 0, 0), 1);
  expect_read(2, 1002);
  arrive(2001, bank(0, 1, 0), 1);
  expect_activate(2, 2002);
}

TEST_F(Hbm3Channel, TimesStayRightWhenTheEpochMovesOn) {
  // The controller counts 32-bit ticks from an epoch that moves after 2^28; gates before and after are the same.
  const Tick far = (Tick{1} << 40) + 2;
  arrive(0, bank(0, 0, 0), 1);
  after(999);
  arrive(far, bank(0, 0, 0), 1);
  arrive(far, bank(0, 0, 0), 2);
  expect_read(2, far);
  expect_activate(2, far + 70);   // PRE tRTP 18 + 1 after the read, ACT tRP 52 - 2 later: 69 -> 70
  expect_read(3, far + 70 + 64);  // tRCD 63, next clock
}

TEST_F(Hbm3Channel, BankRefreshBlocksItsBankForRfcPbAndTheOthersForRrefd) {
  make(RefreshMode::per_bank);
  EXPECT_EQ(after(389).refreshes, 0);
  EXPECT_EQ(after(390).refreshes, 1);  // tREFI / 32 banks = 12,480 / 32; bank 0 of the first pseudo channel
  EXPECT_EQ(after(391).refreshes, 1);
  EXPECT_EQ(after(392).refreshes, 2);  // of the second, one clock later
  arrive(393, bank(0, 0, 0), 1);
  arrive(393, bank(0, 1, 0), 1);
  // REF holds the bus for 1 tick and ACT for 3, so the distance is the JEDEC value - 2: tRREFD 5 ns = 16 - 2.
  expect_activate(1, 390 + 14);
  expect_activate(2, 390 + 638);        // tRFCpb 200 ns = 640 - 2
  EXPECT_EQ(after(1028).refreshes, 4);  // 390 ticks after the first two bank 1 had its turn
}

TEST_F(Hbm3Channel, BankRefreshClosesItsRowFirstAndServesWhoOpenedIt) {
  make(RefreshMode::per_bank);
  arrive(386, bank(0, 0, 0), 1);
  expect_activate(1, 386);
  EXPECT_EQ(after(392).refreshes, 1);  // only the second pseudo channel's
  expect_read(1, 386 + 64);            // tRCD 62 + 2 - 1, on a clock: the refresh waits for it
  // PRE at max(ACT + tRAS 90 + 2, RD + tRTP 18 + 1): 386 + 92 = 478 against 450 + 19 = 469; REF tRP 52 later.
  EXPECT_EQ(after(478 + 51).refreshes, 1);
  EXPECT_EQ(after(478 + 52).refreshes, 2);
}

TEST_F(Hbm3Channel, BurstsThatArriveTogetherAreRequestsOfTheirOwn) {
  make(RefreshMode::none, 2);
  channel_->arrive({.arrival = 0, .num_bursts = 3, .row = 1});
  expect_read(1, 64);
  expect_read(2, 64 + 8);  // tCCD_L; the third entered when the first left its slot, at the ACT
  expect_read(3, 64 + 16);
  EXPECT_EQ(after(999).reads, 3);
  EXPECT_EQ(after(999).row_hits, 2);
}

TEST(ChannelController, StacksOfFewBanksKeepTheirOwnColumnGate) {
  // HBM3 with stack IDs of 2 x 2 banks, fewer than are scanned at a time: tCCD_R 3 CK = 6 ticks to another stack ID,
  // tCCD_S 2 CK = 4 within it.
  MemoryStandard standard = load_memory_standard("hbm3");
  standard.geometry.num_bank_groups = standard.geometry.num_banks = 2;
  ChannelController channel(standard.geometry, command_timings(standard, 6.4e9), {.refresh = RefreshMode::none});
  CompletionCalendar completions(1 << 16);
  const auto reads_after = [&](Tick tick) {
    channel.run_until(tick + 1, completions);
    return channel.counters().reads;
  };
  for (const int bank : {0, 2, 4}) channel.arrive({.row = 1, .bank = static_cast<std::uint8_t>(bank)});
  EXPECT_EQ(reads_after(999), 3);
  channel.arrive({.arrival = 1000, .row = 1, .bank = 0});
  channel.arrive({.arrival = 1000, .row = 1, .bank = 4});  // the other stack ID
  EXPECT_EQ(reads_after(1000), 4);
  EXPECT_EQ(reads_after(1005), 4);
  EXPECT_EQ(reads_after(1006), 5);
  channel.arrive({.arrival = 2000, .row = 1, .bank = 0});
  channel.arrive({.arrival = 2000, .row = 1, .bank = 2});  // the other bank group
  EXPECT_EQ(reads_after(2000), 6);
  EXPECT_EQ(reads_after(2003), 6);
  EXPECT_EQ(reads_after(2004), 7);
}

TEST_F(Hbm3Channel, IdleChannelHasNoEventButRefresh) {
  EXPECT_EQ(channel_->next_event(), ChannelController::kNever);
  arrive(77, bank(0, 0, 0), 1);
  EXPECT_EQ(channel_->next_event(), 77);
  make(RefreshMode::all_bank);
  EXPECT_EQ(channel_->next_event(), 12480);
}

}  // namespace
}  // namespace kvtide::gpu
