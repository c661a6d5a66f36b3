// Determinant of GradBench by expansion by minors, and its gradient by hand.
//
// Minors are of the last rows, and found by the set of their columns: each is computed once.

#include <cstdint>
#include <vector>

namespace {

// Writes the minor of each set of columns, of as many of the last rows as it has columns.
void minors(const double *a, int64_t ell, double *m) {
    m[0] = 1;
    for (int64_t set = 1; set < int64_t(1) << ell; set++) {
        const double *row = a + (ell - __builtin_popcountll(set)) * ell;
        double total = 0, sign = 1;
        for (int64_t rest = set; rest; rest &= rest - 1, sign = -sign) {
            int64_t column = __builtin_ctzll(rest);
            total += sign * row[column] * m[set & ~(int64_t(1) << column)];
        }
        m[set] = total;
    }
}

}  // namespace

extern "C" void det_primal(const double *a, int64_t ell, double *y) {
    std::vector<double> m(int64_t(1) << ell);
    minors(a, ell, m.data());
    *y = m.back();
}

extern "C" void det_gradient(const double *a, int64_t ell, double *g) {
    int64_t count = int64_t(1) << ell;
    std::vector<double> m(count), adjoints(count);
    minors(a, ell, m.data());
    for (int64_t i = 0; i < ell * ell; i++) g[i] = 0;
    adjoints.back() = 1;
    for (int64_t set = count - 1; set > 0; set--) {
        int64_t place = (ell - __builtin_popcountll(set)) * ell;
        double seed = adjoints[set];
        for (int64_t rest = set; rest; rest &= rest - 1, seed = -seed) {
            int64_t column = __builtin_ctzll(rest), without = set & ~(int64_t(1) << column);
            g[place + column] += seed * m[without];
            adjoints[without] += seed * a[place + column];
        }
    }
}
