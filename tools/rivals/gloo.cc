/* SPDX-License-Identifier: Apache-2.0
 *
 * Gloo's all-reduce for tools/bench_collectives:
 *
 *     gloo ALGORITHM RANKS RANK STORE WINDOWS SECONDS BYTES...
 *
 * ALGORITHM is ring or bcube (gloo::allreduce), halving (gloo::AllreduceHalvingDoubling) or chunked
 * (gloo::AllreduceRingChunked); STORE is an empty folder for the rendezvous. */
#include "window.h"

#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <algorithm>
#include <memory>
#include <string>

static std::shared_ptr<gloo::rendezvous::Context> context;
static std::string algorithm;
static std::unique_ptr<gloo::Algorithm> prepared;
static float *prepared_x;
static size_t prepared_n;

/* The older algorithms are prepared once for a vector, and then run on it. */
static void prepare(float *x, size_t n)
{
    if (prepared != nullptr && x == prepared_x && n == prepared_n) {
        return;
    }
    prepared.reset();
    const std::vector<float *> at{x};
    if (algorithm == "halving") {
        prepared.reset(new gloo::AllreduceHalvingDoubling<float>(context, at, (int)n));
    } else {
        prepared.reset(new gloo::AllreduceRingChunked<float>(context, at, (int)n));
    }
    prepared_x = x;
    prepared_n = n;
}

static void round_of(float *x, size_t n)
{
    if (algorithm != "ring" && algorithm != "bcube") {
        prepare(x, n);
        prepared->run();
        return;
    }
    gloo::AllreduceOptions options(context);
    options.setAlgorithm(algorithm == "ring" ? gloo::AllreduceOptions::Algorithm::RING
                                             : gloo::AllreduceOptions::Algorithm::BCUBE);
    options.setOutput(x, n);
    options.setReduceFunction([](void *a, const void *b, const void *c, size_t count) {
        gloo::sum<float>(a, b, c, count);
    });
    gloo::allreduce(options);
}

static void barrier(void)
{
    gloo::BarrierOptions options(context);
    gloo::barrier(options);
}

static double slowest_of(double seconds)
{
    gloo::AllreduceOptions options(context);
    options.setOutput(&seconds, 1);
    options.setReduceFunction([](void *a, const void *b, const void *c, size_t count) {
        gloo::max<double>(a, b, c, count);
    });
    gloo::allreduce(options);
    return seconds;
}

int main(int argc, char **argv)
{
    if (argc < 8) {
        return 2;
    }
    algorithm = argv[1];
    int ranks = atoi(argv[2]), rank = atoi(argv[3]);
    gloo::transport::tcp::attr attr;
    attr.hostname = "127.0.0.1";
    gloo::rendezvous::FileStore store(argv[4]);
    context = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
    std::shared_ptr<gloo::transport::Device> device = gloo::transport::tcp::CreateDevice(attr);
    context->connectFullMesh(store, device);
    int wrong = measure_all(argc - 4, argv + 4, ranks, rank);
    barrier();
    prepared.reset();
    return wrong;
}
