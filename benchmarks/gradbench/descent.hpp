// Gradient descent of GradBench, and numbers with derivatives.

#pragma once

#include <array>
#include <cmath>

// A number, and how it changes along N axes.
template <int N>
struct Dual {
    double value;
    std::array<double, N> tangent;

    Dual(double value = 0) : value(value), tangent() {}
    static Dual variable(double value, int axis) {
        Dual d(value);
        d.tangent[axis] = 1;
        return d;
    }
    // What has this value, and changes by so many times as much as a, and as b.
    static Dual of(double value, double times_a, const Dual &a, double times_b, const Dual &b) {
        Dual d(value);
        for (int i = 0; i < N; i++) d.tangent[i] = times_a * a.tangent[i] + times_b * b.tangent[i];
        return d;
    }
    friend Dual operator+(const Dual &a, const Dual &b) {
        return of(a.value + b.value, 1, a, 1, b);
    }
    friend Dual operator-(const Dual &a, const Dual &b) {
        return of(a.value - b.value, 1, a, -1, b);
    }
    friend Dual operator*(const Dual &a, const Dual &b) {
        return of(a.value * b.value, b.value, a, a.value, b);
    }
    friend Dual operator/(const Dual &a, const Dual &b) {
        double q = a.value / b.value;
        return of(q, 1 / b.value, a, -q / b.value, b);
    }
    friend Dual operator-(const Dual &a) { return of(-a.value, -1, a, 0, a); }
    friend Dual sqrt(const Dual &a) {
        double root = std::sqrt(a.value);
        return of(root, 0.5 / root, a, 0, a);
    }
    friend double value_of(const Dual &a) { return a.value; }
};

inline double value_of(double a) { return a; }

template <typename T, size_t N>
double norm(const std::array<T, N> &a) {
    double total = 0;
    for (const T &x : a) total += value_of(x) * value_of(x);
    return std::sqrt(total);
}

// Returns where f is least. T may have derivatives: then the descent is differentiated as well.
template <typename T, size_t N, typename F, typename G>
std::array<T, N> argmin(F f, G gradient, std::array<T, N> x) {
    const double tolerance = 1e-5;
    T fx = f(x);
    std::array<T, N> g = gradient(x);
    double step = 1e-5;
    int taken = 0;
    while (norm(g) > tolerance) {
        if (taken == 10) {
            step *= 2;
            taken = 0;
            continue;
        }
        std::array<T, N> to, moved;
        for (size_t i = 0; i < N; i++) {
            to[i] = x[i] - step * g[i];
            moved[i] = x[i] - to[i];
        }
        if (norm(moved) <= tolerance) break;
        T f_to = f(to);
        if (value_of(f_to) < value_of(fx)) {
            x = to;
            fx = f_to;
            g = gradient(x);
            taken++;
        } else {
            step /= 2;
            taken = 0;
        }
    }
    return x;
}
