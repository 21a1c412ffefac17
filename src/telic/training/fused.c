/* Gradient steps of PPO for one member on a CPU, equal to those of ppo.py up to rounding.

   For small networks, most of the time of a gradient step in PyTorch is the overhead of about 300
   small operations. Here one call takes all the steps of an epoch. Matrix products are blocked for
   registers, and every width is padded to LANES, so no loop has a remainder in its columns. */

#include <stddef.h>
#include <stdint.h>

#if defined(__AVX512F__)
enum { LANES = 16 };
#elif defined(__AVX2__)
enum { LANES = 8 };
#else
enum { LANES = 4 };
#endif
enum { ROWS = 8, DEPTH = 8 };
enum { TANH, ELU, RELU };
enum { STOP_AT_KL, STEER_RATE, KEEP_RATE };
enum { ACTIVE = 1, FINITE = 2 };

typedef float Vec __attribute__((vector_size(4 * LANES), may_alias));
typedef int32_t IntVec __attribute__((vector_size(4 * LANES), may_alias));

#define UNROLLED _Pragma("GCC unroll 8")
#define INLINE static inline __attribute__((always_inline))
/* Arguments of `ppo_epoch`: the structure of the same name in fused.py. */
typedef struct {
    int32_t layers, activation, schedule;
    int32_t actor_widths[DEPTH + 1], critic_widths[DEPTH + 1];
    int32_t minibatch, samples;
    float clip, entropy_coef, value_coef, max_grad_norm, target_kl, kl_stop;
    float beta1, beta2, epsilon, half_log_tau, lowest_rate, highest_rate;
    double power1, power2; /* beta^(steps so far) */
    const float *inputs, *actions, *log_probs, *advantages, *returns, *mask, *rate_factors;
    const int64_t *order;
    float *flat, *first, *second, *gradient, *rate, *count;
    float *sums; /* of the losses, the norm of the gradient and the number of steps */
} Epoch;

/* Activations and padded weights of one network. */
typedef struct {
    int layers;
    const int32_t *widths;
    float *values[DEPTH + 1]; /* inputs, hidden activations and outputs, (rows, width) */
    float *weights[DEPTH], *transposed[DEPTH], *biases[DEPTH], *toward_weights[DEPTH];
    float *delta[2];
} Net;

INLINE ptrdiff_t padded(ptrdiff_t width) { return (width + LANES - 1) / LANES * LANES; }

INLINE Vec splat(float x) { return x - (Vec){0}; }

INLINE Vec select(IntVec mask, Vec a, Vec b) {
    return (Vec)(((IntVec)a & mask) | ((IntVec)b & ~mask));
}

INLINE Vec bounded(Vec x, float low, float high) {
    x = select(x < low, splat(low), x);
    return select(x > high, splat(high), x);
}

/* exp(x) - 1 = 2^n (exp(r) - 1) + 2^n - 1 with x = n log 2 + r, which is exact near zero. */
INLINE Vec exp_minus_1(Vec x) {
    x = bounded(x, -87.0f, 88.0f);
    IntVec n = __builtin_convertvector(x * 1.44269504f + select(x < 0.0f, splat(-0.5f), splat(0.5f)), IntVec);
    Vec whole = __builtin_convertvector(n, Vec);
    Vec r = x - whole * 0.693359375f + whole * 2.12194440e-4f;
    Vec series = splat(1.0f / 5040.0f);
    series = series * r + 1.0f / 720.0f;
    series = series * r + 1.0f / 120.0f;
    series = series * r + 1.0f / 24.0f;
    series = series * r + 1.0f / 6.0f;
    series = series * r + 0.5f;
    Vec small = series * r * r + r;
    Vec power = (Vec)((n + 127) << 23);
    return power * small + (power - 1.0f);
}

INLINE Vec activated(int kind, Vec x) {
    if (kind == RELU) return select(x > 0.0f, x, splat(0.0f));
    if (kind == ELU) return select(x > 0.0f, x, exp_minus_1(x));
    Vec e = exp_minus_1(2.0f * bounded(x, -10.0f, 10.0f));
    return e / (e + 2.0f);
}

/* Derivative of the activation as a function of its value y. */
INLINE Vec slope(int kind, Vec y) {
    if (kind == RELU) return select(y > 0.0f, splat(1.0f), splat(0.0f));
    if (kind == ELU) return select(y > 0.0f, splat(1.0f), y + 1.0f);
    return 1.0f - y * y;
}

/* c[r] = bias + sum_k a[r, k] b[k] for `rows` rows and LANES columns. */
INLINE void tile(const int rows, int depth, const float *a, ptrdiff_t row, ptrdiff_t column,
                 const float *b, ptrdiff_t b_row, Vec bias, float *c, ptrdiff_t c_row) {
    Vec sum[ROWS];
    UNROLLED for (int r = 0; r < rows; r++) sum[r] = bias;
    for (int k = 0; k < depth; k++) {
        Vec w = *(const Vec *)(b + k * b_row);
        UNROLLED for (int r = 0; r < rows; r++) sum[r] += a[r * row + k * column] * w;
    }
    UNROLLED for (int r = 0; r < rows; r++) *(Vec *)(c + r * c_row) = sum[r];
}

/* c = bias + a b for c (rows, width), where `width` is padded and a has the given strides. */
INLINE void product(int rows, int width, int depth, const float *a, ptrdiff_t row, ptrdiff_t column,
                    const float *b, ptrdiff_t b_row, const float *bias, float *c, ptrdiff_t c_row) {
    for (int j = 0; j < width; j += LANES) {
        Vec from = bias ? *(const Vec *)(bias + j) : splat(0.0f);
        int i = 0;
        for (; i + ROWS <= rows; i += ROWS)
            tile(ROWS, depth, a + i * row, row, column, b + j, b_row, from, c + i * c_row + j, c_row);
        for (; i < rows; i++)
            tile(1, depth, a + i * row, row, column, b + j, b_row, from, c + i * c_row + j, c_row);
    }
}

INLINE float *take(float **memory, ptrdiff_t count) {
    float *start = *memory;
    *memory += padded(count);
    return start;
}

/* Lay out the arrays of a network in the scratch memory. */
INLINE void lay_out(Net *net, int layers, const int32_t *widths, int rows, float **memory) {
    ptrdiff_t widest = 0;
    net->layers = layers, net->widths = widths;
    for (int l = 0; l <= layers; l++) {
        ptrdiff_t width = padded(widths[l]);
        widest = width > widest ? width : widest;
        net->values[l] = take(memory, rows * width);
        if (l == layers) break;
        net->weights[l] = take(memory, widths[l] * padded(widths[l + 1]));
        net->toward_weights[l] = take(memory, widths[l] * padded(widths[l + 1]));
        net->transposed[l] = take(memory, widths[l + 1] * width);
        net->biases[l] = take(memory, widths[l + 1]);
    }
    for (int i = 0; i < 2; i++) net->delta[i] = take(memory, rows * widest);
}

/* Copy the weights of a network from `weights` and `biases`, which are advanced. */
INLINE void load(Net *net, const float **weights, const float **biases) {
    for (int l = 0; l < net->layers; l++) {
        int in = net->widths[l], out = net->widths[l + 1];
        for (int i = 0; i < in; i++)
            for (int j = 0; j < out; j++) {
                float w = (*weights)[i * out + j];
                net->weights[l][i * padded(out) + j] = w;
                net->transposed[l][j * padded(in) + i] = w;
            }
        for (int j = 0; j < out; j++) net->biases[l][j] = (*biases)[j];
        *weights += in * out, *biases += out;
    }
}

INLINE void forward(Net *net, int kind, int rows) {
    for (int l = 0; l < net->layers; l++) {
        ptrdiff_t in = padded(net->widths[l]), out = padded(net->widths[l + 1]);
        product(rows, out, net->widths[l], net->values[l], in, 1, net->weights[l], out,
                net->biases[l], net->values[l + 1], out);
        if (l + 1 == net->layers) break;
        for (ptrdiff_t i = 0; i < rows * out; i += LANES) {
            Vec *y = (Vec *)(net->values[l + 1] + i);
            *y = activated(kind, *y);
        }
    }
}

/* Write the gradients of weights and biases. delta[0] is the gradient of the outputs. */
INLINE void backward(Net *net, int kind, int rows, float **weights, float **biases) {
    int at = 0;
    for (int l = 0; l < net->layers; l++)
        *weights += net->widths[l] * net->widths[l + 1], *biases += net->widths[l + 1];
    float *w = *weights, *b = *biases;
    for (int l = net->layers - 1; l >= 0; l--, at = !at) {
        int in = net->widths[l], out = net->widths[l + 1];
        ptrdiff_t in_row = padded(in), out_row = padded(out);
        const float *delta = net->delta[at], *x = net->values[l];
        product(in, out_row, rows, x, 1, in_row, delta, out_row, NULL, net->toward_weights[l], out_row);
        w -= in * out, b -= out;
        for (int i = 0; i < in; i++)
            for (int j = 0; j < out; j++) w[i * out + j] = net->toward_weights[l][i * out_row + j];
        for (int j = 0; j < out; j++) b[j] = 0.0f;
        for (int s = 0; s < rows; s++)
            for (int j = 0; j < out; j++) b[j] += delta[s * out_row + j];
        if (!l) break;
        float *back = net->delta[!at];
        product(rows, in_row, out, delta, out_row, 1, net->transposed[l], in_row, NULL, back, in_row);
        for (ptrdiff_t i = 0; i < rows * in_row; i += LANES)
            *(Vec *)(back + i) *= slope(kind, *(const Vec *)(x + i));
    }
}

/* Gradient of the loss at the outputs, and the loss components. Returns the KL divergence. */
INLINE float loss(const Epoch *e, Net *actor, Net *critic, int rows, const int64_t *order,
                  const float *log_std, float *toward_log_std, float *scratch, double *parts) {
    int width = actor->widths[actor->layers];
    ptrdiff_t row = padded(width);
    float *ratio = take(&scratch, rows), *log_ratio = take(&scratch, rows);
    float *inverse = take(&scratch, width), *z = take(&scratch, rows * row);
    float constant = width * e->half_log_tau;
    for (int j = 0; j < width; j++) inverse[j] = -log_std[j], constant += log_std[j];
    for (ptrdiff_t j = 0; j < row; j += LANES) *(Vec *)(inverse + j) = exp_minus_1(*(Vec *)(inverse + j)) + 1.0f;
    const float *means = actor->values[actor->layers], *values = critic->values[critic->layers];
    for (int s = 0; s < rows; s++) {
        float square = 0.0f;
        for (int j = 0; j < width; j++) {
            float one = (e->actions[order[s] * width + j] - means[s * row + j]) * inverse[j];
            z[s * row + j] = one, square += one * one;
        }
        log_ratio[s] = -0.5f * square - constant - e->log_probs[order[s]];
    }
    for (int s = 0; s < rows; s += LANES)
        *(Vec *)(ratio + s) = exp_minus_1(*(Vec *)(log_ratio + s)) + 1.0f;
    double policy = 0, error_2 = 0, kl = 0, clipped = 0, total = 0;
    float *toward = actor->delta[0], *toward_value = critic->delta[0];
    ptrdiff_t value_row = padded(1);
    for (int j = 0; j < width; j++) toward_log_std[j] = 0.0f;
    for (int s = 0; s < rows; s++) {
        float advantage = e->advantages[order[s]], low = 1.0f - e->clip, high = 1.0f + e->clip;
        float inside = ratio[s] < low ? low : ratio[s] > high ? high : ratio[s];
        float plain = ratio[s] * advantage, limited = inside * advantage;
        float slope = plain <= limited ? -plain / rows : 0.0f;
        for (int j = 0; j < width; j++) {
            float weighted = slope * z[s * row + j];
            toward[s * row + j] = weighted * inverse[j];
            toward_log_std[j] += weighted * z[s * row + j];
        }
        float error = values[s * value_row] - e->returns[order[s]];
        toward_value[s * value_row] = error * (e->value_coef * 2.0f / rows);
        /* written so that NaN reaches the sums */
        policy -= plain <= limited ? plain : limited, error_2 += (double)error * error;
        kl += ratio[s] - log_ratio[s], clipped += ratio[s] != inside, total += slope;
    }
    for (int j = 0; j < width; j++) toward_log_std[j] -= (float)total + e->entropy_coef;
    kl = kl / rows - 1.0;
    parts[0] = policy / rows, parts[1] = error_2 / rows, parts[3] = kl, parts[4] = clipped / rows;
    parts[2] = constant + 0.5f * width;
    return (float)kl;
}

/* Adam with clipping by norm. */
INLINE void adam(Epoch *e, ptrdiff_t size, float norm) {
    float limit = e->max_grad_norm / (norm + 1e-6f), factor = limit < 1.0f ? limit : 1.0f;
    e->power1 *= e->beta1, e->power2 *= e->beta2;
    float rate = *e->rate * (float)(__builtin_sqrt(1.0 - e->power2) / (1.0 - e->power1));
    float *restrict flat = e->flat, *restrict first = e->first, *restrict second = e->second;
    const float *restrict gradient = e->gradient, *factors = e->rate_factors;
    float take1 = 1.0f - e->beta1, take2 = 1.0f - e->beta2, keep2 = e->beta2, epsilon = e->epsilon;
    for (ptrdiff_t i = 0; i < size; i++) {
        float g = gradient[i] * factor;
        first[i] += take1 * (g - first[i]);
        second[i] = second[i] * keep2 + take2 * g * g;
        float step = rate * first[i] / (__builtin_sqrtf(second[i]) + epsilon);
        flat[i] -= factors ? step * factors[i] : step;
    }
}

INLINE void gather(Net *net, const Epoch *e, int rows, const int64_t *order, const float *mask) {
    int width = net->widths[0], all = e->critic_widths[0];
    ptrdiff_t row = padded(width);
    for (int s = 0; s < rows; s++) {
        const float *from = e->inputs + order[s] * all;
        float *to = net->values[0] + s * row;
        for (int j = 0; j < width; j++) to[j] = mask ? from[j] * mask[j] : from[j];
    }
}

/* Return the number of scratch floats that `ppo_epoch` needs, which must be zero at first. */
int64_t ppo_scratch(const Epoch *e) {
    Net net;
    float *memory = NULL;
    lay_out(&net, e->layers, e->actor_widths, e->minibatch, &memory);
    lay_out(&net, e->layers, e->critic_widths, e->minibatch, &memory);
    take(&memory, e->minibatch), take(&memory, e->minibatch), take(&memory, e->actor_widths[e->layers]);
    take(&memory, e->minibatch * padded(e->actor_widths[e->layers]));
    return memory - (float *)NULL;
}

/* Take the gradient steps of one epoch. Returns ACTIVE unless the member stopped, and FINITE. */
int32_t ppo_epoch(Epoch *e, float *scratch) {
    Net actor, critic;
    lay_out(&actor, e->layers, e->actor_widths, e->minibatch, &scratch);
    lay_out(&critic, e->layers, e->critic_widths, e->minibatch, &scratch);
    int width = e->actor_widths[e->layers];
    ptrdiff_t weights = 0, biases = 0;
    for (int l = 0; l < e->layers; l++) {
        weights += e->actor_widths[l] * e->actor_widths[l + 1] + e->critic_widths[l] * e->critic_widths[l + 1];
        biases += e->actor_widths[l + 1] + e->critic_widths[l + 1];
    }
    ptrdiff_t size = weights + biases + width;
    for (int start = 0; start < e->samples; start += e->minibatch) {
        int left = e->samples - start, rows = left < e->minibatch ? left : e->minibatch;
        const int64_t *order = e->order + start;
        const float *w = e->flat, *b = e->flat + weights;
        load(&actor, &w, &b), load(&critic, &w, &b);
        gather(&actor, e, rows, order, e->mask), gather(&critic, e, rows, order, NULL);
        forward(&actor, e->activation, rows), forward(&critic, e->activation, rows);
        double parts[6];
        float *to = e->gradient, *to_bias = e->gradient + weights;
        float kl = loss(e, &actor, &critic, rows, order, e->flat + weights + biases,
                        e->gradient + weights + biases, scratch, parts);
        backward(&actor, e->activation, rows, &to, &to_bias);
        backward(&critic, e->activation, rows, &to, &to_bias);
        double square = 0.0;
        for (ptrdiff_t i = 0; i < size; i++) square += (double)e->gradient[i] * e->gradient[i];
        float norm = (float)__builtin_sqrt(square);
        parts[5] = norm;
        for (int i = 0; i < 6; i++) e->sums[i] += (float)parts[i];
        e->sums[6] += 1.0f;
        if (!(norm - norm == 0.0f)) return 0;
        if (e->schedule == STEER_RATE) {
            float factor = kl > 2.0f * e->target_kl ? 1.0f / 1.5f : kl < 0.5f * e->target_kl ? 1.5f : 1.0f;
            float rate = *e->rate * factor;
            *e->rate = rate < e->lowest_rate ? e->lowest_rate : rate > e->highest_rate ? e->highest_rate : rate;
        } else if (e->schedule == STOP_AT_KL && !(kl <= e->kl_stop * e->target_kl))
            return FINITE;
        adam(e, size, norm);
        *e->count += 1.0f;
    }
    return ACTIVE | FINITE;
}
