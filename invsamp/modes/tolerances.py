"""How near is near enough: the few numbers by which ends of optimizations, minima and modes are judged."""

#: Energy that an optimization leaves to gain, at most: a tenth in Laplace's weights, and half a width. To come nearer
#: takes three times the evaluations where optimizations are long.
TOLERANCE = 0.1
#: Energy by which a density falls by a factor e: by less, two places are one mode, and two energies one.
UNIT = 1.0
#: Two ends are one minimum if one lies this many sds (Mahalanobis, per the square root of d) from the other, at most.
APART = 0.5
#: Share of the mass below which a mode is none: less than a tenth of the 5% and 95% quantiles' error at 400 draws.
NEGLIGIBLE = 1e-3
#: Standard deviations of a Gaussian beyond which it has no mass: 6e-5 of it.
REACH = 4.0
#: Share of the starts that lead to minima which no optimization has come to, at most: one in sixteen. It is about that
#: of the optimizations which came to a minimum alone (Good 1953, Biometrika 40, eq. (9)).
UNSEEN = 1.0 / 16.0
