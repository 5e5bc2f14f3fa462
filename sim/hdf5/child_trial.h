#pragma once
// A trial run on a file nobody vouches for, in a process of its own: HDF5 1.10.8 itself crashes or hangs on some damaged files
// (nearly always in the global heap, where text of variable length lies), and no check before the call can prevent it.

#include <chrono>
#include <functional>
#include <string>

namespace kvtide::hdf5 {

/// Runs `trial` in a forked child that prints nothing, leaves no core and has `limit` of real time. What the trial throws does
/// not count: the caller repeats it and gets the error itself. No other thread may be inside this room's calls
/// without its mutex.
/// @return empty when the child ended by itself (or none could be started), else how it died, e.g. "signal 11"
[[nodiscard]] std::string failed_trial(const std::function<void()>& trial, std::chrono::seconds limit);

/// From now on trials run in this process: for programs that look for faults of the readers themselves, which a child hides.
void try_in_place();

/// What reading a file may take: 20 s, and a second for every 4 MiB (the slowest disk, and checks of every value).
/// Example: a trace of 1 GiB has 276 s.
[[nodiscard]] std::chrono::seconds trial_limit(const std::string& path);

/// @throws InputError naming `path` when the trial crashes or does not end within trial_limit(path)
void require_trial(const std::string& path, const std::function<void()>& trial);

}  // namespace kvtide::hdf5
