/* Run an exported library of steps with collectives: each rank reads its inputs and writes what it
   gets. Numbers of elements are those of tests/distributed/export_programs.py, for two ranks. */
#include "net.h"

#include <stdio.h>
#include <stdlib.h>

enum { STEPS = 3, RANKS = 2, ROWS = RANKS * 5, SHARED = 8 };

static net_instance net;
static double x[6 * 4], y[6 * 3], losses[STEPS], result[6 * 3], complexes[2 * ROWS];
static double wide[SHARED * 4], shared[STEPS];
static float rows[ROWS], gathered[ROWS], scattered[5], floats[5][ROWS];

static void require(int holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "%s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static FILE *open_own(const char *stem, int rank, const char *mode) {
    char name[64];
    snprintf(name, sizeof name, "%s%d.bin", stem, rank);
    FILE *file = fopen(name, mode);
    require(file != NULL, name);
    return file;
}

int main(int argc, char **argv) {
    int rank;
    MPI_Comm world, other;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_dup(MPI_COMM_WORLD, &world);
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    FILE *in = open_own("inputs", rank, "rb");
    require(fread(x, sizeof x, 1, in) && fread(y, sizeof y, 1, in), "no samples");
    require(fread(rows, sizeof rows, 1, in) == 1, "no rows");
    fclose(in);

    require(net_init(&net) == NET_OK, "init");
    require(net_train(&net, x, y, losses) == NET_NOT_CONNECTED, "a step without a communicator");
    require(net_predict(&net, x, result) == NET_OK, "a step without collectives");
    require(net_init_mpi(&net, MPI_COMM_SELF, other) == NET_OTHER_RANKS, "one rank");
    require(net_connect(&net, NULL, 1) == NET_NULL_POINTER, "no handles");
    require(net_init_mpi(&net, world, other) == NET_OK, "init_mpi");
    for (int i = 0; i < STEPS; i++) require(net_train(&net, x, y, &losses[i]) == NET_OK, "train");
    require(net_move(&net, rows, gathered, scattered, floats[0], floats[1], floats[2], floats[3],
                     complexes, floats[4]) == NET_OK, "move");
    require(net_predict(&net, x, result) == NET_OK, "predict");
    for (int i = 0; i < SHARED * 4; i++) wide[i] = x[i % (6 * 4)];
    for (int i = 0; i < STEPS; i++) require(net_share(&net, wide, &shared[i]) == NET_OK, "share");
    static unsigned char state[NET_STATE_SIZE];
    require(net_save(&net, state, sizeof state) == NET_OK, "save");
    require(net_init_from(&net, state, sizeof state) == NET_OK, "init_from");
    require(net_connect_mpi(&net, world, other) == NET_OK, "connect_mpi");
    double loss;
    require(net_train(&net, x, y, &loss) == NET_OK && loss < losses[STEPS - 1], "going on");

    FILE *out = open_own("outputs", rank, "wb");
    fwrite(losses, sizeof losses, 1, out);
    fwrite(gathered, sizeof gathered, 1, out);
    fwrite(scattered, sizeof scattered, 1, out);
    fwrite(floats, sizeof *floats, 4, out);
    fwrite(complexes, sizeof complexes, 1, out);
    fwrite(floats[4], sizeof *floats, 1, out);
    fwrite(result, sizeof result, 1, out);
    fwrite(shared, sizeof shared, 1, out);
    fclose(out);
    return MPI_Finalize();
}
