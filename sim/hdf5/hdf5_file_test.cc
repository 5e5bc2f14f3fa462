#include "hdf5/hdf5_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hdf5.h>
#include <hdf5_hl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <thread>

#include "base/error.h"

namespace kvtide::hdf5 {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// A folder of its own for every test, removed afterwards.
class Hdf5File : public testing::Test {
 protected:
  Hdf5File() {
    std::string pattern = (std::filesystem::temp_directory_path() / "kvtide-hdf5-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }
  ~Hdf5File() override { std::filesystem::remove_all(folder_); }
  [[nodiscard]] std::string in_folder(const std::string& name) const { return (folder_ / name).string(); }
  [[nodiscard]] std::size_t num_files() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder_), {}));
  }
  std::filesystem::path folder_;
};

std::string bytes_of(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// Runs `action` and gives the text of the error of the wanted kind, or a text that says what happened instead.
template <class Wanted, class Action>
std::string error_of(const Action& action) {
  try {
    action();
  } catch (const Wanted& error) {
    return error.what();
  } catch (const std::exception& error) {
    return std::string("another kind of error: ") + error.what();
  }
  return "no error";
}

void write_sample(const std::string& path) {
  OutputFile file(path);
  file.attribute("/", "title", std::string("Größe µ"));
  file.attribute("/", "count", std::int64_t{7});
  file.attribute("/", "scale", 0.125);
  file.attribute("/", "pair", std::vector<std::int64_t>{3, 5});
  file.dimension("/run", std::vector<std::int64_t>{0, 1, 2}, {"run", "1"});
  file.dimension("/summary/position", std::vector<double>{0.5, 1.5}, {"position", "token"});
  const std::vector<double> loss = {0, 1, 2, 3, 4, NAN};
  file.write("/summary/loss", std::span<const double>(loss), {"/run", "/summary/position"}, {"loss", "1"});
  const std::vector<std::string> labels = {"evict", "", "int4 – µ"};
  file.write("/summary/label", std::span<const std::string>(labels), {"/run"}, {"label"});
  const std::vector<std::uint8_t> kept = {1, 0, 1};
  file.write("/summary/kept", std::span<const std::uint8_t>(kept), {"/run"}, {"kept"});
  const std::vector<std::int64_t> bytes = {1LL << 40, -1, 0};
  file.write("/summary/kv_bytes", std::span<const std::int64_t>(bytes), {"/run"}, {"cache", "B"});
  const std::vector<float> half = {1.0F, -2.5F, 65504.0F, 6.0e-8F};
  file.write_float16("/q", half, {2, 2}, {"queries"});
  file.commit();
}

TEST_F(Hdf5File, WhatIsWrittenIsReadBack) {
  write_sample(in_folder("a.h5"));
  const InputFile file(in_folder("a.h5"));
  EXPECT_EQ(file.string_attribute("/", "title"), "Größe µ");
  EXPECT_EQ(file.integer_attribute("/", "count"), 7);
  EXPECT_EQ(file.number_attribute("/", "scale"), 0.125);
  EXPECT_EQ(file.number_attribute("/", "count"), 7.0);
  EXPECT_THAT(file.integers_attribute("/", "pair"), ElementsAre(3, 5));
  EXPECT_THAT(file.children("/summary"), ElementsAre("kept", "kv_bytes", "label", "loss", "position"));
  EXPECT_TRUE(file.is_group("/summary"));
  EXPECT_FALSE(file.is_group("/run"));
  EXPECT_TRUE(file.exists("/summary/loss"));
  EXPECT_FALSE(file.exists("/summary/loss/deeper"));
  EXPECT_FALSE(file.exists("/none/at/all"));
  EXPECT_THAT(file.info("/summary/loss").shape, ElementsAre(3, 2));
  EXPECT_EQ(file.info("/q").type, ElementType::float16);
  EXPECT_EQ(file.info("/summary/kv_bytes").type, ElementType::int64);
  const std::vector<double> loss = file.read_doubles("/summary/loss");
  EXPECT_EQ(loss[4], 4.0);
  EXPECT_TRUE(std::isnan(loss[5]));
  EXPECT_THAT(file.read_integers("/summary/kv_bytes"), ElementsAre(1LL << 40, -1, 0));
  EXPECT_THAT(file.read_strings("/summary/label"), ElementsAre("evict", "", "int4 – µ"));
  // binary16: the smallest subnormal is 2^-24 = 5.96e-8, the nearest value to 6e-8.
  EXPECT_THAT(file.read_floats("/q"), ElementsAre(1.0F, -2.5F, 65504.0F, std::ldexp(1.0F, -24)));
}

TEST_F(Hdf5File, HyperslabIsTheAskedPartInRowOrder) {
  write_sample(in_folder("a.h5"));
  const InputFile file(in_folder("a.h5"));
  const std::uint64_t start[] = {1, 0};
  const std::uint64_t count[] = {2, 1};
  // Rows of [[0, 1], [2, 3], [4, NaN]]: column 0 of rows 1 and 2.
  EXPECT_THAT(file.read_floats("/summary/loss", start, count), ElementsAre(2.0F, 4.0F));
  const std::uint64_t too_many[] = {3, 1};
  EXPECT_THAT(error_of<InputError>([&] { (void)file.read_floats("/summary/loss", start, too_many); }),
              HasSubstr("/summary/loss: shape [3, 2] does not hold 3 from 1"));
}

TEST_F(Hdf5File, Bfloat16BitsAreTheUpperHalfOfAFloat32) {
  {  // 0x3FC0 is 1.5 and 0xC000 is -2 in bfloat16 (upper halves of 0x3FC00000 and 0xC0000000).
    const hid_t file = H5Fcreate(in_folder("b.h5").c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    const hsize_t extent = 2;
    const std::uint16_t bits[] = {0x3FC0, 0xC000};
    H5LTmake_dataset(file, "bits", 1, &extent, H5T_STD_U16LE, bits);
    H5Fclose(file);
  }
  const InputFile file(in_folder("b.h5"));
  EXPECT_THAT(file.read_floats("/bits", true), ElementsAre(1.5F, -2.0F));
  EXPECT_THAT(error_of<InputError>([&] { (void)file.read_floats("/bits"); }), HasSubstr("found uint16"));
}

TEST_F(Hdf5File, Float16RoundsToNearestEvenAndRefusesOverflow) {
  {
    OutputFile file(in_folder("h.h5"));
    // Above 1 halves are 2^-10 apart: 1 + 2^-11 is half way and goes to the even 1; 1 + 3*2^-11 goes to 1 + 2^-9.
    const std::vector<float> values = {1 + 0x1p-11F, 1 + 0x1.8p-10F, -65519.0F};
    file.write_float16("/h", values, {3}, {"h"});
    const std::vector<float> too_big = {65520.0F};  // half way from 65504 to 65536, rounds up
    EXPECT_THAT(error_of<InputError>([&] { file.write_float16("/g", too_big, {1}, {"g"}); }), HasSubstr("65504"));
    file.commit();
  }
  EXPECT_THAT(InputFile(in_folder("h.h5")).read_floats("/h"), ElementsAre(1.0F, 1 + 0x1p-9F, -65504.0F));
}

TEST_F(Hdf5File, EveryVariableIsNamedForNetcdf) {
  write_sample(in_folder("a.h5"));
  const hid_t file = H5Fopen(in_folder("a.h5").c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  const hid_t run = H5Dopen2(file, "/run", H5P_DEFAULT);
  const hid_t loss = H5Dopen2(file, "/summary/loss", H5P_DEFAULT);
  const hid_t position = H5Dopen2(file, "/summary/position", H5P_DEFAULT);
  EXPECT_GT(H5DSis_scale(run), 0);
  EXPECT_GT(H5DSis_attached(loss, run, 0), 0);
  EXPECT_GT(H5DSis_attached(loss, position, 1), 0);
  double fill = 0;
  EXPECT_GE(H5LTget_attribute_double(file, "/summary/loss", "_FillValue", &fill), 0);
  EXPECT_TRUE(std::isnan(fill));
  for (const hid_t id : {run, loss, position}) H5Dclose(id);
  H5Fclose(file);
  const InputFile read(in_folder("a.h5"));
  EXPECT_EQ(read.string_attribute("/summary/position", "units"), "token");
  EXPECT_EQ(read.string_attribute("/summary/loss", "long_name"), "loss");
}

TEST_F(Hdf5File, EqualContentGivesEqualBytes) {
  write_sample(in_folder("a.h5"));
  write_sample(in_folder("b.h5"));
  EXPECT_EQ(bytes_of(in_folder("a.h5")), bytes_of(in_folder("b.h5")));
}

TEST_F(Hdf5File, LargeArraysAreCompressedAndUnchanged) {
  std::vector<double> values(300'000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i % 97);
  {
    OutputFile file(in_folder("large.h5"));
    file.dimension("/row", std::vector<std::int64_t>{0, 1, 2}, {"row"});
    std::vector<std::int64_t> columns(100'000);
    file.dimension("/column", columns, {"column"});
    file.write("/values", std::span<const double>(values), {"/row", "/column"}, {"values"});
    file.commit();
  }
  EXPECT_EQ(InputFile(in_folder("large.h5")).read_doubles("/values"), values);
  EXPECT_LT(std::filesystem::file_size(in_folder("large.h5")), 8 * values.size() / 4);
}

TEST_F(Hdf5File, UncommittedFileLeavesNothing) {
  {
    OutputFile file(in_folder("a.h5"));
    file.attribute("/", "title", std::string("lost"));
    EXPECT_FALSE(std::filesystem::exists(in_folder("a.h5")));
    EXPECT_EQ(num_files(), 1U);  // the partial file
  }
  EXPECT_EQ(num_files(), 0U);
}

TEST_F(Hdf5File, CommitReplacesTheOldFileAndLeavesNoPartialOne) {
  std::ofstream(in_folder("a.h5")) << "old";
  write_sample(in_folder("a.h5"));
  EXPECT_EQ(InputFile(in_folder("a.h5")).integer_attribute("/", "count"), 7);
  EXPECT_EQ(num_files(), 1U);
}

TEST_F(Hdf5File, UnwritablePlaceIsAnEnvironmentError) {
  EXPECT_THAT(error_of<EnvironmentError>([&] { OutputFile(in_folder("no/such/folder/a.h5")); }),
              HasSubstr("No such file or directory"));
  std::filesystem::create_directory(in_folder("taken.h5"));
  std::ofstream(in_folder("taken.h5") + "/x") << "x";
  EXPECT_THAT(error_of<EnvironmentError>([&] { write_sample(in_folder("taken.h5")); }),
              HasSubstr("cannot be put in place"));
  EXPECT_EQ(num_files(), 1U);
}

TEST_F(Hdf5File, FullDiskIsAnEnvironmentErrorAndNoFile) {
  // A file-size limit stands in for a full disk: write fails the same way. In a child, because the limit cannot be
  // lifted.
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1000, 1000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const std::string text = error_of<EnvironmentError>([&] { write_sample(in_folder("a.h5")); });
    ::_exit(text.find("File too large") != std::string::npos ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
  EXPECT_EQ(num_files(), 0U);
}

TEST_F(Hdf5File, MissingForeignAndTruncatedFilesAreInputErrors) {
  EXPECT_THAT(error_of<InputError>([&] { InputFile(in_folder("none.h5")); }), HasSubstr("No such file"));
  EXPECT_THAT(error_of<InputError>([&] { InputFile(folder_.string()); }), HasSubstr("folder"));
  std::ofstream(in_folder("text.h5")) << "not HDF5";
  EXPECT_THAT(error_of<InputError>([&] { InputFile(in_folder("text.h5")); }), HasSubstr("not a readable HDF5 file"));
  std::ofstream(in_folder("empty.h5"));
  EXPECT_THAT(error_of<InputError>([&] { InputFile(in_folder("empty.h5")); }), HasSubstr("(0 bytes)"));
  write_sample(in_folder("a.h5"));
  std::filesystem::resize_file(in_folder("a.h5"), std::filesystem::file_size(in_folder("a.h5")) - 1);
  EXPECT_THAT(error_of<InputError>([&] { InputFile(in_folder("a.h5")); }), HasSubstr("truncated file"));
}

TEST_F(Hdf5File, FileLockedByAWriterIsAnEnvironmentError) {
  write_sample(in_folder("a.h5"));
  const int descriptor = ::open(in_folder("a.h5").c_str(), O_RDWR);
  ASSERT_EQ(::flock(descriptor, LOCK_EX | LOCK_NB), 0);
  EXPECT_THAT(error_of<EnvironmentError>([&] { InputFile(in_folder("a.h5")); }), HasSubstr("HDF5_USE_FILE_LOCKING"));
  ::close(descriptor);
  EXPECT_EQ(InputFile(in_folder("a.h5")).integer_attribute("/", "count"), 7);
}

TEST_F(Hdf5File, WrongKindsNameTheObject) {
  write_sample(in_folder("a.h5"));
  const InputFile file(in_folder("a.h5"));
  EXPECT_THAT(error_of<InputError>([&] { (void)file.info("/none"); }), HasSubstr("a.h5: /none: not in the file"));
  EXPECT_THAT(error_of<InputError>([&] { (void)file.info("/summary"); }), HasSubstr("a dataset was expected"));
  EXPECT_THAT(error_of<InputError>([&] { (void)file.read_integers("/q"); }), HasSubstr("found float16"));
  EXPECT_THAT(error_of<InputError>([&] { (void)file.read_strings("/q"); }), HasSubstr("strings were expected"));
  EXPECT_THAT(error_of<InputError>([&] { (void)file.read_floats("/summary/label"); }), HasSubstr("found string"));
  EXPECT_THAT(error_of<InputError>([&] { (void)file.integer_attribute("/", "pair"); }), HasSubstr("/@pair: one value"));
  EXPECT_THAT(error_of<InputError>([&] { (void)file.integer_attribute("/", "scale"); }), HasSubstr("an integer"));
  EXPECT_THAT(error_of<InputError>([&] { (void)file.string_attribute("/", "count"); }), HasSubstr("a text"));
  EXPECT_THAT(error_of<InputError>([&] { (void)file.integer_attribute("/", "none"); }), HasSubstr("is missing"));
  EXPECT_FALSE(file.has_attribute("/none", "units"));
}

/// A dataset of the given size that was declared and never filled: a small file whatever it declares.
void declare(const std::string& path, hsize_t elements, hsize_t chunk) {
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const hid_t space = H5Screate_simple(1, &elements, nullptr);
  const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
  if (chunk > 0) {
    H5Pset_chunk(properties, 1, &chunk);
    H5Pset_deflate(properties, 1);
  }
  H5Dclose(H5Dcreate2(file, "x", H5T_IEEE_F32LE, space, H5P_DEFAULT, properties, H5P_DEFAULT));
  H5Pclose(properties);
  H5Sclose(space);
  H5Fclose(file);
}

TEST_F(Hdf5File, HugeDeclarationsAreRefusedBeforeAllocation) {
  declare(in_folder("a.h5"), 1ULL << 47, 1024);
  const InputFile huge(in_folder("a.h5"));
  EXPECT_EQ(huge.info("/x").num_elements(), 1ULL << 47);
  EXPECT_THAT(error_of<InputError>([&] { (void)huge.read_floats("/x"); }), HasSubstr("140737488355328 elements"));
  EXPECT_THAT(error_of<InputError>([&] { (void)huge.read_doubles("/x"); }), HasSubstr("140737488355328 elements"));
  // Even a small part is refused: what the file declares cannot be in it.
  const std::uint64_t start[] = {0};
  const std::uint64_t count[] = {8};
  EXPECT_THAT(error_of<InputError>([&] { (void)huge.read_floats("/x", start, count); }), HasSubstr("can hold"));
  declare(in_folder("c.h5"), 1ULL << 27, 1ULL << 27);  // one chunk of 512 MiB
  const InputFile chunk(in_folder("c.h5"));
  EXPECT_THAT(error_of<InputError>([&] { (void)chunk.read_floats("/x", start, count); }), HasSubstr("chunks of"));
}

// 2^26 + 1 numbers of 8 bytes are over 512 MiB, whatever they take in the file.
TEST_F(Hdf5File, MoreNumbersThanHalfAGibibyteAreRefused) {
  declare(in_folder("numbers.h5"), (1ULL << 26) + 1, 1ULL << 20);
  const InputFile file(in_folder("numbers.h5"));
  EXPECT_THAT(error_of<InputError>([&] { (void)file.read_doubles("/x"); }), HasSubstr("at most 67108864 are allowed"));
}

// 2^18 chunks are read as the zeros they stand for; 2^18 + 1 would need 2 MiB of index in a file of a few KiB.
TEST_F(Hdf5File, MoreChunksThanTheFileCanIndexAreRefused) {
  declare(in_folder("most.h5"), 1ULL << 19, 2);
  EXPECT_EQ(InputFile(in_folder("most.h5")).read_doubles("/x").size(), 1ULL << 19);
  declare(in_folder("more.h5"), (1ULL << 19) + 1, 2);
  const InputFile more(in_folder("more.h5"));
  EXPECT_THAT(error_of<InputError>([&] { (void)more.read_doubles("/x"); }), HasSubstr("declares 262145 chunks"));
}

TEST_F(Hdf5File, NumElementsSaturates) {
  EXPECT_EQ((DatasetInfo{ElementType::float32, {1ULL << 40, 1ULL << 40}}.num_elements()),
            std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ((DatasetInfo{ElementType::float32, {1ULL << 40, 1ULL << 40, 0}}.num_elements()), 0U);
  EXPECT_EQ((DatasetInfo{ElementType::float32, {}}.num_elements()), 1U);
}

TEST_F(Hdf5File, ErrorsStayQuietInEveryThread) {
  testing::internal::CaptureStderr();
  std::thread([&] { (void)error_of<InputError>([&] { InputFile(in_folder("none.h5")); }); }).join();
  std::ofstream(in_folder("text.h5")) << "not HDF5";
  std::thread([&] { (void)error_of<InputError>([&] { InputFile(in_folder("text.h5")); }); }).join();
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST_F(Hdf5File, ErrorInAThreadThatEndsLeavesTheLibraryQuietAtExit) {
  std::ofstream(in_folder("text.h5")) << "not HDF5";
  const auto fail_in_thread_and_exit = [&] {
    std::thread([&] { (void)error_of<InputError>([&] { InputFile(in_folder("text.h5")); }); }).join();
    std::exit(0);
  };
  EXPECT_EXIT(fail_in_thread_and_exit(), testing::ExitedWithCode(0), testing::Not(HasSubstr("HDF5")));
}

}  // namespace
}  // namespace kvtide::hdf5
