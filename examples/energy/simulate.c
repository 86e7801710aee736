/* Moves the atoms of one cluster by the forces of the compiled model (velocity Verlet), and says how well energy is
   kept.

   usage: simulate ENERGY.safetensors POSITIONS STEPS     POSITIONS: raw doubles, [atoms][3]

   Prints the largest difference between a force and the central difference of the energy, then for each tenth of the
   run the largest distance of the total energy from where it began. See build.sh. */
#include "libenergy.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_ATOMS = 64, WIDTH = ENERGY_INPUT_POS_WIDTH };

typedef struct Cluster {
    int n; /* coordinates: atoms times WIDTH */
    double x[MAX_ATOMS * WIDTH], v[MAX_ATOMS * WIDTH], force[MAX_ATOMS * WIDTH];
    double energy; /* of the positions */
    EnergyContext *model;
} Cluster;

/* Energy and forces where the atoms are. */
static void look(Cluster *c)
{
    const void *inputs[ENERGY_N_INPUTS];
    void *results[ENERGY_N_RESULTS];
    EnergyStatus status;
    inputs[ENERGY_INPUT_POS] = c->x;
    results[ENERGY_RESULT_OUT0] = &c->energy;
    results[ENERGY_RESULT_OUT1] = c->force;
    if (!energy_forward(c->model, inputs, results, &status)) return;
    fprintf(stderr, "%s\n", status.message);
    exit(1);
}

static double kinetic(const Cluster *c)
{
    double sum = 0;
    for (int i = 0; i < c->n; i++) sum += c->v[i] * c->v[i] / 2;
    return sum;
}

static void step(Cluster *c, double dt)
{
    for (int i = 0; i < c->n; i++) {
        c->v[i] += dt / 2 * c->force[i];
        c->x[i] += dt * c->v[i];
    }
    look(c);
    for (int i = 0; i < c->n; i++) c->v[i] += dt / 2 * c->force[i];
}

/* The largest difference between a force and what the energy says. */
static double check_forces(Cluster *c)
{
    const double h = 1e-5;
    double worst = 0, force[MAX_ATOMS * WIDTH];
    look(c);
    for (int i = 0; i < c->n; i++) force[i] = c->force[i];
    for (int i = 0; i < c->n; i++) {
        double at = c->x[i], up;
        c->x[i] = at + h;
        look(c);
        up = c->energy;
        c->x[i] = at - h;
        look(c);
        worst = fmax(worst, fabs(force[i] + (up - c->energy) / (2 * h)));
        c->x[i] = at;
    }
    look(c);
    return worst;
}

/* Every atom feels every other. */
static int open_model(const char *weights, int atoms, Cluster *c)
{
    static int64_t src[MAX_ATOMS * MAX_ATOMS], dst[MAX_ATOMS * MAX_ATOMS];
    EnergyModel *model = NULL;
    EnergyGraph *graph = NULL;
    EnergyStatus status;
    EnergyGraphDesc desc = {0};
    for (int i = 0; i < atoms; i++)
        for (int j = 0; j < atoms; j++)
            if (i != j) {
                src[desc.n_edges] = i;
                dst[desc.n_edges++] = j;
            }
    desc.n_src = desc.n_dst = atoms;
    desc.src = src;
    desc.dst = dst;
    if (!energy_model_create(energy_tables(), 0, ENERGY_BEST_CPU, &model, &status) &&
        !energy_model_load(model, weights, &status) && !energy_graph_create(model, &desc, &graph, &status) &&
        !energy_context_create(model, graph, 0, NULL, 0, &c->model, &status))
        return 0;
    fprintf(stderr, "%s: %s\n", energy_code_name(status.code), status.message);
    return -1;
}

static int read_positions(const char *path, Cluster *c)
{
    FILE *f = fopen(path, "rb");
    if (!f) return perror(path), -1;
    c->n = (int)fread(c->x, sizeof *c->x, MAX_ATOMS * WIDTH, f);
    fclose(f);
    for (int i = 0; i < c->n; i++) c->v[i] = 0.3 * sin(7.0 * i + 1); /* some heat */
    return 0;
}

int main(int argc, char **argv)
{
    static Cluster c;
    const double dt = 0.005;
    if (argc != 4) return fprintf(stderr, "usage: simulate ENERGY.safetensors POSITIONS STEPS\n"), 1;
    if (read_positions(argv[2], &c) || open_model(argv[1], c.n / WIDTH, &c)) return 1;
    printf("forces: off by %.2e\n", check_forces(&c));
    long steps = atol(argv[3]), tenth = steps / 10 > 0 ? steps / 10 : 1;
    double start = c.energy + kinetic(&c), worst = 0, heat = 0;
    for (long k = 1; k <= steps; k++) {
        step(&c, dt);
        worst = fmax(worst, fabs(c.energy + kinetic(&c) - start));
        heat += kinetic(&c) / (double)steps;
        if (k % tenth == 0) printf("step %ld: energy %.6f, off by at most %.2e\n", k, c.energy + kinetic(&c), worst);
    }
    printf("kinetic energy %.3f\n", heat);
    return 0;
}
