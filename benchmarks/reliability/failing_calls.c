/* Let the n-th system call of a kind fail, for files below one folder.
 *
 * Preloaded (LD_PRELOAD), it stands between libc and everything that uses it: Python, SQLite and
 * tantivy alike. A process counts its calls from `failing_calls_arm` on. Reads through mapped
 * memory pass it by; mapping itself can fail.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { OPEN, READ, WRITE, SYNC, RENAME, TRUNCATE, REMOVE, MAKE, MAP, KINDS };
enum { ONCE, EVER, SHORT };

static char folder[PATH_MAX];
static size_t folder_length;
static atomic_int armed_kind = -1, armed_error, armed_mode;
static atomic_long armed_at;
static atomic_long counts[KINDS];
static atomic_long struck;

void failing_calls_arm(const char *below, int kind, long at, int error, int mode) {
    snprintf(folder, sizeof folder, "%s", below);
    folder_length = strlen(folder);
    for (int each = 0; each < KINDS; each++) atomic_store(&counts[each], 0);
    atomic_store(&struck, 0);
    atomic_store(&armed_at, at);
    atomic_store(&armed_error, error);
    atomic_store(&armed_mode, mode);
    atomic_store(&armed_kind, kind);
}

void failing_calls_disarm(void) { folder_length = 0; }
long failing_calls_count(int kind) { return atomic_load(&counts[kind]); }
long failing_calls_struck(void) { return atomic_load(&struck); }

static int is_below(const char *path) {
    return folder_length && path && strncmp(path, folder, folder_length) == 0;
}

static int is_below_at(int directory, const char *path) {
    char link[40], base[PATH_MAX];
    if (!folder_length || !path) return 0;
    if (path[0] == '/' || directory == AT_FDCWD) return is_below(path);
    snprintf(link, sizeof link, "/proc/self/fd/%d", directory);
    ssize_t length = readlink(link, base, sizeof base - 1);
    if (length < 0) return 0;
    base[length] = 0;
    return is_below(base);
}

static int holds(int descriptor) {
    char link[40], path[PATH_MAX];
    if (!folder_length) return 0;
    int before = errno;
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, sizeof path - 1);
    errno = before;
    if (length < 0) return 0;
    path[length] = 0;
    return is_below(path);
}

/* 0: go on; 1: fail with errno set; 2: do half of it. */
static int strikes(int kind) {
    long now = atomic_fetch_add(&counts[kind], 1) + 1;
    if (kind != atomic_load(&armed_kind)) return 0;
    int mode = atomic_load(&armed_mode);
    long at = atomic_load(&armed_at);
    if (now < at || (mode == ONCE && now > at)) return 0;
    atomic_fetch_add(&struck, 1);
    if (mode == SHORT && now == at) return 2;
    errno = atomic_load(&armed_error);
    return 1;
}

#define REAL(type, name, ...) \
    static type (*real)(__VA_ARGS__); \
    if (!real) real = dlsym(RTLD_NEXT, #name)

/* Whoever may open no more files cannot open any other either. */
static int is_spent(const char *path) {
    if (atomic_load(&armed_error) != EMFILE || !atomic_load(&struck) || !folder_length) return 0;
    if (!path || strcmp(path, "/dev/null")) return 0;
    errno = EMFILE;
    return 1;
}

#define OPENING(name) \
    int name(const char *path, int flags, ...) { \
        REAL(int, name, const char *, int, ...); \
        va_list given; va_start(given, flags); int mode = va_arg(given, int); va_end(given); \
        if (is_spent(path) || (is_below(path) && strikes(OPEN))) return -1; \
        return real(path, flags, mode); }
OPENING(open)
OPENING(open64)

#define OPENING_AT(name) \
    int name(int directory, const char *path, int flags, ...) { \
        REAL(int, name, int, const char *, int, ...); \
        va_list given; va_start(given, flags); int mode = va_arg(given, int); va_end(given); \
        if (is_below_at(directory, path) && strikes(OPEN)) return -1; \
        return real(directory, path, flags, mode); }
OPENING_AT(openat)
OPENING_AT(openat64)

#define OPENING_STREAM(name) \
    FILE *name(const char *path, const char *how) { \
        REAL(FILE *, name, const char *, const char *); \
        if (is_below(path) && strikes(OPEN)) return NULL; \
        return real(path, how); }
OPENING_STREAM(fopen)
OPENING_STREAM(fopen64)

#define MOVING(name, kind, buffer) \
    ssize_t name(int descriptor, buffer data, size_t size) { \
        REAL(ssize_t, name, int, buffer, size_t); \
        if (!holds(descriptor)) return real(descriptor, data, size); \
        int how = strikes(kind); \
        if (how == 1) return -1; \
        return real(descriptor, data, how == 2 && size > 1 ? size / 2 : size); }
MOVING(read, READ, void *)
MOVING(write, WRITE, const void *)

#define MOVING_AT(name, kind, buffer, place) \
    ssize_t name(int descriptor, buffer data, size_t size, place at) { \
        REAL(ssize_t, name, int, buffer, size_t, place); \
        if (!holds(descriptor)) return real(descriptor, data, size, at); \
        int how = strikes(kind); \
        if (how == 1) return -1; \
        return real(descriptor, data, how == 2 && size > 1 ? size / 2 : size, at); }
MOVING_AT(pread, READ, void *, off_t)
MOVING_AT(pread64, READ, void *, off64_t)
MOVING_AT(pwrite, WRITE, const void *, off_t)
MOVING_AT(pwrite64, WRITE, const void *, off64_t)

#define MOVING_MANY(name, kind) \
    ssize_t name(int descriptor, const struct iovec *parts, int count) { \
        REAL(ssize_t, name, int, const struct iovec *, int); \
        if (!holds(descriptor)) return real(descriptor, parts, count); \
        int how = strikes(kind); \
        if (how == 1) return -1; \
        return real(descriptor, parts, how == 2 ? 1 : count); }
MOVING_MANY(readv, READ)
MOVING_MANY(writev, WRITE)

#define SYNCING(name) \
    int name(int descriptor) { \
        REAL(int, name, int); \
        if (holds(descriptor) && strikes(SYNC)) return -1; \
        return real(descriptor); }
SYNCING(fsync)
SYNCING(fdatasync)

#define CUTTING(name, place) \
    int name(int descriptor, place size) { \
        REAL(int, name, int, place); \
        if (holds(descriptor) && strikes(TRUNCATE)) return -1; \
        return real(descriptor, size); }
CUTTING(ftruncate, off_t)
CUTTING(ftruncate64, off64_t)

#define RENAMING(name, formal, actual, path) \
    int name formal { \
        static int (*real) formal; \
        if (!real) real = dlsym(RTLD_NEXT, #name); \
        if (is_below(path) && strikes(RENAME)) return -1; \
        return real actual; }
RENAMING(rename, (const char *from, const char *to), (from, to), to)
RENAMING(renameat, (int a, const char *from, int b, const char *to), (a, from, b, to), to)
RENAMING(renameat2, (int a, const char *from, int b, const char *to, unsigned flags),
         (a, from, b, to, flags), to)
RENAMING(link, (const char *from, const char *to), (from, to), to)

#define NAMING(name, kind, formal, actual, below) \
    int name formal { \
        static int (*real) formal; \
        if (!real) real = dlsym(RTLD_NEXT, #name); \
        if (below && strikes(kind)) return -1; \
        return real actual; }
NAMING(unlink, REMOVE, (const char *path), (path), is_below(path))
NAMING(rmdir, REMOVE, (const char *path), (path), is_below(path))
NAMING(unlinkat, REMOVE, (int at, const char *path, int flags), (at, path, flags),
       is_below_at(at, path))
NAMING(mkdir, MAKE, (const char *path, mode_t mode), (path, mode), is_below(path))
NAMING(mkdirat, MAKE, (int at, const char *path, mode_t mode), (at, path, mode),
       is_below_at(at, path))

#define MAPPING(name, place) \
    void *name(void *address, size_t size, int rights, int flags, int descriptor, place at) { \
        REAL(void *, name, void *, size_t, int, int, int, place); \
        if (descriptor >= 0 && holds(descriptor) && strikes(MAP)) return MAP_FAILED; \
        return real(address, size, rights, flags, descriptor, at); }
MAPPING(mmap, off_t)
MAPPING(mmap64, off64_t)
