// All kernels, as one module.
#include "attention.cu"
#include "attention_f32.cu"
#include "draw.cu"
#include "elements.cu"
#include "linear.cu"
#include "linear_f32.cu"
