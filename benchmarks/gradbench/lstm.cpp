// LSTM of GradBench, and its gradient by hand.

#include <cmath>
#include <cstdint>
#include <vector>

namespace {

const int UNITS = 14, GATES = 4 * UNITS;

// What the gradient of one layer needs of one step.
struct Tape {
    double x[UNITS], hidden[UNITS], cell[UNITS];
    double forget[UNITS], ingate[UNITS], outgate[UNITS], change[UNITS], squashed[UNITS];
};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// From x, hidden and cell of the tape all else of it; writes the state after.
void forward(const double *w, const double *b, Tape &t, double *hidden, double *cell) {
    for (int j = 0; j < UNITS; j++) {
        t.forget[j] = sigmoid(t.x[j] * w[j] + b[j]);
        t.ingate[j] = sigmoid(t.hidden[j] * w[UNITS + j] + b[UNITS + j]);
        t.outgate[j] = sigmoid(t.x[j] * w[2 * UNITS + j] + b[2 * UNITS + j]);
        t.change[j] = std::tanh(t.hidden[j] * w[3 * UNITS + j] + b[3 * UNITS + j]);
        cell[j] = t.cell[j] * t.forget[j] + t.ingate[j] * t.change[j];
        t.squashed[j] = std::tanh(cell[j]);
        hidden[j] = t.outgate[j] * t.squashed[j];
    }
}

// From the adjoints of the state after to those of x and of the state before; adds to gw and gb.
void backward(const double *w, const Tape &t, double *gx, double *ghidden, double *gcell,
              double *gw, double *gb) {
    for (int j = 0; j < UNITS; j++) {
        double g = gx[j] + ghidden[j];
        double c = gcell[j] + g * t.outgate[j] * (1 - t.squashed[j] * t.squashed[j]);
        double f = c * t.cell[j] * t.forget[j] * (1 - t.forget[j]);
        double i = c * t.change[j] * t.ingate[j] * (1 - t.ingate[j]);
        double o = g * t.squashed[j] * t.outgate[j] * (1 - t.outgate[j]);
        double a = c * t.ingate[j] * (1 - t.change[j] * t.change[j]);
        gb[j] += f;
        gb[UNITS + j] += i;
        gb[2 * UNITS + j] += o;
        gb[3 * UNITS + j] += a;
        gw[j] += f * t.x[j];
        gw[UNITS + j] += i * t.hidden[j];
        gw[2 * UNITS + j] += o * t.x[j];
        gw[3 * UNITS + j] += a * t.hidden[j];
        gx[j] = f * w[j] + o * w[2 * UNITS + j];
        ghidden[j] = i * w[UNITS + j] + a * w[3 * UNITS + j];
        gcell[j] = c * t.forget[j];
    }
}

// Returns the likelihood of a row, and writes the shares of the exponentials in their sum.
double likelihood(const double *extra, const double *x, const double *wanted, double *shares) {
    double predicted[UNITS], total = 2, found = 0;
    for (int j = 0; j < UNITS; j++) {
        predicted[j] = x[j] * extra[UNITS + j] + extra[2 * UNITS + j];
        shares[j] = std::exp(predicted[j]);
        total += shares[j];
    }
    double logarithm = std::log(total);
    for (int j = 0; j < UNITS; j++) {
        shares[j] /= total;
        found += wanted[j] * (predicted[j] - logarithm);
    }
    return found;
}

// Runs all layers on a row, with a tape for each; returns the hidden state of the last one.
const double *step(const double *params, const double *extra, int64_t layers, const double *row,
                   double *states, Tape *tapes) {
    double first[UNITS];
    for (int j = 0; j < UNITS; j++) first[j] = row[j] * extra[j];
    const double *x = first;
    for (int64_t l = 0; l < layers; l++) {
        double *hidden = states + 2 * l * UNITS, *cell = hidden + UNITS;
        for (int j = 0; j < UNITS; j++) {
            tapes[l].x[j] = x[j];
            tapes[l].hidden[j] = hidden[j];
            tapes[l].cell[j] = cell[j];
        }
        const double *w = params + 2 * l * GATES;
        forward(w, w + GATES, tapes[l], hidden, cell);
        x = hidden;
    }
    return states + 2 * (layers - 1) * UNITS;
}

}  // namespace

extern "C" void lstm_objective(const double *params, const double *extra, const double *state,
                               const double *sequence, int64_t layers, int64_t length, double *y) {
    std::vector<double> states(state, state + 2 * layers * UNITS);
    std::vector<Tape> tapes(layers);
    double total = 0, shares[UNITS];
    for (int64_t t = 0; t + 1 < length; t++) {
        const double *row = sequence + t * UNITS;
        const double *x = step(params, extra, layers, row, states.data(), tapes.data());
        total += likelihood(extra, x, row + UNITS, shares);
    }
    *y = -total / (UNITS * (length - 1));
}

extern "C" void lstm_jacobian(const double *params, const double *extra, const double *state,
                              const double *sequence, int64_t layers, int64_t length, double *g) {
    std::vector<double> states(state, state + 2 * layers * UNITS), outputs(length * UNITS);
    std::vector<double> shares(length * UNITS), adjoints(2 * layers * UNITS);
    std::vector<Tape> tapes(length * layers);
    double scale = -1.0 / (UNITS * (length - 1)), *gextra = g + 2 * layers * GATES;
    for (int64_t i = 0; i < 2 * layers * GATES + 3 * UNITS; i++) g[i] = 0;
    for (int64_t t = 0; t + 1 < length; t++) {
        const double *row = sequence + t * UNITS;
        const double *x = step(params, extra, layers, row, states.data(), &tapes[t * layers]);
        for (int j = 0; j < UNITS; j++) outputs[t * UNITS + j] = x[j];
        likelihood(extra, x, row + UNITS, &shares[t * UNITS]);
    }
    for (int64_t t = length - 2; t >= 0; t--) {
        const double *row = sequence + t * UNITS, *wanted = row + UNITS;
        double gx[UNITS], sum = 0;
        for (int j = 0; j < UNITS; j++) sum += wanted[j];
        for (int j = 0; j < UNITS; j++) {
            double seed = scale * (wanted[j] - sum * shares[t * UNITS + j]);
            gextra[UNITS + j] += seed * outputs[t * UNITS + j];
            gextra[2 * UNITS + j] += seed;
            gx[j] = seed * extra[UNITS + j];
        }
        for (int64_t l = layers - 1; l >= 0; l--) {
            double *ghidden = &adjoints[2 * l * UNITS], *gw = g + 2 * l * GATES;
            backward(params + 2 * l * GATES, tapes[t * layers + l], gx, ghidden, ghidden + UNITS,
                     gw, gw + GATES);
        }
        for (int j = 0; j < UNITS; j++) gextra[j] += gx[j] * row[j];
    }
}
