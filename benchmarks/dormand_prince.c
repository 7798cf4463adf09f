/* Dormand-Prince 5(4) with dense output, as the yardstick of benchmarks/ode.py.
 *
 * The same algorithm as SciPy's RK45, so that steps and results agree: elementary step-size control with safety 0.9 and
 * factors within [0.2, 10], the starting step of Hairer, Norsett and Wanner (Solving Ordinary Differential Equations I,
 * II.4), the quartic interpolant of Shampine (1986). The error is the largest root mean square of the blocks of n
 * components that count: the states alone, or the states and their sensitivities to each parameter, whose absolute
 * tolerance is atol / max(|p|, 1). Sizes are constants in every caller, so that the compiler unrolls the loops.
 */
#include <math.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))
#define MOST 16 /* components */

typedef void (*Rhs)(double t, const double *y, const double *p, double *dy);

enum { OK = 0, TOO_MANY_STEPS = 1, NON_FINITE = 2, STEP_TOO_SMALL = 3 };

static const double A[6][5] = {
    {0},
    {1.0 / 5},
    {3.0 / 40, 9.0 / 40},
    {44.0 / 45, -56.0 / 15, 32.0 / 9},
    {19372.0 / 6561, -25360.0 / 2187, 64448.0 / 6561, -212.0 / 729},
    {9017.0 / 3168, -355.0 / 33, 46732.0 / 5247, 49.0 / 176, -5103.0 / 18656}};
static const double B[6] = {35.0 / 384, 0, 500.0 / 1113, 125.0 / 192, -2187.0 / 6784, 11.0 / 84};
static const double C[6] = {0, 1.0 / 5, 3.0 / 10, 4.0 / 5, 8.0 / 9, 1};
static const double E[7] = {-71.0 / 57600, 0, 71.0 / 16695, -71.0 / 1920, 17253.0 / 339200, -22.0 / 525, 1.0 / 40};
static const double P[7][4] = {
    {1, -8048581381.0 / 2820520608, 8663915743.0 / 2820520608, -12715105075.0 / 11282082432},
    {0, 0, 0, 0},
    {0, 131558114200.0 / 32700410799, -68118460800.0 / 10900136933, 87487479700.0 / 32700410799},
    {0, -1754552775.0 / 470086768, 14199869525.0 / 1410260304, -10690763975.0 / 1880347072},
    {0, 127303824393.0 / 49829197408, -318862633887.0 / 49829197408, 701980252875.0 / 199316789632},
    {0, -282668133.0 / 205662961, 2019193451.0 / 616988883, -1453857185.0 / 822651844},
    {0, 40617522.0 / 29380423, -110615467.0 / 29380423, 69997945.0 / 29380423}};

INLINE double norm(int n, const double *v, const double *scale) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += (v[i] / scale[i]) * (v[i] / scale[i]);
    return sqrt(sum / n);
}

INLINE double first_step(Rhs rhs, int n, int m, double t, const double *y, const double *f, const double *p,
                         double length, double rtol, double atol, double *work, double *df) {
    double scale[MOST], next[MOST];
    for (int i = 0; i < n; i++) scale[i] = atol + fabs(y[i]) * rtol;
    double d0 = norm(n, y, scale), d1 = norm(n, f, scale);
    double h0 = d0 < 1e-5 || d1 < 1e-5 ? 1e-6 : 0.01 * d0 / d1;
    h0 = fmin(h0, length);
    for (int i = 0; i < m; i++) next[i] = y[i] + h0 * f[i];
    rhs(t + h0, next, p, work);
    for (int i = 0; i < n; i++) df[i] = work[i] - f[i];
    double d2 = norm(n, df, scale) / h0;
    double h1 = d1 <= 1e-15 && d2 <= 1e-15 ? fmax(1e-6, h0 * 1e-3) : pow(0.01 / fmax(d1, d2), 0.2);
    return fmin(fmin(100 * h0, h1), length);
}

/* Coefficients of the interpolant's powers of x = (t - t_old) / h, times h. */
INLINE void interpolant(int m, double h, double K[7][MOST], double Q[4][MOST]) {
    for (int j = 0; j < 4; j++)
        for (int i = 0; i < m; i++) {
            double sum = K[0][i] * P[0][j];
            for (int s = 2; s < 7; s++) sum += K[s][i] * P[s][j];
            Q[j][i] = h * sum;
        }
}

/* y (m) at t0 -> out (n_times, m); the first `controlled` components count in the error, in blocks of n.
 * work = {evaluations, accepted steps}. */
INLINE int integrate(Rhs rhs, int n, int m, int controlled, double t, const double *y0, const double *p, const double *times,
                     long n_times, double rtol, double atol, long max_steps, double *out, long *work) {
    double y[MOST], next[MOST], K[7][MOST], Q[4][MOST], error[MOST], scale[MOST], absolute[MOST];
    double end = times[n_times - 1];
    long done = 0, evaluations = 2, steps = 0;
    for (int i = 0; i < m; i++) absolute[i] = i < n ? atol : atol / fmax(fabs(p[i / n - 1]), 1);
    memcpy(y, y0, m * sizeof(double));
    rhs(t, y, p, K[0]);
    double step = first_step(rhs, n, m, t, y, K[0], p, end - t, rtol, atol, next, error);
    int status = isfinite(step) ? OK : NON_FINITE;
    while (done < n_times && t < end && status == OK) {
        if (steps >= max_steps) {
            status = TOO_MANY_STEPS;
            break;
        }
        double least = 10 * fabs(nextafter(t, INFINITY) - t), t_new, h, factor;
        int rejected = 0;
        step = fmax(step, least);
        for (;;) {
            if (!(step >= least)) {
                status = isfinite(step) ? STEP_TOO_SMALL : NON_FINITE;
                goto finish;
            }
            t_new = fmin(t + step, end);
            h = t_new - t;
            for (int s = 1; s < 6; s++) {
                for (int i = 0; i < m; i++) {
                    double sum = K[0][i] * A[s][0];
                    for (int r = 1; r < s; r++) sum += K[r][i] * A[s][r];
                    next[i] = y[i] + h * sum;
                }
                rhs(t + C[s] * h, next, p, K[s]);
            }
            for (int i = 0; i < m; i++) {
                double sum = K[0][i] * B[0];
                for (int s = 2; s < 6; s++) sum += K[s][i] * B[s];
                next[i] = y[i] + h * sum;
            }
            rhs(t + h, next, p, K[6]);
            evaluations += 6;
            for (int i = 0; i < controlled; i++) {
                double sum = K[0][i] * E[0];
                for (int s = 2; s < 7; s++) sum += K[s][i] * E[s];
                error[i] = h * sum;
                scale[i] = absolute[i] + fmax(fabs(y[i]), fabs(next[i])) * rtol;
            }
            double size = 0;
            for (int i = 0; i < controlled; i += n) {
                double block = norm(n, error + i, scale + i);
                if (!(block <= size)) size = block;
            }
            if (size < 1) {
                factor = size == 0 ? 10 : fmin(10, 0.9 * pow(size, -0.2));
                if (rejected) factor = fmin(1, factor);
                step = h * factor;
                break;
            }
            step = h * fmax(0.2, 0.9 * pow(size, -0.2));
            rejected = 1;
        }
        if (done < n_times && times[done] <= t_new) {
            interpolant(m, h, K, Q);
            for (; done < n_times && times[done] <= t_new; done++) {
                double x = (times[done] - t) / h, *row = out + done * m;
                for (int i = 0; i < m; i++) row[i] = y[i] + x * (Q[0][i] + x * (Q[1][i] + x * (Q[2][i] + x * Q[3][i])));
            }
        }
        t = t_new;
        memcpy(y, next, m * sizeof(double));
        memcpy(K[0], K[6], m * sizeof(double));
        steps++;
    }
finish:
    work[0] = evaluations;
    work[1] = steps;
    return status;
}

INLINE void lorenz_rhs(double t, const double *y, const double *p, double *d) {
    d[0] = p[0] * (y[1] - y[0]);
    d[1] = y[0] * (p[1] - y[2]) - y[1];
    d[2] = y[0] * y[1] - p[2] * y[2];
}

/* Sensitivities follow the states, one parameter after the other: S' = (df/dx) S + df/dp. */
INLINE void lorenz_variations(double t, const double *y, const double *p, double *d) {
    lorenz_rhs(t, y, p, d);
    for (int j = 3; j < 12; j += 3) {
        const double *S = y + j;
        d[j] = p[0] * (S[1] - S[0]);
        d[j + 1] = (p[1] - y[2]) * S[0] - S[1] - y[0] * S[2];
        d[j + 2] = y[1] * S[0] + y[0] * S[1] - p[2] * S[2];
    }
    d[3] += y[1] - y[0];
    d[7] += y[0];
    d[11] -= y[2];
}

INLINE void lotka_volterra_rhs(double t, const double *y, const double *p, double *d) {
    d[0] = (p[0] - p[1] * y[1]) * y[0];
    d[1] = (-p[2] + p[3] * y[0]) * y[1];
}

INLINE void lotka_volterra_variations(double t, const double *y, const double *p, double *d) {
    lotka_volterra_rhs(t, y, p, d);
    for (int j = 2; j < 10; j += 2) {
        const double *S = y + j;
        d[j] = (p[0] - p[1] * y[1]) * S[0] - p[1] * y[0] * S[1];
        d[j + 1] = p[3] * y[1] * S[0] + (-p[2] + p[3] * y[0]) * S[1];
    }
    d[2] += y[0];
    d[4] -= y[0] * y[1];
    d[7] -= y[1];
    d[9] += y[0] * y[1];
}

#define EXPORT(name, rhs, n, m, k)                                                                                     \
    int name(double t0, const double *y0, const double *p, const double *times, long n_times, double rtol,             \
             double atol, long max_steps, double *out, long *work) {                                                   \
        return integrate(rhs, n, m, k, t0, y0, p, times, n_times, rtol, atol, max_steps, out, work);                   \
    }
EXPORT(lorenz, lorenz_rhs, 3, 3, 3)
EXPORT(lorenz_sensitivities, lorenz_variations, 3, 12, 12)
EXPORT(lorenz_partial, lorenz_variations, 3, 12, 3)
EXPORT(lotka_volterra, lotka_volterra_rhs, 2, 2, 2)
EXPORT(lotka_volterra_sensitivities, lotka_volterra_variations, 2, 10, 10)
EXPORT(lotka_volterra_partial, lotka_volterra_variations, 2, 10, 2)
