// Log-sum-exp of GradBench, and its gradient by hand.

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace {

double greatest_of(const double *x, int64_t n) {
    double greatest = x[0];
    for (int64_t i = 1; i < n; i++) greatest = std::max(greatest, x[i]);
    return greatest;
}

}  // namespace

extern "C" void lse_primal(const double *x, int64_t n, double *y) {
    double greatest = greatest_of(x, n), total = 0;
    for (int64_t i = 0; i < n; i++) total += std::exp(x[i] - greatest);
    *y = greatest + std::log(total);
}

extern "C" void lse_gradient(const double *x, int64_t n, double *g) {
    double greatest = greatest_of(x, n), total = 0;
    for (int64_t i = 0; i < n; i++) {
        g[i] = std::exp(x[i] - greatest);
        total += g[i];
    }
    double scale = 1 / total;
    for (int64_t i = 0; i < n; i++) g[i] *= scale;
}
