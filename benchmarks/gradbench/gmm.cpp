// Mixture of Gaussians of GradBench: the log-likelihood, and its gradient by hand.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace {

using Vector = std::vector<double>;

const double GAMMA = 1, DEGREES = 0, PI = 3.14159265358979323846;

struct Mixture {
    const double *x, *alpha, *mu, *q, *l;
    int64_t d, k, n;

    int64_t triangle() const { return d * (d - 1) / 2; }
};

// Of each component: exp(q), and the sum of q.
struct Diagonals {
    Vector exponentials, sums;

    explicit Diagonals(const Mixture &m) : exponentials(m.k * m.d), sums(m.k) {
        for (int64_t i = 0; i < m.k; i++)
            for (int64_t j = 0; j < m.d; j++) {
                exponentials[i * m.d + j] = std::exp(m.q[i * m.d + j]);
                sums[i] += m.q[i * m.d + j];
            }
    }
};

double log_sum_exp(const double *a, int64_t n) {
    double greatest = *std::max_element(a, a + n), total = 0;
    for (int64_t i = 0; i < n; i++) total += std::exp(a[i] - greatest);
    return greatest + std::log(total);
}

double constant(const Mixture &m) {
    double degrees = m.d + DEGREES + 1, gammas = m.d * (m.d - 1) / 4.0 * std::log(PI);
    for (int64_t j = 1; j <= m.d; j++) gammas += std::lgamma((degrees + 1 - j) / 2);
    double wishart = degrees * m.d * std::log(GAMMA / std::sqrt(2.0)) - gammas;
    return -0.5 * m.n * m.d * std::log(2 * PI) + m.k * wishart;
}

// Writes c = x - mu and y = Q c, whose columns of Q are read one after another, as they are stored.
void scale(const Mixture &m, const Diagonals &diagonals, int64_t i, int64_t component, double *c,
           double *y) {
    const double *l = m.l + component * m.triangle();
    for (int64_t j = 0; j < m.d; j++) {
        c[j] = m.x[i * m.d + j] - m.mu[component * m.d + j];
        y[j] = diagonals.exponentials[component * m.d + j] * c[j];
    }
    for (int64_t column = 0; column < m.d; column++)
        for (int64_t row = column + 1; row < m.d; row++) y[row] += *l++ * c[column];
}

double inner(const Mixture &m, const Diagonals &diagonals, int64_t component, const double *y) {
    double square = 0;
    for (int64_t j = 0; j < m.d; j++) square += y[j] * y[j];
    return m.alpha[component] + diagonals.sums[component] - 0.5 * square;
}

}  // namespace

extern "C" void gmm_objective(const double *x, const double *alpha, const double *mu,
                              const double *q, const double *l, int64_t d, int64_t k, int64_t n,
                              double *found) {
    Mixture m = {x, alpha, mu, q, l, d, k, n};
    Diagonals diagonals(m);
    Vector c(d), y(d), inners(k);
    double total = constant(m) - n * log_sum_exp(alpha, k), squares = 0;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t component = 0; component < k; component++) {
            scale(m, diagonals, i, component, c.data(), y.data());
            inners[component] = inner(m, diagonals, component, y.data());
        }
        total += log_sum_exp(inners.data(), k);
    }
    for (double e : diagonals.exponentials) squares += e * e;
    for (int64_t i = 0; i < k * m.triangle(); i++) squares += l[i] * l[i];
    for (double sum : diagonals.sums) total += DEGREES * sum;
    *found = total - 0.5 * GAMMA * GAMMA * squares;
}

extern "C" void gmm_jacobian(const double *x, const double *alpha, const double *mu,
                             const double *q, const double *l, int64_t d, int64_t k, int64_t n,
                             double *galpha, double *gmu, double *gq, double *gl) {
    Mixture m = {x, alpha, mu, q, l, d, k, n};
    Diagonals diagonals(m);
    int64_t triangle = m.triangle();
    Vector c(k * d), y(k * d), inners(k);
    double whole = log_sum_exp(alpha, k);
    for (int64_t i = 0; i < k; i++) galpha[i] = -n * std::exp(alpha[i] - whole);
    for (int64_t i = 0; i < k * d; i++) {
        double e = diagonals.exponentials[i];
        gmu[i] = 0;
        gq[i] = DEGREES - GAMMA * GAMMA * e * e;
    }
    for (int64_t i = 0; i < k * triangle; i++) gl[i] = -GAMMA * GAMMA * l[i];
    for (int64_t i = 0; i < n; i++) {
        for (int64_t component = 0; component < k; component++) {
            scale(m, diagonals, i, component, &c[component * d], &y[component * d]);
            inners[component] = inner(m, diagonals, component, &y[component * d]);
        }
        double total = log_sum_exp(inners.data(), k);
        for (int64_t component = 0; component < k; component++) {
            // The adjoint of y is -weight y, which goes on to Q and, with the other sign, to mu.
            double weight = std::exp(inners[component] - total);
            const double *cs = &c[component * d], *ys = &y[component * d];
            const double *entry = l + component * triangle;
            double *gentry = gl + component * triangle;
            galpha[component] += weight;
            for (int64_t j = 0; j < d; j++) {
                double e = diagonals.exponentials[component * d + j];
                gq[component * d + j] += weight * (1 - ys[j] * cs[j] * e);
                gmu[component * d + j] += weight * ys[j] * e;
            }
            for (int64_t column = 0; column < d; column++) {
                double moved = 0, scaled = weight * cs[column];
                for (int64_t row = column + 1; row < d; row++, entry++, gentry++) {
                    *gentry -= scaled * ys[row];
                    moved += *entry * ys[row];
                }
                gmu[component * d + column] += weight * moved;
            }
        }
    }
}
