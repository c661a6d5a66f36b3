// Bundle adjustment of GradBench: residuals, and their Jacobian by hand, in compressed sparse rows.

#include <cmath>
#include <cstdint>

namespace {

const int OF_CAMERA = 11, OF_POINT = 3, WIDTH = 15;

struct Vector {
    double x, y, z;
};

Vector operator+(Vector a, Vector b) { return {a.x + b.x, a.y + b.y, a.z + b.z}; }
Vector operator*(double s, Vector a) { return {s * a.x, s * a.y, s * a.z}; }
double dot(Vector a, Vector b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
Vector cross(Vector a, Vector b) {
    return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}

// A point as a camera has it, and what is known of it on the way to where it is seen.
struct Projection {
    Vector offset, axis, turned;
    double angle, sine, cosine, along, u, v, square, distortion;

    Projection(const double *camera, const double *point) {
        offset = {point[0] - camera[3], point[1] - camera[4], point[2] - camera[5]};
        Vector rotation = {camera[0], camera[1], camera[2]};
        angle = std::sqrt(dot(rotation, rotation));
        axis = 1 / angle * rotation;
        sine = std::sin(angle);
        cosine = std::cos(angle);
        along = dot(axis, offset);
        turned = cosine * offset + sine * cross(axis, offset) + along * (1 - cosine) * axis;
        u = turned.x / turned.z;
        v = turned.y / turned.z;
        square = u * u + v * v;
        distortion = 1 + camera[9] * square + camera[10] * square * square;
    }
};

// Writes the derivatives of one coordinate of an error: `seed` is that by the place, undistorted.
void write_row(const double *camera, const Projection &p, double w, double place, double error,
               double seed_u, double seed_v, bool is_first, double *row) {
    double focal = camera[6];
    Vector seed = {seed_u / p.turned.z, seed_v / p.turned.z,
                   -(seed_u * p.u + seed_v * p.v) / p.turned.z};
    // The rotation is orthogonal: its transpose turns back.
    Vector back = p.cosine * seed + -p.sine * cross(p.axis, seed) +
                  dot(p.axis, seed) * (1 - p.cosine) * p.axis;
    // By the unit axis, and by the angle, and from those to the rotation.
    Vector by_axis = p.sine * cross(p.offset, seed) +
                     (1 - p.cosine) * (dot(p.axis, seed) * p.offset + p.along * seed);
    double by_angle = -p.sine * dot(p.offset, seed) + p.cosine * dot(cross(p.axis, p.offset), seed) +
                      p.along * p.sine * dot(p.axis, seed);
    Vector by_rotation = 1 / p.angle * (by_axis + -dot(p.axis, by_axis) * p.axis) +
                         by_angle * p.axis;
    row[0] = by_rotation.x;
    row[1] = by_rotation.y;
    row[2] = by_rotation.z;
    row[3] = -back.x;
    row[4] = -back.y;
    row[5] = -back.z;
    row[6] = w * place * p.distortion;
    row[7] = is_first ? w : 0;
    row[8] = is_first ? 0 : w;
    row[9] = w * focal * place * p.square;
    row[10] = w * focal * place * p.square * p.square;
    row[11] = back.x;
    row[12] = back.y;
    row[13] = back.z;
    row[14] = error;
}

}  // namespace

extern "C" void ba_objective(const double *cams, const double *x, const double *w,
                             const double *feat, int64_t n, int64_t m, int64_t count,
                             double *errors, double *of_weights) {
    for (int64_t i = 0; i < count; i++) {
        const double *camera = cams + OF_CAMERA * (i % n);
        Projection p(camera, x + OF_POINT * (i % m));
        errors[2 * i] = w[i] * (p.u * p.distortion * camera[6] + camera[7] - feat[2 * i]);
        errors[2 * i + 1] = w[i] * (p.v * p.distortion * camera[6] + camera[8] - feat[2 * i + 1]);
        of_weights[i] = 1 - w[i] * w[i];
    }
}

extern "C" void ba_jacobian(const double *cams, const double *x, const double *w,
                            const double *feat, int64_t n, int64_t m, int64_t count,
                            int32_t *rows, int32_t *columns, double *values) {
    for (int64_t i = 0; i < count; i++) {
        int64_t number = i % n, point = i % m;
        const double *camera = cams + OF_CAMERA * number;
        Projection p(camera, x + OF_POINT * point);
        double scale = w[i] * camera[6], by_square = camera[9] + 2 * camera[10] * p.square;
        double eu = p.u * p.distortion * camera[6] + camera[7] - feat[2 * i];
        double ev = p.v * p.distortion * camera[6] + camera[8] - feat[2 * i + 1];
        double mixed = scale * by_square * 2 * p.u * p.v;
        double *row = values + 2 * WIDTH * i;
        write_row(camera, p, w[i], p.u, eu,
                  scale * (p.distortion + by_square * 2 * p.u * p.u), mixed, true, row);
        write_row(camera, p, w[i], p.v, ev, mixed,
                  scale * (p.distortion + by_square * 2 * p.v * p.v), false, row + WIDTH);
        for (int r = 0; r < 2; r++) {
            int32_t *column = columns + (2 * i + r) * WIDTH;
            for (int j = 0; j < OF_CAMERA; j++) column[j] = OF_CAMERA * number + j;
            for (int j = 0; j < OF_POINT; j++)
                column[OF_CAMERA + j] = OF_CAMERA * n + OF_POINT * point + j;
            column[WIDTH - 1] = OF_CAMERA * n + OF_POINT * m + i;
            rows[2 * i + r] = (2 * i + r) * WIDTH;
        }
        values[2 * WIDTH * count + i] = -2 * w[i];
        columns[2 * WIDTH * count + i] = OF_CAMERA * n + OF_POINT * m + i;
        rows[2 * count + 1 + i] = 2 * WIDTH * count + 1 + i;
    }
    rows[2 * count] = 2 * WIDTH * count;
}
