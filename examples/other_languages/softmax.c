// Softmax over rows, for npf.from_process("./softmax"). Build it with: cc -O2 -o softmax softmax.c -lm
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void) {
    char line[4096];
    while (fgets(line, sizeof line, stdin)) {  // {"ask": "forward", …, "shapes": [[rows, cols]], …}
        size_t rows, cols;
        const char *shapes = strstr(line, "\"shapes\": [[");
        if (!shapes || sscanf(shapes, "\"shapes\": [[%zu, %zu]", &rows, &cols) != 2) return 1;
        int is_forward = strstr(line, "\"ask\": \"forward\"") != NULL;
        size_t n = rows * cols, count = is_forward ? n : 3 * n;
        double *x = malloc(3 * n * sizeof *x), *y = x + n, *dy = y + n;  // backward gets x, y and dy
        if (!x || fread(x, sizeof *x, count, stdin) != count) return 1;
        for (size_t i = 0; i < n; i += cols) {
            double largest = -INFINITY, total = 0, along = 0;
            for (size_t j = i; j < i + cols; j++) largest = fmax(largest, x[j]);
            for (size_t j = i; j < i + cols; j++) total += exp(x[j] - largest);
            for (size_t j = i; j < i + cols && !is_forward; j++) along += dy[j] * y[j];
            for (size_t j = i; j < i + cols; j++)
                x[j] = is_forward ? exp(x[j] - largest) / total : y[j] * (dy[j] - along);
        }
        printf("{\"dtypes\": [\"float64\"], \"shapes\": [[%zu, %zu]]}\n", rows, cols);
        fwrite(x, sizeof *x, n, stdout), fflush(stdout), free(x);
    }
}
