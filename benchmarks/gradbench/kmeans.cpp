// k-means of GradBench: its cost, and by hand the gradient divided by the diagonal of the Hessian.

#include <cstdint>
#include <vector>

namespace {

struct Nearest {
    int64_t centroid;
    double square;
};

// Centroids are in columns, so that the loop over them is one of vectors.
std::vector<double> transposed(const double *a, int64_t rows, int64_t columns) {
    std::vector<double> found(rows * columns);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) found[j * rows + i] = a[i * columns + j];
    return found;
}

Nearest nearest(const double *point, const double *columns, int64_t k, int64_t d, double *squares) {
    for (int64_t c = 0; c < k; c++) squares[c] = 0;
    for (int64_t j = 0; j < d; j++)
        for (int64_t c = 0; c < k; c++) {
            double difference = point[j] - columns[j * k + c];
            squares[c] += difference * difference;
        }
    double least = squares[0];
    for (int64_t c = 1; c < k; c++) least = squares[c] < least ? squares[c] : least;
    int64_t place = 0;
    while (squares[place] > least) place++;
    return {place, least};
}

}  // namespace

extern "C" void kmeans_cost(const double *points, const double *centroids, int64_t n, int64_t k,
                            int64_t d, double *y) {
    std::vector<double> columns = transposed(centroids, k, d), squares(k);
    double total = 0;
    for (int64_t i = 0; i < n; i++)
        total += nearest(points + i * d, columns.data(), k, d, squares.data()).square;
    *y = total;
}

// The gradient is 2 sum (c - p) over the points that are nearest to c, the diagonal twice their number.
extern "C" void kmeans_dir(const double *points, const double *centroids, int64_t n, int64_t k,
                           int64_t d, double *found) {
    std::vector<double> columns = transposed(centroids, k, d), squares(k), counts(k);
    for (int64_t i = 0; i < k * d; i++) found[i] = 0;
    for (int64_t i = 0; i < n; i++) {
        const double *point = points + i * d;
        int64_t c = nearest(point, columns.data(), k, d, squares.data()).centroid;
        counts[c]++;
        for (int64_t j = 0; j < d; j++) found[c * d + j] += centroids[c * d + j] - point[j];
    }
    for (int64_t c = 0; c < k; c++)
        for (int64_t j = 0; j < d; j++) found[c * d + j] /= counts[c];
}
