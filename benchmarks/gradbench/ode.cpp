// Differential equation of GradBench, and the gradient of its last component by hand.

#include <cstdint>
#include <vector>

namespace {

using Vector = std::vector<double>;

const double END = 2;

// k = slope(y + h * before), of factors x.
void slope(const double *x, int64_t n, const double *y, double h, const double *before, double *k) {
    k[0] = x[0];
    for (int64_t i = 1; i < n; i++) k[i] = x[i] * (y[i - 1] + h * before[i - 1]);
}

struct Slopes {
    Vector k1, k2, k3, k4;
    explicit Slopes(int64_t n) : k1(n), k2(n), k3(n), k4(n) {}
};

void slopes(const double *x, int64_t n, const double *y, double h, Slopes &k) {
    slope(x, n, y, 0, y, k.k1.data());
    slope(x, n, y, h / 2, k.k1.data(), k.k2.data());
    slope(x, n, y, h / 2, k.k2.data(), k.k3.data());
    slope(x, n, y, h, k.k3.data(), k.k4.data());
}

void advance(int64_t n, double h, const Slopes &k, const double *y, double *next) {
    for (int64_t i = 0; i < n; i++)
        next[i] = y[i] + h / 6 * (k.k1[i] + 2 * k.k2[i] + 2 * k.k3[i] + k.k4[i]);
}

// Adds the adjoint of slope: from that of k, seed, to those of x, of y and of before.
void slope_adjoint(const double *x, int64_t n, const double *y, double h, const double *before,
                   const double *seed, double *gx, double *gy, double *gbefore) {
    gx[0] += seed[0];
    for (int64_t i = 1; i < n; i++) {
        gx[i] += seed[i] * (y[i - 1] + h * before[i - 1]);
        double g = seed[i] * x[i];
        gy[i - 1] += g;
        gbefore[i - 1] += h * g;
    }
}

}  // namespace

extern "C" void ode_primal(const double *x, int64_t n, int64_t s, double *y) {
    double h = END / s;
    Slopes k(n);
    for (int64_t i = 0; i < n; i++) y[i] = 0;
    for (int64_t step = 0; step < s; step++) {
        slopes(x, n, y, h, k);
        advance(n, h, k, y, y);
    }
}

extern "C" void ode_gradient(const double *x, int64_t n, int64_t s, double *gx) {
    double h = END / s;
    Slopes k(n), g(n);
    Vector states((s + 1) * n), gy(n);
    for (int64_t step = 0; step < s; step++) {
        slopes(x, n, &states[step * n], h, k);
        advance(n, h, k, &states[step * n], &states[(step + 1) * n]);
    }
    for (int64_t i = 0; i < n; i++) gx[i] = 0;
    gy[n - 1] = 1;
    for (int64_t step = s - 1; step >= 0; step--) {
        const double *y = &states[step * n];
        slopes(x, n, y, h, k);
        for (int64_t i = 0; i < n; i++) {
            g.k1[i] = g.k4[i] = h / 6 * gy[i];
            g.k2[i] = g.k3[i] = h / 3 * gy[i];
        }
        slope_adjoint(x, n, y, h, k.k3.data(), g.k4.data(), gx, gy.data(), g.k3.data());
        slope_adjoint(x, n, y, h / 2, k.k2.data(), g.k3.data(), gx, gy.data(), g.k2.data());
        slope_adjoint(x, n, y, h / 2, k.k1.data(), g.k2.data(), gx, gy.data(), g.k1.data());
        slope_adjoint(x, n, y, 0, y, g.k1.data(), gx, gy.data(), g.k4.data());
    }
}
