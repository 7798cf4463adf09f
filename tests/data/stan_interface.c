/* A model with BridgeStan's C interface: mu of N(0, 1), sd > 0 of gamma(2, 1), sampled as its logarithm. */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

int bs_major_version = 2, bs_minor_version = 9, bs_patch_version = 0;
static int model;

static char *copied(const char *text) { return strcpy(malloc(strlen(text) + 1), text); }

void *bs_model_construct(const char *data, unsigned seed, char **error) { return &model; }
void bs_model_destruct(void *m) {}
void bs_free_error_msg(char *text) { free(text); }
int bs_set_print_callback(void *callback, char **error) { return 0; }
const char *bs_name(const void *m) { return "stan_interface"; }
const char *bs_model_info(const void *m) { return "written by hand"; }
const char *bs_param_names(const void *m, bool tp, bool gq) { return "mu,sd"; }
const char *bs_param_unc_names(const void *m) { return "mu,sd"; }
int bs_param_num(const void *m, bool tp, bool gq) { return 2; }
int bs_param_unc_num(const void *m) { return 2; }

int bs_param_constrain(const void *m, bool tp, bool gq, const double *x, double *theta, void *rng, char **error) {
    theta[0] = x[0], theta[1] = exp(x[1]);
    return 0;
}

int bs_param_unconstrain(const void *m, const double *theta, double *x, char **error) {
    x[0] = theta[0], x[1] = log(theta[1]);
    return 0;
}

int bs_log_density_gradient(const void *m, bool propto, bool jacobian, const double *x, double *value, double *slope,
                            char **error) {
    if (x[0] > 6.0) {
        *error = copied("Exception: mu is too large");
        return 1;
    }
    *value = -0.5 * x[0] * x[0] + (1.0 + jacobian) * x[1] - exp(x[1]);
    slope[0] = -x[0], slope[1] = 1.0 + jacobian - exp(x[1]);
    return 0;
}

int bs_log_density(const void *m, bool propto, bool jacobian, const double *x, double *value, char **error) {
    double slope[2];
    return bs_log_density_gradient(m, propto, jacobian, x, value, slope, error);
}

/* what the Python package looks up, and invsamp does not call */
int bs_param_unconstrain_json(const void *m, const char *json, double *x, char **error) { return 1; }
int bs_param_initialize(const void *m, const char *json, void *rng, double radius, int tries, bool jacobian, double *x,
                        char **error) {
    return 1;
}
int bs_log_density_hessian(const void *m, bool propto, bool jacobian, const double *x, double *value, double *slope,
                           double *hessian, char **error) {
    return 1;
}
int bs_log_density_hessian_vector_product(const void *m, bool propto, bool jacobian, const double *x, const double *v,
                                          double *value, double *product, char **error) {
    return 1;
}
void *bs_rng_construct(unsigned seed, char **error) { return &model; }
void bs_rng_destruct(void *rng) {}
