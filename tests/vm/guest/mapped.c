/* What the Rust standard library has no functions for: `mapped DIR` maps files to memory, and seeks in a directory that
 * changes. tcc compiles it in the guest, on the file system that it tests. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 16, SIZE = PAGE * PAGES, NAMES = 50 };

static void ensure(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "mapped: %s (%s)\n", what, strerror(errno));
        exit(1);
    }
}

static char *map(int fd, int flags)
{
    char *bytes = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, flags, fd, 0);
    ensure(bytes != MAP_FAILED, "mmap");
    return bytes;
}

/* Bytes that are written one way are read the other way. */
static void mapping_and_calls(void)
{
    char bytes[PAGE], *shared, *private;
    int fd = open("mapped", O_RDWR | O_CREAT | O_EXCL, 0644);
    ensure(fd >= 0 && ftruncate(fd, SIZE) == 0, "open");
    shared = map(fd, MAP_SHARED);
    private = map(fd, MAP_PRIVATE);
    for (int page = 0; page < PAGES; page++) {
        memset(shared + page * PAGE, 'a' + page, PAGE);
        ensure(msync(shared + page * PAGE, PAGE, MS_SYNC) == 0, "msync");
        ensure(pread(fd, bytes, PAGE, page * PAGE) == PAGE, "pread");
        ensure(memcmp(bytes, shared + page * PAGE, PAGE) == 0, "pread has other bytes than the mapping");
        memset(bytes, 'A' + page, PAGE);
        ensure(pwrite(fd, bytes, PAGE, page * PAGE) == PAGE, "pwrite");
        ensure(memcmp(bytes, shared + page * PAGE, PAGE) == 0, "the mapping has other bytes than pwrite");
    }
    private[0] = '?';
    ensure(pread(fd, bytes, 1, 0) == 1 && bytes[0] == 'A', "a private mapping is written");
    ensure(munmap(private, SIZE) == 0 && munmap(shared, SIZE) == 0 && close(fd) == 0, "close");
}

/* A mapping outlives its descriptor and the file's name, and processes share it. */
static void mapping_between_processes(void)
{
    int status, fd = open("mapped", O_RDWR);
    char *shared = map(fd, MAP_SHARED);
    ensure(close(fd) == 0 && unlink("mapped") == 0, "unlink");
    if (fork() == 0) {
        for (int at = 0; at < SIZE; at += 7)
            shared[at] = '7';
        _exit(msync(shared, SIZE, MS_SYNC) != 0);
    }
    ensure(wait(&status) > 0 && status == 0, "the child fails");
    for (int at = 0; at < SIZE; at++)
        ensure(shared[at] == (at % 7 ? 'A' + at / PAGE : '7'), "the parent sees other bytes");
    ensure(munmap(shared, SIZE) == 0, "munmap");
}

static void name(char *to, int number) { sprintf(to, "entry-%03d", number); }

/* Each name that telldir was asked for is found again by seekdir, forwards and backwards. */
static void seeking(void)
{
    char path[32], found[NAMES + 2][32];
    long positions[NAMES + 2];
    struct dirent *entry;
    int count = 0;
    DIR *dir;
    for (int number = 0; number < NAMES; number++) {
        name(path, number);
        ensure(close(open(path, O_CREAT | O_EXCL, 0644)) == 0, "open");
    }
    dir = opendir(".");
    ensure(dir != NULL, "opendir");
    for (;;) {
        long position = telldir(dir);
        entry = readdir(dir);
        if (entry == NULL)
            break;
        ensure(count < NAMES + 2, "too many entries");
        positions[count] = position;
        strcpy(found[count++], entry->d_name);
    }
    ensure(count == NAMES + 2, "entries are missing");
    for (int turn = 0; turn < count; turn++) {
        int at = turn % 2 ? count - 1 - turn : turn;
        seekdir(dir, positions[at]);
        entry = readdir(dir);
        ensure(entry != NULL && strcmp(entry->d_name, found[at]) == 0, "seekdir leads to another entry");
    }
    for (int number = 0; number < NAMES; number++) {
        name(path, number);
        ensure(unlink(path) == 0, "unlink");
    }
    rewinddir(dir);
    for (count = 0; readdir(dir) != NULL; count++)
        ;
    ensure(count == 2 && closedir(dir) == 0, "names are left");
}

int main(int argc, char **argv)
{
    ensure(argc == 2 && chdir(argv[1]) == 0, "chdir");
    mapping_and_calls();
    mapping_between_processes();
    seeking();
    return 0;
}
