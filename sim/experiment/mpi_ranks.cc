#include "experiment/mpi_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "base/error.h"

#ifdef KVTIDE_HAS_MPI
#include <mpi.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>

#include "experiment/run_file.h"
#endif

namespace kvtide::experiment {
namespace {

/// How many processes the launcher started, by its own word; 1 without one.
int launched_processes() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS", "SLURM_STEP_NUM_TASKS"}) {
    if (const char* text = std::getenv(name); text != nullptr) return std::max(1, std::atoi(text));
  }
  return 1;
}

}  // namespace

#ifndef KVTIDE_HAS_MPI

bool is_built_with_mpi() {
  return false;
}

struct MpiRanks::Free {};

std::unique_ptr<MpiRanks> MpiRanks::join() {
  if (launched_processes() > 1) {
    throw EnvironmentError(
        "started by an MPI launcher, but this kvtide was built without MPI: install its development package "
        "(libopenmpi-dev) and build again, or give each process its --shard");
  }
  return nullptr;
}
MpiRanks::MpiRanks(int rank, int count) : rank_(rank), count_(count) {}
MpiRanks::~MpiRanks() = default;
RunResult MpiRanks::hand_out(const Run& run) {
  return RunResult::failure(fmt::format("run {}: built without MPI", run.index));
}
void MpiRanks::serve(const Experiment& /*experiment*/, const Evaluate& /*evaluate*/) {}

#else

bool is_built_with_mpi() {
  return true;
}

namespace {

constexpr int kRunTag = 1, kResultTag = 2;
constexpr std::int64_t kStop = -1;
constexpr const char* kOnTheWay = "";  // of the job that reads it, whatever the build
constexpr auto kPause =
    std::chrono::microseconds(500);  // between looks at the mailbox; runs take milliseconds and more

/// A file name of this process alone.
std::string scratch_path(std::int64_t index) {
  return (std::filesystem::temp_directory_path() / fmt::format("kvtide-{}-{}.h5", ::getpid(), run_name(index)))
      .string();
}

std::vector<char> take_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  std::error_code ignored;
  std::filesystem::remove(path, ignored);
  return bytes;
}

std::size_t row_of(const Experiment& experiment, std::int64_t index) {
  for (std::size_t row = 0; row < experiment.runs.size(); ++row) {
    if (experiment.runs[row].index == index) return row;
  }
  throw Error(Error::Kind::internal, fmt::format("MPI: asked for run {}, which this rank does not know", index));
}

}  // namespace

/// MPI is called from one thread at a time (MPI_THREAD_SERIALIZED).
struct MpiRanks::Free {
  std::mutex mpi;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<int> ranks;
};

std::unique_ptr<MpiRanks> MpiRanks::join() {
  if (launched_processes() <= 1) return nullptr;
  int provided = 0, rank = 0, count = 1;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &count);
  if (count <= 1) {
    MPI_Finalize();
    return nullptr;
  }
  return std::unique_ptr<MpiRanks>(new MpiRanks(rank, count));
}

MpiRanks::MpiRanks(int rank, int count) : rank_(rank), count_(count), free_(std::make_unique<Free>()) {
  for (int other = count - 1; other >= 1; --other) free_->ranks.push_back(other);
}

MpiRanks::~MpiRanks() {
  if (rank_ == 0) {
    const std::scoped_lock lock(free_->mpi);
    for (int other = 1; other < count_; ++other) MPI_Send(&kStop, 1, MPI_INT64_T, other, kRunTag, MPI_COMM_WORLD);
  }
  MPI_Finalize();
}

RunResult MpiRanks::hand_out(const Run& run) {
  int rank = 0;
  {
    std::unique_lock lock(free_->mutex);
    free_->changed.wait(lock, [this] { return !free_->ranks.empty(); });
    rank = free_->ranks.back();
    free_->ranks.pop_back();
  }
  {
    const std::scoped_lock lock(free_->mpi);
    MPI_Send(&run.index, 1, MPI_INT64_T, rank, kRunTag, MPI_COMM_WORLD);
  }
  std::vector<char> bytes;
  while (true) {
    {
      const std::scoped_lock lock(free_->mpi);
      int has_arrived = 0;
      MPI_Status status;
      MPI_Iprobe(rank, kResultTag, MPI_COMM_WORLD, &has_arrived, &status);
      if (has_arrived != 0) {
        int size = 0;
        MPI_Get_count(&status, MPI_BYTE, &size);
        bytes.resize(static_cast<std::size_t>(size));
        MPI_Recv(bytes.data(), size, MPI_BYTE, rank, kResultTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        break;
      }
    }
    std::this_thread::sleep_for(kPause);
  }
  {
    const std::scoped_lock lock(free_->mutex);
    free_->ranks.push_back(rank);
  }
  free_->changed.notify_one();

  const std::string path = scratch_path(run.index);
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  std::optional<RunResult> result = read_run_file(path, run.key, kOnTheWay);
  std::error_code ignored;
  std::filesystem::remove(path, ignored);
  return result ? std::move(*result) : RunResult::failure(fmt::format("rank {} sent no usable result", rank));
}

void MpiRanks::serve(const Experiment& experiment, const Evaluate& evaluate) {
  while (true) {
    std::int64_t index = kStop;
    MPI_Recv(&index, 1, MPI_INT64_T, 0, kRunTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (index == kStop) return;
    const Run& run = experiment.runs[row_of(experiment, index)];
    std::vector<char> bytes;  // empty where nothing can be written, or more than one message holds: rank 0 says so
    try {
      const std::string path = scratch_path(index);
      write_run_file(path, run.key, kOnTheWay, evaluate_safely(evaluate, run));
      bytes = take_file(path);
      if (!std::in_range<int>(bytes.size())) bytes.clear();
    } catch (const Error&) {
      bytes.clear();
    }
    MPI_Send(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, 0, kResultTag, MPI_COMM_WORLD);
  }
}

#endif

}  // namespace kvtide::experiment
