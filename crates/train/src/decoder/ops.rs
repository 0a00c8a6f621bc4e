//! The kernels as tensor operations; for other devices and other types, candle's own operations.

use candle_core::{CpuStorage, CustomOp2, CustomOp3, DType, Device, Layout, Result, Shape, Tensor, bail};
use verdigris_kernels::{
    AttentionMask, Cached, Heads, Weights as StoredWeights, attend as attend_kernel, linear as linear_kernel,
};

/// `x * w^T`: `m x k` and `n x k` give `m x n`.
pub(crate) fn linear(x: &Tensor, w: &Tensor) -> Result<Tensor> {
    match (x.device(), x.dtype()) {
        (Device::Cpu, DType::F32) => x.contiguous()?.apply_op2_no_bwd(w, &Linear),
        _ => x.matmul(&w.t()?),
    }
}

/// Attention of the last `m` of `t` tokens over all `t`: see [`verdigris_kernels::attend`].
///
/// `q` is `m x heads x head_dim`; `k` and `v` are `t x kv_heads x head_dim`; the result is
/// `m x (heads * head_dim)`.
pub(crate) fn attend(q: &Tensor, k: &Tensor, v: &Tensor, visible: Option<&[bool]>) -> Result<Tensor> {
    let (m, heads, head_dim) = q.dims3()?;
    let shape = Heads { heads, kv_heads: k.dim(1)?, head_dim };
    match (q.device(), q.dtype()) {
        (Device::Cpu, DType::F32) => q.contiguous()?.apply_op3_no_bwd(k, v, &Attend { shape, visible }),
        _ => attend_composed(q, k, v, shape, visible),
    }?
    .reshape((m, heads * head_dim))
}

fn scale(head_dim: usize) -> f64 {
    1.0 / (head_dim as f64).sqrt()
}

/// Attention built from candle's operations, for devices without a kernel.
fn attend_composed(q: &Tensor, k: &Tensor, v: &Tensor, shape: Heads, visible: Option<&[bool]>) -> Result<Tensor> {
    let Heads { heads, kv_heads, head_dim } = shape;
    let (m, t) = (q.dim(0)?, k.dim(0)?);
    let group = heads / kv_heads;
    // Query heads that share keys are grouped: (kv_heads, group * m, head_dim).
    let q = q.reshape((m, kv_heads, group, head_dim))?.permute((1, 2, 0, 3))?;
    let q = q.contiguous()?.reshape((kv_heads, group * m, head_dim))?;
    let (k, v) = (k.permute((1, 2, 0))?.contiguous()?, v.transpose(0, 1)?.contiguous()?);
    let scores = (q.matmul(&k)?.to_dtype(DType::F32)? * scale(head_dim))?;
    let hidden = |i: usize| {
        let (row, column) = (i / t, i % t);
        match (column.checked_sub(t - m), visible) {
            (None, _) => 0.0,
            (Some(new), Some(visible)) if visible[row * m + new] => 0.0,
            (Some(new), None) if new <= row => 0.0,
            _ => f32::NEG_INFINITY,
        }
    };
    let mask = Tensor::from_vec((0..m * t).map(hidden).collect(), (m, t), q.device())?;
    let scores = scores.reshape((heads, m, t))?.broadcast_add(&mask)?;
    let weights = candle_nn::ops::softmax_last_dim(&scores)?.reshape((kv_heads, group * m, t))?;
    let out = weights.to_dtype(v.dtype())?.matmul(&v)?.reshape((kv_heads, group, m, head_dim))?;
    out.permute((2, 0, 1, 3))?.contiguous()?.reshape((m, heads, head_dim))
}

/// The values of a contiguous f32 tensor.
fn slice<'a>(storage: &'a CpuStorage, layout: &Layout) -> Result<&'a [f32]> {
    match layout.contiguous_offsets() {
        Some((start, end)) => Ok(&storage.as_slice::<f32>()?[start..end]),
        None => bail!("a kernel needs contiguous memory"),
    }
}

struct Linear;

impl CustomOp2 for Linear {
    fn name(&self) -> &'static str {
        "linear"
    }

    fn cpu_fwd(&self, x: &CpuStorage, xl: &Layout, w: &CpuStorage, wl: &Layout) -> Result<(CpuStorage, Shape)> {
        let ((m, k), (n, inner)) = (xl.shape().dims2()?, wl.shape().dims2()?);
        if k != inner {
            bail!("rows of {k} by columns of {inner}");
        }
        let mut out = vec![0.0; m * n];
        linear_kernel(slice(x, xl)?, StoredWeights::of(slice(w, wl)?, k), &mut out);
        Ok((CpuStorage::F32(out), Shape::from((m, n))))
    }
}

struct Attend<'a> {
    shape: Heads,
    visible: Option<&'a [bool]>,
}

impl CustomOp3 for Attend<'_> {
    fn name(&self) -> &'static str {
        "attend"
    }

    fn cpu_fwd(
        &self,
        q: &CpuStorage,
        ql: &Layout,
        k: &CpuStorage,
        kl: &Layout,
        v: &CpuStorage,
        vl: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let mut out = vec![0.0; ql.shape().elem_count()];
        let (q, k, v) = (slice(q, ql)?, slice(k, kl)?, slice(v, vl)?);
        let mask = AttentionMask { visible: self.visible, ..AttentionMask::default() };
        let scale = scale(self.shape.head_dim) as f32;
        attend_kernel(q, Cached::of(k), Cached::of(v), self.shape, mask, scale, &mut out);
        Ok((CpuStorage::F32(out), ql.shape().clone()))
    }
}

/// The largest absolute difference between two tensors.
#[cfg(test)]
pub(crate) fn distance(a: &Tensor, b: &Tensor) -> f32 {
    (a - b).unwrap().abs().unwrap().flatten_all().unwrap().max(0).unwrap().to_scalar().unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_and_composed_operations_agree() {
        let noise = |shape: &[usize]| Tensor::randn(0f32, 1.0, shape, &Device::Cpu).unwrap();
        let (x, w) = (noise(&[5, 40]), noise(&[70, 40]));
        assert!(distance(&linear(&x, &w).unwrap(), &x.matmul(&w.t().unwrap()).unwrap()) < 1e-4);
        let (m, t) = (4, 11);
        let (q, k, v) = (noise(&[m, 6, 8]), noise(&[t, 2, 8]), noise(&[t, 2, 8]));
        let shape = Heads { heads: 6, kv_heads: 2, head_dim: 8 };
        let tree: Vec<bool> = (0..m * m).map(|i| i / m == i % m || i % m == 0).collect();
        for visible in [None, Some(&tree[..])] {
            let composed = attend_composed(&q, &k, &v, shape, visible).unwrap().reshape((m, 48)).unwrap();
            assert!(distance(&attend(&q, &k, &v, visible).unwrap(), &composed) < 1e-5);
        }
    }
}
