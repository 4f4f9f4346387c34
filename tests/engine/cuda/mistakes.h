// What the C++ compiler's checks find (an index outside an array, a pointer that is not aligned for what it points to,
// a whole number that overflows, a shift too far) is reported as the kernel's problem, with the line.
namespace npformer_host {
struct Place { const char *file; unsigned line, column; };
inline void mistake(const char *what, void *data) {
    complain("%s, in line %u", what, static_cast<const Place *>(data)->line);
}
}  // namespace npformer_host

#define MISTAKE(name, text) \
    extern "C" __attribute__((visibility("hidden"))) void __ubsan_handle_##name(void *data, ...) { \
        npformer_host::mistake(text, data); \
    }
MISTAKE(out_of_bounds, "an index outside its array")
MISTAKE(type_mismatch_v1, "a pointer that is null or not aligned")
MISTAKE(pointer_overflow, "a pointer that overflows")
MISTAKE(shift_out_of_bounds, "a shift too far")
MISTAKE(divrem_overflow, "a division by zero")
MISTAKE(add_overflow, "a sum that overflows")
MISTAKE(sub_overflow, "a difference that overflows")
MISTAKE(mul_overflow, "a product that overflows")
MISTAKE(negate_overflow, "a negation that overflows")
