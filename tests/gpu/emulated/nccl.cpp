/* SPDX-License-Identifier: Apache-2.0
 *
 * A stand-in of NCCL between processes of this machine: the functions that
 * kernels/cuda/group_library.h names. An id is the name of a file that all ranks map: who has come,
 * how many sums each has begun and read, and what it adds. All add in the order of ranks.
 *
 * A group takes nothing more while something is in progress, and a sum comes into its stream by a
 * thread of the library's: here, when somebody asks how it is. What is recorded in that stream
 * before it is told to be there stands in front of the sum. */
#include <nccl.h>           /* before names of kernels are macros */

#include "runtime.h"

#include <atomic>
#include <cstdlib>
#include <fcntl.h>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

#define RANKS_MOST 16
#define PART_BYTES (size_t(64) << 20)   /* of a rank: sparse */
#define HEAD_BYTES size_t(4096)
#define NEVER UINT64_MAX

struct shared {
    std::atomic<uint32_t> come[RANKS_MOST];
    std::atomic<uint64_t> begun[RANKS_MOST], read[RANKS_MOST];  /* sums */
};

struct ncclComm {
    char path[NCCL_UNIQUE_ID_BYTES];
    struct shared *head = nullptr;
    size_t bytes = 0;
    int rank = 0, ranks = 0;
    bool in_progress = false, failed = false;
    bool left = false;                  /* what is in a stream ends without doing anything */
    uint64_t sums = 0;
    std::function<void()> put;          /* a sum, into its stream */

    ~ncclComm()
    {
        if (head != nullptr) {
            (void)munmap(head, bytes);
        }
    }

    float *part(int of) const
    {
        return reinterpret_cast<float *>(reinterpret_cast<char *>(head) + HEAD_BYTES +
                                         static_cast<size_t>(of) * PART_BYTES);
    }
};

/* A handle; pieces in streams hold on to what is behind it. */
using comm_at = std::shared_ptr<struct ncclComm>;
static std::map<ncclComm_t, comm_at> comms;

static comm_at comm_of(ncclComm_t comm)
{
    auto found = comms.find(comm);
    return found != comms.end() ? found->second : nullptr;
}

ncclResult_t ncclGetVersion(int *version)
{
    guard hold(gpu_now().lock);
    *version = NCCL_VERSION_CODE;
    return gpu_now().has_nccl ? ncclSuccess : ncclSystemError;
}

const char *ncclGetErrorString(ncclResult_t rc)
{
    return rc == ncclSuccess ? "no error" : rc == ncclInProgress ? "in progress" : "an error";
}

/* An id that nobody begins with is here until the process that made it ends. */
static std::set<std::string> made;

static void remove_made(void)
{
    for (const std::string &path : made) {
        (void)unlink(path.c_str());
    }
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    guard hold(gpu_now().lock);
    const char *folder = getenv("TMPDIR");
    memset(id->internal, 0, sizeof id->internal);
    snprintf(id->internal, sizeof id->internal, "%.100s/uwasa-nccl-XXXXXX",
             folder != nullptr ? folder : "/tmp");
    int fd = mkstemp(id->internal);
    if (fd < 0) {
        return ncclSystemError;
    }
    if (made.empty()) {
        (void)atexit(remove_made);
    }
    made.insert(id->internal);
    int rc = ftruncate(fd, static_cast<off_t>(HEAD_BYTES + RANKS_MOST * PART_BYTES));
    (void)close(fd);
    return rc == 0 ? ncclSuccess : ncclSystemError;
}

static bool all_have_come(const struct ncclComm &c)
{
    bool all = true;
    for (int i = 0; i < c.ranks; i++) {
        all = all && c.head->come[i] != 0;
    }
    return all;
}

static bool map_file(struct ncclComm *c)
{
    int fd = open(c->path, O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    c->bytes = HEAD_BYTES + static_cast<size_t>(c->ranks) * PART_BYTES;
    void *at = mmap(nullptr, c->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    (void)close(fd);
    c->head = at != MAP_FAILED ? static_cast<struct shared *>(at) : nullptr;
    return c->head != nullptr;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t *config)
{
    guard hold(gpu_now().lock);
    *comm = nullptr;
    if (config->blocking != 0 || ranks > RANKS_MOST || rank >= ranks) {
        return ncclInvalidArgument;
    }
    comm_at c = std::make_shared<struct ncclComm>();
    memcpy(c->path, id.internal, sizeof c->path);
    c->rank = rank;
    c->ranks = ranks;
    if (!map_file(c.get())) {
        return ncclSystemError;
    }
    c->failed = gpu_now().nccl_fails_init;
    c->head->come[rank] = c->failed ? 0 : 1;
    if (all_have_come(*c)) {
        (void)unlink(c->path);          /* nobody else opens it */
    }
    *comm = c.get();
    comms[c.get()] = c;
    return ncclInProgress;
}

static bool is_ready(const struct ncclComm &c)
{
    return !c.in_progress && (c.failed || all_have_come(c));
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *state)
{
    guard hold(gpu_now().lock);
    comm_at c = comm_of(comm);
    if (c == nullptr) {
        return ncclInvalidArgument;
    }
    bool waits = !c->failed && (c->in_progress || !all_have_come(*c));
    if (c->put) {
        c->put();
        c->put = nullptr;
    }
    c->in_progress = false;
    *state = c->failed ? ncclRemoteError : waits ? ncclInProgress : ncclSuccess;
    return ncclSuccess;
}

/* One sum of a rank, in its stream. */
struct sum {
    comm_at c;
    const float *from;
    float *to;
    size_t n;
    uint64_t number;                    /* from 1 */
    bool written = false;

    bool all(const std::atomic<uint64_t> *of, uint64_t least) const
    {
        bool have = true;
        for (int i = 0; i < c->ranks; i++) {
            have = have && of[i] >= least;
        }
        return have;
    }

    bool step()
    {
        struct shared *s = c->head;
        if (c->left || c->failed) {
            return c->left;
        }
        if (!written && all(s->read, number - 1u)) {
            memcpy(c->part(c->rank), from, n * sizeof *from);
            s->begun[c->rank] = number;
            written = true;
        }
        if (!written || !all(s->begun, number)) {
            return false;
        }
        for (size_t i = 0; i < n; i++) {
            float x = c->part(0)[i];
            for (int k = 1; k < c->ranks; k++) {
                x += c->part(k)[i];
            }
            to[i] = x;
        }
        s->read[c->rank] = number;
        return true;
    }
};

ncclResult_t ncclAllReduce(const void *from, void *to, size_t n, ncclDataType_t type,
                           ncclRedOp_t operation, ncclComm_t comm, cudaStream_t stream)
{
    struct gpu &g = gpu_now();
    guard hold(g.lock);
    comm_at c = comm_of(comm);
    if (c == nullptr || type != ncclFloat32 || operation != ncclSum ||
        n * sizeof(float) > PART_BYTES || !is_ready(*c)) {
        return ncclInvalidArgument;
    }
    auto s = std::make_shared<struct sum>();
    s->c = c;
    s->from = static_cast<const float *>(from);
    s->to = static_cast<float *>(to);
    s->n = n;
    s->number = ++c->sums;
    g.nccl_sums++;
    c->failed = g.nccl_sums == g.nccl_error_at;
    if (g.nccl_sums == g.nccl_hang_at) {
        s->number = NEVER;
    }
    c->in_progress = true;
    cudaStream_t at = stream_of(stream);
    c->put = [s, at]() {
        struct piece p;
        p.step = [s]() { return s->step(); };
        (void)stream_put_piece(at, p);
    };
    return ncclInProgress;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    guard hold(gpu_now().lock);
    comm_at c = comm_of(comm);
    if (c == nullptr || !is_ready(*c)) {
        return ncclInvalidArgument;
    }
    c->in_progress = true;
    return ncclInProgress;
}

static ncclResult_t drop(ncclComm_t comm)
{
    guard hold(gpu_now().lock);
    comm_at c = comm_of(comm);
    if (c == nullptr) {
        return ncclInvalidArgument;
    }
    c->left = true;
    (void)unlink(c->path);
    comms.erase(comm);
    return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    return drop(comm);
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    return drop(comm);
}
