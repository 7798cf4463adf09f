/* Steady temperature along a cooling fin: a program that reads its parameters from a file and prints numbers.
 *
 * k a T'' = h p (T - t_air), -k a T'(0) = q, T'(l) = 0, by central differences on n cells. It knows no derivatives.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define CELLS 400
#define SENSORS 8

int main(int argc, char **argv) {
    const double length = 0.4, area = 1e-4, perimeter = 0.04, air = 20.0, heat = 5.0;
    double conductivity, transfer, diagonal[CELLS], right[CELLS], lower;
    FILE *input = argc > 1 ? fopen(argv[1], "r") : NULL;

    if (!input || fscanf(input, " conductivity = %lf transfer = %lf", &conductivity, &transfer) != 2) {
        fprintf(stderr, "fin: cannot read the input file\n");
        return 2;
    }
    fclose(input);
    if (transfer > 200.0) { /* boiling: beyond the correlations of this program */
        fprintf(stderr, "fin: heat transfer of %g W/(m^2 K) is out of range\n", transfer);
        return 3;
    }

    const double width = length / CELLS, flow = conductivity * area / width, loss = transfer * perimeter * width;
    for (int i = 0; i < CELLS; i++) {
        diagonal[i] = loss + flow * ((i > 0) + (i < CELLS - 1));
        right[i] = i == 0 ? heat : 0.0;
    }
    for (int i = 1; i < CELLS; i++) { /* elimination of the lower diagonal, all entries of which are -flow */
        lower = -flow / diagonal[i - 1];
        diagonal[i] += lower * flow;
        right[i] -= lower * right[i - 1];
    }
    for (int i = CELLS - 1; i >= 0; i--)
        right[i] = (right[i] + (i < CELLS - 1 ? flow * right[i + 1] : 0.0)) / diagonal[i];

    for (int s = 0; s < SENSORS; s++) { /* halfway between the centers of two cells */
        int i = (2 * s + 1) * CELLS / (2 * SENSORS);
        printf("%.17g\n", air + 0.5 * (right[i - 1] + right[i]));
    }
    return 0;
}
