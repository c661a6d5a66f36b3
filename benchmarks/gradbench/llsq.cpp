// Least squares of GradBench, and its gradient by hand.

#include <cstdint>

namespace {

// Returns the place of the i-th of n, and writes what is missing there to reach its sign.
double place(int64_t i, int64_t n) { return -1.0 + i * 2.0 / (n - 1); }

double error(const double *x, int64_t m, double t) {
    double total = (t > 0) - (t < 0), power = 1;
    for (int64_t j = 0; j < m; j++) {
        total -= x[j] * power;
        power *= t;
    }
    return total;
}

}  // namespace

extern "C" void llsq_primal(const double *x, int64_t m, int64_t n, double *y) {
    double total = 0;
    for (int64_t i = 0; i < n; i++) {
        double e = error(x, m, place(i, n));
        total += e * e;
    }
    *y = total / 2;
}

extern "C" void llsq_gradient(const double *x, int64_t m, int64_t n, double *g) {
    for (int64_t j = 0; j < m; j++) g[j] = 0;
    for (int64_t i = 0; i < n; i++) {
        double t = place(i, n), e = error(x, m, t), power = 1;
        for (int64_t j = 0; j < m; j++) {
            g[j] -= e * power;
            power *= t;
        }
    }
}
