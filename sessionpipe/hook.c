/* What an agent runs at each of its hooks, where this could be compiled: hook.py without an interpreter.
 *
 *     hook PYTHON HOOK.PY HARNESS EVENT [ARGS]
 *
 * Reads standard input to its end, writes one job file, wakes or starts the worker, exits 0. It does what
 * hook.py does, in its order and with its names, and hook.py says why; only what C adds is explained here.
 * FORWARDED and NAMELESS are hook.py's tables, put before this text when it is compiled: strings, a comma
 * after each. What a harness must be answered is the launcher's to print. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static const char *const forwarded[] = {FORWARDED NULL};
static const char *const nameless[] = {NAMELESS NULL};
static const char *const spool[] = {"/spool", "/spool/tmp", "/spool/new", NULL};

enum { PAYLOAD_LIMIT = 32 << 20, CHUNK = 64 << 10, STDIN_SECONDS = 2 };

/* Nothing a hook could do about any trouble, and nothing it may say. */
static _Noreturn void leave(void) { _exit(0); }

/* Bytes that grow; the process is too short for anything to be freed. */
struct bytes {
    char *at;
    size_t size, room;
};

static void reserve(struct bytes *to, size_t more) {
    if (to->room - to->size >= more) return;
    size_t room = to->room * 2 > to->size + more ? to->room * 2 : to->size + more;
    to->at = realloc(to->at, room);
    if (!to->at) leave();
    to->room = room;
}

static void add(struct bytes *to, const char *from, size_t size) {
    reserve(to, size);
    memcpy(to->at + to->size, from, size);
    to->size += size;
}

/* One record: key, value and the NUL that ends it. */
static void record(struct bytes *to, const char *key, const char *value) {
    add(to, key, strlen(key));
    add(to, value, strlen(value) + 1);
}

static char *joined(const char *one, const char *two, const char *three) {
    size_t size = strlen(one) + strlen(two) + strlen(three) + 1;
    char *whole = malloc(size);
    if (!whole) leave();
    snprintf(whole, size, "%s%s%s", one, two, three);
    return whole;
}

static char *working_directory(void) {
    char *cwd = getcwd(NULL, 0);
    /* The kernel says "(unreachable)/..." of a folder outside the root, which is no path. */
    return cwd && cwd[0] == '/' ? cwd : NULL;
}

static char *absolute(const char *path) {
    if (path[0] == '/') return joined(path, "", "");
    char *cwd = working_directory();
    if (!cwd) leave();
    return joined(cwd, "/", path);
}

/* ---- standard input ---- */

static volatile sig_atomic_t late;

static void on_alarm(int signal) {
    (void)signal;
    late = 1;
}

/* True when standard input was longer than the limit. */
static int read_stdin(struct bytes *payload) {
    static char chunk[CHUNK];
    if (isatty(0)) return 0;
    /* Without SA_RESTART: a read that waits ends. The alarm comes again, so that one which falls between
     * the look at `late` and the read is not waited on for ever. */
    struct sigaction action = {.sa_handler = on_alarm};
    sigset_t alarm;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    sigaction(SIGALRM, &action, NULL);
    sigprocmask(SIG_UNBLOCK, &alarm, NULL);
    struct itimerval timer = {{0, 10000}, {STDIN_SECONDS, 0}};
    setitimer(ITIMER_REAL, &timer, NULL);
    size_t size = 0;
    while (!late) {
        ssize_t got = read(0, chunk, sizeof chunk);
        if (got > 0) {
            size_t keep = size >= PAYLOAD_LIMIT ? 0 : PAYLOAD_LIMIT - size;
            if (keep > (size_t)got) keep = (size_t)got;
            if (keep) add(payload, chunk, keep);
            size += (size_t)got;
        } else if (got == 0) {
            break;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            nanosleep(&(struct timespec){0, 2000000}, NULL);
        } else if (errno != EINTR) {
            break;
        }
    }
    /* An interval timer survives exec, and the worker has no handler for it. */
    timer = (struct itimerval){{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &timer, NULL);
    return size > PAYLOAD_LIMIT;
}

/* ---- the process that runs hooks ---- */

static int contents(const char *path, char *to, size_t size) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    ssize_t got = read(fd, to, size - 1);
    close(fd);
    if (got < 0) return 0;
    to[got] = 0;
    return 1;
}

/* Field 22 of /proc/PID/stat, the program's name second; -1 where nothing tells. */
static long long started(const char *pid) {
    char text[4096];
    if (!contents(joined("/proc/", pid, "/stat"), text, sizeof text)) return -1;
    char *at = strrchr(text, ')');
    for (int field = 0; at && field < 20; field++) at = strchr(at + 1, ' ');
    return at ? strtoll(at, NULL, 10) : -1;
}

static char *process(const char *pid) {
    char boot[128], text[64];
    long long start = started(pid), now = started("self");
    if (start < 0 || now < 0 || now - start < 5) return "";
    if (!contents("/proc/sys/kernel/random/boot_id", boot, sizeof boot)) return "";
    boot[strcspn(boot, "\n")] = 0;
    snprintf(text, sizeof text, ".%lld", start);
    return joined(boot, joined(".", pid, ""), text);
}

/* ---- the job ---- */

static int make_directories(const char *state) {
    char *path = joined(state, "/", "");
    for (char *at = strchr(path, '/'); at; at = strchr(at + 1, '/')) {
        char after = at[1];
        at[1] = 0;
        mkdir(path, 0700);
        at[1] = after;
    }
    for (const char *const *folder = spool; *folder; folder++) {
        struct stat info;
        char *name = joined(state, *folder, "");
        if (!lstat(name, &info) && !S_ISDIR(info.st_mode)) {
            struct timespec now;
            char aside[64];
            clock_gettime(CLOCK_REALTIME, &now);
            snprintf(aside, sizeof aside, ".aside-%lld", now.tv_sec * 1000000000LL + now.tv_nsec);
            if (rename(name, joined(name, aside, "")) && errno != ENOENT) return 0;
        }
        if (mkdir(name, 0700) && errno != EEXIST) return 0;
    }
    return 1;
}

static int spool_stands(const char *state) {
    for (const char *const *folder = spool; *folder; folder++) {
        struct stat info;
        if (lstat(joined(state, *folder, ""), &info)) {
            if (errno != ENOENT && errno != ENOTDIR) leave();
            return 0;
        }
        if (!S_ISDIR(info.st_mode)) return 0;
    }
    return 1;
}

static int write_whole(int fd, const struct bytes *part) {
    for (size_t done = 0; done < part->size;) {
        ssize_t wrote = write(fd, part->at + done, part->size - done);
        if (wrote > 0) done += (size_t)wrote;
        else if (wrote == 0 || errno != EINTR) return 0;
    }
    return 1;
}

static int write_job(const char *state, const char *name, const struct bytes *header,
                     const struct bytes *payload) {
    char *temporary = joined(state, "/spool/tmp/", name), *final = joined(state, "/spool/new/", name);
    int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, fd = -1;
    if (spool_stands(state)) {
        fd = open(temporary, flags, 0600);
        if (fd < 0 && errno != ENOENT && errno != ENOTDIR) return 0;
    }
    if (fd < 0) {
        if (!make_directories(state)) return 0;
        fd = open(temporary, flags, 0600);
        if (fd < 0) return 0;
    }
    int fine = write_whole(fd, header) && write_whole(fd, payload);
    /* Some file systems say only here that the disk is full. */
    fine = close(fd) == 0 && fine;
    if (fine && rename(temporary, final)) {
        /* One of the two folders is missing: somebody is just removing the state directory, or did. */
        fine = errno == ENOENT && make_directories(state) && rename(temporary, final) == 0;
    }
    if (!fine) unlink(temporary);
    return fine;
}

/* ---- the worker ---- */

/* The worker's environment: this one, both directories as it must have them. */
static char **workers_environment(const char *state) {
    size_t count = 0, at = 0;
    while (environ[count]) count++;
    char **all = calloc(count + 2, sizeof *all);
    if (!all) leave();
    for (size_t i = 0; i < count; i++) {
        if (strncmp(environ[i], "SESSIONPIPE_STATE_DIR=", 22) == 0) continue;
        if (strncmp(environ[i], "SESSIONPIPE_CONFIG_DIR=", 23) == 0 && environ[i][23])
            all[at++] = joined("SESSIONPIPE_CONFIG_DIR=", absolute(environ[i] + 23), "");
        else
            all[at++] = environ[i];
    }
    all[at] = joined("SESSIONPIPE_STATE_DIR=", state, "");
    return all;
}

static void start_worker(const char *python, const char *hook, const char *state) {
    char *slash = strrchr(hook, '/');
    char *package = slash ? strndup(hook, (size_t)(slash - hook)) : ".";
    if (!package) leave();
    char *command[] = {(char *)python, "-I", joined(package, "/__main__.py", ""), "worker", NULL};
    char **given = workers_environment(state);
    posix_spawn_file_actions_t null;
    posix_spawnattr_t how;
    /* As hook.py does, and not by fork: when this process has ended the worker is in a session of its own, out
     * of reach of an agent that then kills its hook's process group. */
    if (chdir("/") || posix_spawn_file_actions_init(&null) || posix_spawnattr_init(&how)) return;
    if (posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSID)) return;
    for (int standard = 0; standard < 3; standard++)
        if (posix_spawn_file_actions_addopen(&null, standard, "/dev/null", O_RDWR, 0)) return;
    posix_spawn(NULL, python, &null, &how, command, given);
}

static void close_from_3(void) {
#ifdef SYS_close_range
    if (syscall(SYS_close_range, 3, ~0U, 0) == 0) return;
#endif
    for (int fd = 3; fd < 4096; fd++) close(fd);
}

static void wake(const char *python, const char *hook, const char *state) {
    char *fifo = joined(state, "/worker.fifo", "");
    int flags = O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC;
    int fd = open(fifo, O_WRONLY | flags);
    struct stat info;
    if (fd >= 0 && !fstat(fd, &info) && S_ISFIFO(info.st_mode)) {
        if (write(fd, "j", 1) == 1 || errno == EAGAIN) return;
    }
    /* The worker must hold nothing of the agent's: a pipe kept open would keep the agent waiting. */
    close_from_3();
    int reading = open(fifo, O_RDONLY | flags);
    if (reading < 0 && errno == ENOENT && !mkfifo(fifo, 0600)) reading = open(fifo, O_RDONLY | flags);
    if (reading == 3) fcntl(3, F_SETFD, 0);
    else if (reading >= 0) dup2(reading, 3);
    start_worker(python, hook, state);
}

int main(int argc, char **argv) {
    /* Taken first: jobs are recorded in the order their hooks started, not the order they were read. */
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    long long stamp = now.tv_sec * 1000000000LL + now.tv_nsec;
    umask(077);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    const char *state = getenv("SESSIONPIPE_STATE_DIR"), *harness = argc > 3 ? argv[3] : "";
    if (argc < 3 || !state || !*state) leave();
    struct bytes header = {0}, payload = {0};
    char text[64], ppid[32];
    /* The launcher stands between the agent and this process, and says who its own parent is. */
    const char *parent = getenv("SESSIONPIPE_PPID");
    snprintf(ppid, sizeof ppid, "%ld", (long)getppid());
    if (!parent || !*parent) parent = ppid;
    for (const char *const *name = nameless; *name; name++)
        if (strcmp(*name, harness) == 0) setenv("SESSIONPIPE_PROCESS", process(parent), 1);
    int partial = read_stdin(&payload);
    state = absolute(state);
    char *cwd = working_directory();
    record(&header, "v=", "1");
    record(&header, "harness=", harness);
    record(&header, "event=", argc > 4 ? argv[4] : "");
    snprintf(text, sizeof text, "%lld", stamp / 1000000);
    record(&header, "at_ms=", text);
    record(&header, "cwd=", cwd ? cwd : "");
    record(&header, "ppid=", parent);
    for (int i = 5; i < argc; i++) record(&header, "arg=", argv[i]);
    if (partial) record(&header, "partial=", "1");
    for (const char *const *name = forwarded; *name; name++) {
        const char *value = getenv(*name);
        if (value) record(&header, joined("env.", *name, "="), value);
    }
    add(&header, "", 1);
    unsigned char random[4];
    if (getrandom(random, sizeof random, GRND_NONBLOCK) != sizeof random) {
        uint32_t other = (uint32_t)stamp;
        memcpy(random, &other, sizeof random);
    }
    char name[80];
    snprintf(name, sizeof name, "%020lld-%ld-%02x%02x%02x%02x.job", stamp, (long)getpid(), random[0],
             random[1], random[2], random[3]);
    if (write_job(state, name, &header, &payload) && !getenv("SESSIONPIPE_NO_WORKER"))
        wake(argv[1], argv[2], state);
    leave();
}
