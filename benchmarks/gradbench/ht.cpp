// Hand tracking of GradBench: residuals, and their Jacobian by hand, in rows of 28.

#include <cmath>
#include <cstdint>
#include <vector>

namespace {

const int FINGERS = 5, OF_FINGER = 4, FIRST = 2, BONES = FIRST + FINGERS * OF_FINGER;
const int POSE = 6 + 4 * FINGERS, WIDTH = 2 + POSE;

// The upper three rows of a matrix in homogeneous coordinates.
struct Transform {
    double m[3][4];
};

struct Rotation {
    double m[3][3];
};

Transform read(const double *a) {
    Transform t;
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 4; j++) t.m[i][j] = a[4 * i + j];
    return t;
}

// The product, where the last row of the right one is (0, 0, 0, `corner`).
Transform multiply(const Transform &a, const Transform &b, double corner) {
    Transform c;
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 4; j++) {
            c.m[i][j] = j == 3 ? a.m[i][3] * corner : 0;
            for (int k = 0; k < 3; k++) c.m[i][j] += a.m[i][k] * b.m[k][j];
        }
    return c;
}

// Turns about x and then about z; with a number of 1 or 2 its derivative by the one or the other.
Transform turn(double x, double z, int by) {
    double cx = std::cos(x), sx = std::sin(x), cz = std::cos(z), sz = std::sin(z);
    if (by == 0)
        return {{{cz, -sz * cx, sz * sx, 0}, {sz, cz * cx, -cz * sx, 0}, {0, sx, cx, 0}}};
    if (by == 1)
        return {{{0, sz * sx, sz * cx, 0}, {0, -cz * sx, -cz * cx, 0}, {0, cx, -sx, 0}}};
    return {{{-sz, -cz * cx, cz * sx, 0}, {cz, -sz * cx, sz * sx, 0}, {0, 0, 0, 0}}};
}

int parent_of(int bone) { return bone == 1 ? 0 : (bone - FIRST) % OF_FINGER ? bone - 1 : 1; }

struct Hand {
    const double *theta, *relatives, *inverses;
    Transform absolutes[BONES], moved[BONES];

    Transform relative(int bone, int by) const {
        Transform base = read(relatives + 16 * bone);
        int finger = (bone - FIRST) / OF_FINGER, joint = (bone - FIRST) % OF_FINGER;
        if (bone < FIRST || joint == OF_FINGER - 1) return base;
        const double *angles = theta + 6 + 4 * finger;
        Transform t = joint ? turn(angles[joint + 1], 0, by) : turn(angles[0], angles[1], by);
        return multiply(base, t, by == 0);
    }

    Hand(const double *theta, const double *relatives, const double *inverses)
        : theta(theta), relatives(relatives), inverses(inverses) {
        for (int bone = 0; bone < BONES; bone++) {
            Transform own = relative(bone, 0);
            absolutes[bone] = bone ? multiply(absolutes[parent_of(bone)], own, 1) : own;
            moved[bone] = multiply(absolutes[bone], read(inverses + 16 * bone), 1);
        }
    }

    // Writes how the transforms of a finger's bones change with its angle of a number from 0 to 3.
    int derivatives(int finger, int angle, Transform *found) const {
        int joint = angle < 2 ? 0 : angle - 1, first = FIRST + finger * OF_FINGER;
        Transform change;
        for (int j = joint; j < OF_FINGER; j++) {
            if (j == joint)
                change = multiply(absolutes[parent_of(first + j)],
                                  relative(first + j, angle == 1 ? 2 : 1), 0);
            else {
                Transform own = relative(first + j, 0);
                change = multiply(change, own, 1);
            }
            found[j] = multiply(change, read(inverses + 16 * (first + j)), 1);
        }
        return joint;
    }
};

// Turns about an axis by as much as it is long.
Rotation about(const double *axis) {
    double angle = std::sqrt(axis[0] * axis[0] + axis[1] * axis[1] + axis[2] * axis[2]);
    double x = axis[0] / angle, y = axis[1] / angle, z = axis[2] / angle;
    double s = std::sin(angle), c = std::cos(angle);
    return {{{x * x + (1 - x * x) * c, x * y * (1 - c) - z * s, x * z * (1 - c) + y * s},
             {x * y * (1 - c) + z * s, y * y + (1 - y * y) * c, y * z * (1 - c) - x * s},
             {x * z * (1 - c) - y * s, z * y * (1 - c) + x * s, z * z + (1 - z * z) * c}}};
}

// Its derivative by a component of the axis.
Rotation about_by(const double *axis, int by) {
    double angle = std::sqrt(axis[0] * axis[0] + axis[1] * axis[1] + axis[2] * axis[2]);
    double u[3], du[3], s = std::sin(angle), c = std::cos(angle), da = axis[by] / angle;
    for (int i = 0; i < 3; i++) {
        u[i] = axis[i] / angle;
        du[i] = ((i == by) - u[i] * da) / angle;
    }
    Rotation r;
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) {
            double pair = (du[i] * u[j] + u[i] * du[j]) * (1 - c) + u[i] * u[j] * s * da;
            int k = 3 - i - j;
            double sign = (j - i + 3) % 3 == 1 ? -1 : 1;
            r.m[i][j] = i == j ? pair - s * da : pair + sign * (du[k] * s + u[k] * c * da);
        }
    return r;
}

void place(const Transform &t, double weight, const double *position, double *found) {
    for (int i = 0; i < 3; i++) {
        double total = 0;
        for (int j = 0; j < 4; j++) total += t.m[i][j] * position[j];
        found[i] += weight * total;
    }
}

void rotate(const Rotation &r, const double *a, double *found) {
    for (int i = 0; i < 3; i++)
        found[i] = r.m[i][0] * a[0] + r.m[i][1] * a[1] + r.m[i][2] * a[2];
}

// Where the vertices are before the whole hand is turned: three numbers for each.
std::vector<double> skin(const Hand &hand, const double *positions, const double *weights,
                         int64_t vertices) {
    std::vector<double> found(3 * vertices);
    for (int64_t v = 0; v < vertices; v++) {
        // The weighted sum of transforms, and then one product.
        Transform sum = {};
        for (int b = 0; b < BONES; b++)
            for (int i = 0; i < 3; i++)
                for (int j = 0; j < 4; j++) sum.m[i][j] += weights[v * BONES + b] * hand.moved[b].m[i][j];
        place(sum, 1, positions + 4 * v, &found[3 * v]);
    }
    return found;
}

}  // namespace

extern "C" void ht_objective(const double *theta, const double *us, const double *points,
                             const int64_t *correspondences, const int64_t *triangles,
                             const double *relatives, const double *inverses,
                             const double *positions, const double *weights, int64_t count,
                             int64_t vertices, double *errors) {
    Hand hand(theta, relatives, inverses);
    std::vector<double> placed = skin(hand, positions, weights, vertices), turned(3 * vertices);
    Rotation r = about(theta);
    for (int64_t v = 0; v < vertices; v++) {
        rotate(r, &placed[3 * v], &turned[3 * v]);
        for (int i = 0; i < 3; i++) turned[3 * v + i] += theta[3 + i];
    }
    for (int64_t p = 0; p < count; p++) {
        const int64_t *corner = triangles + 3 * correspondences[p];
        const double *a = &turned[3 * corner[0]], *b = &turned[3 * corner[1]];
        const double *c = &turned[3 * corner[2]];
        double u = us[2 * p], v = us[2 * p + 1];
        for (int i = 0; i < 3; i++)
            errors[3 * p + i] = points[3 * p + i] - (u * a[i] + v * b[i] + (1 - u - v) * c[i]);
    }
}

extern "C" void ht_jacobian(const double *theta, const double *us, const double *points,
                            const int64_t *correspondences, const int64_t *triangles,
                            const double *relatives, const double *inverses,
                            const double *positions, const double *weights, int64_t count,
                            int64_t vertices, double *rows) {
    Hand hand(theta, relatives, inverses);
    std::vector<double> placed = skin(hand, positions, weights, vertices), turned(3 * vertices);
    Rotation r = about(theta);
    // Of each vertex, the derivatives by the pose, in rows of POSE for each coordinate.
    std::vector<double> changes(3 * POSE * vertices);
    for (int64_t v = 0; v < vertices; v++) {
        rotate(r, &placed[3 * v], &turned[3 * v]);
        for (int i = 0; i < 3; i++) changes[(3 * v + i) * POSE + 3 + i] = 1;
    }
    for (int k = 0; k < 3; k++) {
        Rotation by = about_by(theta, k);
        for (int64_t v = 0; v < vertices; v++) {
            double g[3];
            rotate(by, &placed[3 * v], g);
            for (int i = 0; i < 3; i++) changes[(3 * v + i) * POSE + k] = g[i];
        }
    }
    for (int finger = 0; finger < FINGERS; finger++)
        for (int angle = 0; angle < 4; angle++) {
            Transform by[OF_FINGER];
            int joint = hand.derivatives(finger, angle, by);
            for (int64_t v = 0; v < vertices; v++) {
                const double *weight = weights + v * BONES + FIRST + finger * OF_FINGER;
                double moved[3] = {0, 0, 0}, g[3];
                for (int j = joint; j < OF_FINGER; j++)
                    place(by[j], weight[j], positions + 4 * v, moved);
                rotate(r, moved, g);
                for (int i = 0; i < 3; i++)
                    changes[(3 * v + i) * POSE + 6 + 4 * finger + angle] = g[i];
            }
        }
    for (int64_t p = 0; p < count; p++) {
        const int64_t *corner = triangles + 3 * correspondences[p];
        double u = us[2 * p], v = us[2 * p + 1], w = 1 - u - v;
        for (int i = 0; i < 3; i++) {
            int64_t a = 3 * corner[0] + i, b = 3 * corner[1] + i, c = 3 * corner[2] + i;
            double *row = rows + (3 * p + i) * WIDTH;
            row[0] = turned[c] - turned[a];
            row[1] = turned[c] - turned[b];
            for (int k = 0; k < POSE; k++)
                row[2 + k] = -(u * changes[a * POSE + k] + v * changes[b * POSE + k] +
                               w * changes[c * POSE + k]);
        }
    }
}
