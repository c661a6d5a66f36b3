/* Runs compiled programs of one library under valgrind's memcheck, each on memory of its own.
 *
 *     valgrind ./driver FOLDER SEED...
 *
 * FOLDER/programs.so has a function step_SEED for each seed, and FOLDER/SEED.in what it is given
 * (memcheck_worker.py writes both): every buffer is a block of the heap of just its size, and of
 * the arena only temporaries may be touched; of functions it has the names. What the program
 * computed is written to SEED.out.
 * "program SEED" among valgrind's messages says whose they are.
 */
#define _GNU_SOURCE /* RTLD_DEFAULT */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <valgrind/memcheck.h>

enum { UNDEFINED, GIVEN, TAPE, FUNCTION };

static int64_t number(FILE *file)
{
    int64_t value;
    if (fread(&value, sizeof value, 1, file) != 1)
        abort();
    return value;
}

struct piece {
    int64_t size, kind;
    char *bytes;
};

static struct piece read_piece(FILE *file)
{
    struct piece piece = {number(file), number(file), NULL};
    if (piece.kind == FUNCTION) {
        char name[256] = "";
        if (piece.size >= (int64_t)sizeof name || fread(name, piece.size, 1, file) != 1)
            abort();
        piece.bytes = dlsym(RTLD_DEFAULT, name);
        if (!piece.bytes)
            abort();
        return piece;
    }
    void *block; /* at a cache line, as symgrad allocates, and of just this size */
    if (posix_memalign(&block, 64, piece.size ? piece.size : 1))
        abort();
    piece.bytes = block;
    if (piece.kind == GIVEN && piece.size && fread(piece.bytes, piece.size, 1, file) != 1)
        abort();
    if (piece.kind == TAPE)
        memset(piece.bytes, 0, piece.size);
    return piece;
}

static struct piece *read_table(FILE *file, int64_t *count)
{
    *count = number(file);
    struct piece *pieces = calloc(*count + 1, sizeof *pieces);
    for (int64_t i = 0; i < *count; i++)
        pieces[i] = read_piece(file);
    return pieces;
}

static char **addresses(const struct piece *pieces, int64_t count)
{
    char **table = calloc(count + 1, sizeof *table);
    for (int64_t i = 0; i < count; i++)
        table[i] = pieces[i].bytes;
    return table;
}

static void write_table(FILE *file, const struct piece *pieces, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (pieces[i].kind != TAPE && pieces[i].kind != FUNCTION)
            fwrite(pieces[i].bytes, 1, pieces[i].size, file);
}

static void free_table(struct piece *pieces, char **table, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        if (pieces[i].kind == FUNCTION)
            continue;
        if (pieces[i].kind == TAPE)
            free(*(char **)pieces[i].bytes);
        free(pieces[i].bytes);
    }
    free(pieces);
    free(table);
}

static int run(void *library, const char *folder, const char *seed)
{
    char path[4096], symbol[64];
    snprintf(path, sizeof path, "%s/%s.in", folder, seed);
    snprintf(symbol, sizeof symbol, "step_%s", seed);
    FILE *file = fopen(path, "rb");
    int (*step)(char **, char **, char **);
    *(void **)&step = dlsym(library, symbol);
    if (!file || !step)
        return 1;
    int64_t inputs, outputs, states;
    struct piece *given = read_table(file, &inputs), *results = read_table(file, &outputs);
    struct piece *state = read_table(file, &states);
    VALGRIND_MAKE_MEM_NOACCESS(state[0].bytes, state[0].size);
    for (int64_t left = number(file); left > 0; left--) {
        int64_t start = number(file), size = number(file);
        VALGRIND_MAKE_MEM_UNDEFINED(state[0].bytes + start, size);
    }
    fclose(file);
    char **tables[] = {addresses(given, inputs), addresses(results, outputs),
                       addresses(state, states)};
    VALGRIND_PRINTF("program %s\n", seed);
    int status = step(tables[0], tables[1], tables[2]);
    VALGRIND_PRINTF("status %d\n", status);
    snprintf(path, sizeof path, "%s/%s.out", folder, seed);
    file = fopen(path, "wb");
    write_table(file, results, outputs);
    write_table(file, state + 2, states - 2);
    fclose(file);
    free_table(given, tables[0], inputs);
    free_table(results, tables[1], outputs);
    free_table(state, tables[2], states);
    return status;
}

int main(int count, char **arguments)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/programs.so", arguments[1]);
    void *library = dlopen(path, RTLD_NOW);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    int failed = 0;
    for (int i = 2; i < count; i++)
        failed |= run(library, arguments[1], arguments[i]);
    return failed != 0;
}
