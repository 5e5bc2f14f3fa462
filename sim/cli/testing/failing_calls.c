/* Preloaded into a program under test: makes one chosen file operation fail, as a full disk, a broken one or a signal would.
 *
 *   KVTIDE_FAULT=NAME:N:KIND   the N-th call (from 1) of NAME ends as KIND says; NAME is one of
 *                              open write read fsync rename close mkdir unlink
 *       KIND  ENOSPC EIO EACCES EROFS   this call and all further ones of that name
 *             EIO1                      this call alone
 *             EINTR                     this call alone, before anything was done
 *             short                     this call alone: half of the bytes (write, read)
 *             vanish                    before this call, the folder itself is renamed to FOLDER.vanished
 *   KVTIDE_FAULT_UNDER=FOLDER  only calls on files below it count (an absolute path without links)
 *   KVTIDE_FAULT_LOG=FILE      where each process appends a line "NAME count" at its end
 *
 * Calls of all processes that inherit the environment are counted by each for itself. pread, readv and such count as read,
 * pwrite, writev and such as write; creat, openat and fopen as open.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { OPEN, WRITE, READ, FSYNC, RENAME, CLOSE, MKDIR, UNLINK, NUM_NAMES };
static const char* const kNames[NUM_NAMES] = {"open", "write", "read", "fsync", "rename", "close", "mkdir", "unlink"};
enum kind { NOTHING, ALWAYS, ONCE, SHORT, VANISH };

static long counts[NUM_NAMES];
static char under[4096];
static size_t under_length;
static int fault_name = -1;
static long fault_number;
static enum kind fault_kind;
static int fault_errno;

static void* real(const char* name) { return dlsym(RTLD_NEXT, name); }

__attribute__((constructor)) static void read_environment(void) {
  const char* folder = getenv("KVTIDE_FAULT_UNDER");
  if (folder != NULL && strlen(folder) + 1 < sizeof under) strcpy(under, folder);
  under_length = strlen(under);
  char text[64];
  const char* fault = getenv("KVTIDE_FAULT");
  if (fault == NULL || strlen(fault) >= sizeof text) return;
  strcpy(text, fault);
  char* name = strtok(text, ":");
  char* number = strtok(NULL, ":");
  char* kind = strtok(NULL, ":");
  if (kind == NULL) return;
  for (int i = 0; i < NUM_NAMES; ++i)
    if (strcmp(name, kNames[i]) == 0) fault_name = i;
  fault_number = atol(number);
  const struct {
    const char* text;
    enum kind kind;
    int error;
  } kinds[] = {{"ENOSPC", ALWAYS, ENOSPC}, {"EIO", ALWAYS, EIO},   {"EACCES", ALWAYS, EACCES}, {"EROFS", ALWAYS, EROFS},
               {"EIO1", ONCE, EIO},        {"EINTR", ONCE, EINTR}, {"short", SHORT, 0},        {"vanish", VANISH, 0}};
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; ++i) {
    if (strcmp(kind, kinds[i].text) != 0) continue;
    fault_kind = kinds[i].kind;
    fault_errno = kinds[i].error;
  }
}

__attribute__((destructor)) static void log_counts(void) {
  const char* path = getenv("KVTIDE_FAULT_LOG");
  if (path == NULL) return;
  const int log = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND, 0666);
  if (log < 0) return;
  for (int i = 0; i < NUM_NAMES; ++i) {
    char line[64];
    const int length = snprintf(line, sizeof line, "%s %ld\n", kNames[i], counts[i]);
    if (syscall(SYS_write, log, line, (size_t)length) < 0) break;
  }
  syscall(SYS_close, log);
}

static int is_under(const char* path) {
  return under_length > 0 && path != NULL && strncmp(path, under, under_length) == 0 &&
         (path[under_length] == '/' || path[under_length] == '\0');
}

static int is_descriptor_under(int descriptor) {
  char link[64];
  char path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  const long length = syscall(SYS_readlink, link, path, sizeof path - 1);
  if (length <= 0) return 0;
  path[length] = '\0';
  return is_under(path);
}

static int is_path_under(const char* path) {
  if (path == NULL) return 0;
  if (path[0] == '/') return is_under(path);
  char absolute[8192];
  if (getcwd(absolute, 4096) == NULL) return 0;
  strcat(absolute, "/");
  strncat(absolute, path, 4000);
  return is_under(absolute);
}

/* Counts a call. @return 0: go on; -1: fails with errno set; 1: do half. */
static int verdict(int name) {
  const long number = __sync_add_and_fetch(&counts[name], 1);
  if (name != fault_name || number < fault_number || fault_kind == NOTHING) return 0;
  if (fault_kind != ALWAYS && number != fault_number) return 0;
  if (fault_kind == SHORT) return 1;
  if (fault_kind == VANISH) {
    char away[4200];
    snprintf(away, sizeof away, "%s.vanished", under);
    syscall(SYS_renameat, AT_FDCWD, under, AT_FDCWD, away);
    return 0;
  }
  errno = fault_errno;
  return -1;
}

#define MODE_OF_OPEN(flags)                                \
  mode_t mode = 0;                                         \
  if (((flags) & O_CREAT) != 0 || ((flags) & O_TMPFILE) == O_TMPFILE) { \
    va_list arguments;                                     \
    va_start(arguments, flags);                            \
    mode = va_arg(arguments, mode_t);                      \
    va_end(arguments);                                     \
  }

#define OPEN_LIKE(function)                                              \
  int function(const char* path, int flags, ...) {                       \
    MODE_OF_OPEN(flags)                                                  \
    if (is_path_under(path) && verdict(OPEN) < 0) return -1;             \
    return ((int (*)(const char*, int, ...))real(#function))(path, flags, mode); \
  }
OPEN_LIKE(open)
OPEN_LIKE(open64)

#define OPENAT_LIKE(function)                                            \
  int function(int folder, const char* path, int flags, ...) {           \
    MODE_OF_OPEN(flags)                                                  \
    if (is_path_under(path) && verdict(OPEN) < 0) return -1;             \
    return ((int (*)(int, const char*, int, ...))real(#function))(folder, path, flags, mode); \
  }
OPENAT_LIKE(openat)
OPENAT_LIKE(openat64)

#define FOPEN_LIKE(function)                                             \
  FILE* function(const char* path, const char* how) {                    \
    if (is_path_under(path) && verdict(OPEN) < 0) return NULL;           \
    return ((FILE * (*)(const char*, const char*)) real(#function))(path, how); \
  }
FOPEN_LIKE(fopen)
FOPEN_LIKE(fopen64)

#define TRANSFER(function, name, pointer)                                \
  ssize_t function(int descriptor, pointer bytes, size_t size) {         \
    if (is_descriptor_under(descriptor)) {                               \
      const int judged = verdict(name);                                  \
      if (judged < 0) return -1;                                         \
      if (judged > 0 && size > 1) size /= 2;                             \
    }                                                                    \
    return ((ssize_t(*)(int, pointer, size_t))real(#function))(descriptor, bytes, size); \
  }
TRANSFER(write, WRITE, const void*)
TRANSFER(read, READ, void*)

#define TRANSFER_AT(function, name, pointer)                             \
  ssize_t function(int descriptor, pointer bytes, size_t size, off_t at) { \
    if (is_descriptor_under(descriptor)) {                               \
      const int judged = verdict(name);                                  \
      if (judged < 0) return -1;                                         \
      if (judged > 0 && size > 1) size /= 2;                             \
    }                                                                    \
    return ((ssize_t(*)(int, pointer, size_t, off_t))real(#function))(descriptor, bytes, size, at); \
  }
TRANSFER_AT(pwrite, WRITE, const void*)
TRANSFER_AT(pwrite64, WRITE, const void*)
TRANSFER_AT(pread, READ, void*)
TRANSFER_AT(pread64, READ, void*)

#define TRANSFER_VECTOR(function, name)                                  \
  ssize_t function(int descriptor, const struct iovec* parts, int count) { \
    if (is_descriptor_under(descriptor)) {                               \
      const int judged = verdict(name);                                  \
      if (judged < 0) return -1;                                         \
      if (judged > 0) {                                                  \
        struct iovec half = parts[0];                                    \
        if (half.iov_len > 1) half.iov_len /= 2;                         \
        return ((ssize_t(*)(int, const struct iovec*, int))real(#function))(descriptor, &half, 1); \
      }                                                                  \
    }                                                                    \
    return ((ssize_t(*)(int, const struct iovec*, int))real(#function))(descriptor, parts, count); \
  }
TRANSFER_VECTOR(writev, WRITE)
TRANSFER_VECTOR(readv, READ)

/* close() reports what could not be written after all: of a file only read it tells nothing. */
static int counts_on(int descriptor, int name) {
  if (!is_descriptor_under(descriptor)) return 0;
  return name != CLOSE || (fcntl(descriptor, F_GETFL) & O_ACCMODE) != O_RDONLY;
}

#define ON_DESCRIPTOR(function, name)                                    \
  int function(int descriptor) {                                         \
    if (counts_on(descriptor, name) && verdict(name) < 0) {              \
      const int error = errno;                                           \
      if (name == CLOSE) syscall(SYS_close, descriptor);                 \
      errno = error;                                                     \
      return -1;                                                         \
    }                                                                    \
    return ((int (*)(int))real(#function))(descriptor);                  \
  }
ON_DESCRIPTOR(fsync, FSYNC)
ON_DESCRIPTOR(fdatasync, FSYNC)
ON_DESCRIPTOR(close, CLOSE)

int rename(const char* from, const char* to) {
  if (is_path_under(to) && verdict(RENAME) < 0) return -1;
  return ((int (*)(const char*, const char*))real("rename"))(from, to);
}

int mkdir(const char* path, mode_t mode) {
  if (is_path_under(path) && verdict(MKDIR) < 0) return -1;
  return ((int (*)(const char*, mode_t))real("mkdir"))(path, mode);
}

int unlink(const char* path) {
  if (is_path_under(path) && verdict(UNLINK) < 0) return -1;
  return ((int (*)(const char*))real("unlink"))(path);
}
