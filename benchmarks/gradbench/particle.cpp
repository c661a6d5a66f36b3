// Particle of GradBench: the force by hand, the derivative by w by numbers with derivatives.

#include "descent.hpp"

namespace {

// Returns the square of where the particle lands.
template <typename T>
T landing(const T &w) {
    const double time = 0.1;
    const T charge_x[2] = {T(10), T(10)}, charge_y[2] = {T(10) - w, T(0)};
    T x = 0, y = 8, vx = 0.75, vy = 0;
    while (true) {
        T ax = 0, ay = 0;
        for (int i = 0; i < 2; i++) {
            T dx = x - charge_x[i], dy = y - charge_y[i], square = dx * dx + dy * dy;
            T scale = 1.0 / (square * sqrt(square));
            ax = ax + dx * scale;
            ay = ay + dy * scale;
        }
        x = x + time * vx;
        y = y + time * vy;
        if (value_of(y) <= 0) break;
        vx = vx + time * ax;
        vy = vy + time * ay;
    }
    T at = x - y / vy * vx;
    return at * at;
}

void particle(const double *w, double *found) {
    using Vector = std::array<double, 1>;
    auto value = [](const Vector &w) { return landing(w[0]); };
    auto gradient = [](const Vector &w) {
        return Vector{landing(Dual<1>::variable(w[0], 0)).tangent[0]};
    };
    *found = argmin(value, gradient, Vector{*w})[0];
}

}  // namespace

extern "C" void particle_rr(const double *w, double *found) { particle(w, found); }
extern "C" void particle_rf(const double *w, double *found) { particle(w, found); }
extern "C" void particle_fr(const double *w, double *found) { particle(w, found); }
extern "C" void particle_ff(const double *w, double *found) { particle(w, found); }
