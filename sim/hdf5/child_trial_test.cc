#include "hdf5/child_trial.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <stdexcept>
#include <string>

#include "base/error.h"
#include "hdf5/hdf5_file.h"

namespace kvtide::hdf5 {
namespace {

using std::chrono::seconds;

TEST(ChildTrial, TrialThatEndsOrThrowsHasNotFailed) {
  EXPECT_EQ(failed_trial([] {}, seconds(20)), "");
  EXPECT_EQ(failed_trial([] { throw std::runtime_error("for the caller"); }, seconds(20)), "");
}

TEST(ChildTrial, CrashAndHangAreTold) {
  EXPECT_EQ(failed_trial([] { std::raise(SIGSEGV); }, seconds(20)), "signal 11");
  EXPECT_EQ(failed_trial([] { std::abort(); }, seconds(20)), "signal 6");
  EXPECT_EQ(failed_trial(
                [] {
                  for (;;) ::pause();
                },
                seconds(1)),
            "no end within 1 s");
  EXPECT_THROW(require_trial("x.h5", [] { std::raise(SIGSEGV); }), InputError);
}

// 20 s and a second for every 4 MiB = 4,194,304 B.
TEST(ChildTrial, LimitGrowsWithTheFile) {
  const std::string path = ::testing::TempDir() + "kvtide_trial_limit";
  std::ofstream(path).close();
  std::filesystem::resize_file(path, 4'194'303);
  EXPECT_EQ(trial_limit(path), seconds(20));
  std::filesystem::resize_file(path, 3 * 4'194'304);
  EXPECT_EQ(trial_limit(path), seconds(23));
  std::filesystem::remove(path);
  EXPECT_EQ(trial_limit(path), seconds(20));  // nothing to read
}

#ifdef __linux__
// The trial holds the pipe's only other write end, so end of file means that it is gone.
TEST(ChildTrial, TrialEndsWithAKilledParent) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t parent = ::fork();
  if (parent == 0) {
    ::close(ends[0]);
    (void)failed_trial(
        [&] {
          if (::write(ends[1], "x", 1) != 1) return;
          for (;;) ::pause();
        },
        seconds(120));
    ::_exit(0);
  }
  ::close(ends[1]);
  char byte = 0;
  ASSERT_EQ(::read(ends[0], &byte, 1), 1);  // the trial runs
  ::kill(parent, SIGKILL);
  ::waitpid(parent, nullptr, 0);
  pollfd waiting{ends[0], POLLIN, 0};
  ASSERT_EQ(::poll(&waiting, 1, 60'000), 1) << "the trial still runs";
  EXPECT_EQ(::read(ends[0], &byte, 1), 0);
  ::close(ends[0]);
}
#endif

TEST(ChildTrial, RoomsCallsWorkInTheChild) {
  EXPECT_EQ(failed_trial([] { const std::lock_guard lock(library_mutex()); }, seconds(5)), "");
  EXPECT_EQ(failed_trial([] { InputFile("/none/such.h5"); }, seconds(5)), "");
}

TEST(ChildTrial, NothingOfTheChildReachesTheParent) {
  int value = 1;
  testing::internal::CaptureStderr();
  (void)failed_trial(
      [&] {
        value = 2;
        std::fputs("noise", stderr);
      },
      seconds(20));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(value, 1);
}

}  // namespace
}  // namespace kvtide::hdf5
