// Package walls declares functions without a body, which the compiler accepts only beside assembly.
