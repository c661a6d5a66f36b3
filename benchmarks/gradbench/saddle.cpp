// Saddle point of GradBench: the inner gradient by hand, the outer one by numbers with derivatives.

#include "descent.hpp"

namespace {

template <typename T>
using Pair = std::array<T, 2>;

template <typename T>
T f(const Pair<T> &x, const Pair<T> &y) {
    return x[0] * x[0] + x[1] * x[1] - y[0] * y[0] - y[1] * y[1];
}

template <typename T>
Pair<T> greatest_from(const Pair<T> &x, const double *start) {
    auto negative = [&](const Pair<T> &y) { return -f(x, y); };
    auto gradient = [](const Pair<T> &y) { return Pair<T>{2.0 * y[0], 2.0 * y[1]}; };
    return argmin(negative, gradient, Pair<T>{T(start[0]), T(start[1])});
}

template <typename T>
T greatest(const Pair<T> &x, const double *start) {
    return f(x, greatest_from(x, start));
}

void saddle(const double *start, double *found) {
    using D = Dual<2>;
    auto value = [&](const Pair<double> &x) { return greatest(x, start); };
    auto gradient = [&](const Pair<double> &x) {
        D y = greatest(Pair<D>{D::variable(x[0], 0), D::variable(x[1], 1)}, start);
        return Pair<double>{y.tangent[0], y.tangent[1]};
    };
    Pair<double> x = argmin(value, gradient, Pair<double>{start[0], start[1]});
    Pair<double> y = greatest_from(x, start);
    found[0] = x[0];
    found[1] = x[1];
    found[2] = y[0];
    found[3] = y[1];
}

}  // namespace

extern "C" void saddle_rr(const double *start, double *found) { saddle(start, found); }
extern "C" void saddle_rf(const double *start, double *found) { saddle(start, found); }
extern "C" void saddle_fr(const double *start, double *found) { saddle(start, found); }
extern "C" void saddle_ff(const double *start, double *found) { saddle(start, found); }
