/* Train a network on handwritten digits without Python, from what export.py has written.

   digits [STEPS] trains, for all epochs in digits.bin or for so many steps, prints the accuracy on
   scans it has not seen, and leaves the variables in digits.state. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "digits.h"

enum { BATCH = 32, PIXELS = 64, TEST = 360 };

static digits_instance net; /* parameters, Adam's moments, working memory: all there is */

static void require(int32_t status) {
    if (status == DIGITS_OK) return;
    fprintf(stderr, "%s: index %lld\n", digits_message(status),
            (long long)digits_failed_index(&net));
    exit(1);
}

static void *read_array(FILE *file, size_t count, size_t size) {
    void *array = malloc(count * size);
    if (array == NULL || fread(array, size, count, file) != count) {
        fprintf(stderr, "digits.bin cannot be read\n");
        exit(1);
    }
    return array;
}

static float train_on(const float *scans, const int64_t *labels, const int64_t *chosen) {
    float x[BATCH * PIXELS], loss;
    int64_t y[BATCH];
    for (int i = 0; i < BATCH; i++) {
        memcpy(x + i * PIXELS, scans + chosen[i] * PIXELS, PIXELS * sizeof(float));
        y[i] = labels[chosen[i]];
    }
    require(digits_train(&net, x, y, &loss));
    return loss;
}

static int count_read(const float *scans, const int64_t *labels) {
    int64_t digits[TEST];
    int right = 0;
    require(digits_predict(&net, scans, digits));
    for (int i = 0; i < TEST; i++) right += digits[i] == labels[i];
    return right;
}

static void save(const char *path) {
    void *state = malloc(DIGITS_STATE_SIZE);
    FILE *file = fopen(path, "wb");
    require(digits_save(&net, state, DIGITS_STATE_SIZE));
    if (file == NULL || fwrite(state, DIGITS_STATE_SIZE, 1, file) != 1 || fclose(file)) {
        fprintf(stderr, "%s cannot be written\n", path);
        exit(1);
    }
    free(state);
}

int main(int argc, char **argv) {
    FILE *file = fopen("digits.bin", "rb");
    if (file == NULL) {
        fprintf(stderr, "there is no digits.bin here: run export.py\n");
        return 1;
    }
    int64_t *counts = read_array(file, 4, sizeof(int64_t));
    int64_t train = counts[0], test = counts[1], batches = counts[2] * counts[3];
    float *train_x = read_array(file, train * PIXELS, sizeof(float));
    float *test_x = read_array(file, test * PIXELS, sizeof(float));
    int64_t *train_y = read_array(file, train, sizeof(int64_t));
    int64_t *test_y = read_array(file, test, sizeof(int64_t));
    int64_t *order = read_array(file, batches * BATCH, sizeof(int64_t));
    fclose(file);

    int64_t steps = argc > 1 ? atoll(argv[1]) : batches;
    require(digits_init(&net));
    printf("read before training: %d of %d\n", count_read(test_x, test_y), TEST);
    float loss = 0;
    for (int64_t i = 0; i < steps && i < batches; i++)
        loss = train_on(train_x, train_y, order + i * BATCH);
    int right = count_read(test_x, test_y);
    printf("loss after %lld steps: %.4f\n", (long long)steps, loss);
    printf("read after training: %d of %d, test accuracy: %.2f%%\n", right, TEST,
           100.0 * right / TEST);
    save("digits.state");
    digits_release(&net);
    free(counts), free(train_x), free(test_x), free(train_y), free(test_y), free(order);
    return 0;
}
