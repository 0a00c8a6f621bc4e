//! Integer dot products of four bytes per lane: exact, and so the same on every unit.

use crate::simd::{LANES, Portable, Simd, U32Lanes, lanes};

/// A unit that also multiplies bytes, four in each of its lanes.
///
/// # Contract
/// Integers only: nothing is rounded, and nothing overflows while arguments are within their bounds.
pub(crate) trait Bytewise: Simd {
    /// Whether products take unsigned weights: 128 is added to signed ones first.
    const IS_BIASED: bool;

    /// Runs a body as a separate function compiled for this unit, so that all registers are free for it.
    fn run<B: Body>(self, body: B);

    /// Transposes sixteen bytes per lane into four registers with four bytes per lane.
    fn transpose(self, from: [&[u8; 16]; LANES]) -> [Self::Ints; 4];

    /// The same word in each lane.
    fn word(self, word: u32) -> Self::Ints;

    /// The lower half of each lane, converted from half precision.
    fn halves(self, a: Self::Ints) -> Self::Lanes;

    /// For each byte of `at`, all below sixteen, the number of `list` at that index.
    fn look_bytes(self, list: &[i8; 16], at: Self::Ints) -> Self::Ints;

    /// Adds to each lane of `sum` the products of weights, four per register, and signed numbers from -127 to 127. The
    /// weights are from 0 to `most`, at most 127; or, if they are signed, from `-most` to `most`, at most 128, and as
    /// returned by [`Bytewise::bias`].
    fn dot_bytes<const IS_SIGNED: bool>(
        self,
        weights: &[Self::Ints],
        numbers: &[[u8; 4]],
        most: u8,
        sum: Self::Ints,
    ) -> Self::Ints;

    /// Converts signed weights to what [`Bytewise::dot_bytes`] takes.
    #[inline(always)]
    fn bias(self, weights: Self::Ints) -> Self::Ints {
        weights
    }

    /// The AMX tiles, if they are available with this unit.
    #[cfg(amx)]
    #[inline(always)]
    fn amx(self) -> Option<crate::amx::Amx> {
        None
    }
}

/// A computation that is compiled for each unit.
pub(crate) trait Body {
    /// Must be `#[inline(always)]`.
    fn run<S: Bytewise>(self, unit: S);
}

impl Bytewise for Portable {
    const IS_BIASED: bool = false;

    // Inlined, all bodies together would be one function that takes a third of the crate's time to compile.
    #[inline(never)]
    fn run<B: Body>(self, body: B) {
        body.run(self);
    }

    #[inline(always)]
    fn transpose(self, from: [&[u8; 16]; LANES]) -> [U32Lanes; 4] {
        [0, 1, 2, 3].map(|j| lanes(|i| u32::from_le_bytes(from[i].as_chunks().0[j])))
    }

    #[inline(always)]
    fn word(self, word: u32) -> U32Lanes {
        [word; LANES]
    }

    #[inline(always)]
    fn halves(self, a: U32Lanes) -> [f32; LANES] {
        a.map(|a| self.half([a as u8, (a >> 8) as u8]))
    }

    #[inline(always)]
    fn look_bytes(self, list: &[i8; 16], at: U32Lanes) -> U32Lanes {
        at.map(|at| u32::from_le_bytes(at.to_le_bytes().map(|at| list[usize::from(at)] as u8)))
    }

    #[inline(always)]
    fn dot_bytes<const IS_SIGNED: bool>(
        self,
        weights: &[U32Lanes],
        numbers: &[[u8; 4]],
        _most: u8,
        mut sum: U32Lanes,
    ) -> U32Lanes {
        for (weights, numbers) in weights.iter().zip(numbers) {
            sum = lanes(|i| {
                let of_bytes = weights[i].to_le_bytes().into_iter().zip(numbers);
                let products = of_bytes.map(|(w, &x)| i32::from(w as i8) * i32::from(x as i8));
                sum[i].wrapping_add(products.sum::<i32>() as u32)
            });
        }
        sum
    }
}

#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(test)]
mod tests {
    use super::*;

    /// The results of every byte operation of a unit.
    fn all<S: Bytewise>(unit: S, w: &[[u8; 16]; 16], x: &[u8; 4]) -> Vec<[f32; 16]> {
        let weights = unit.transpose(w.each_ref());
        let four = unit.and(weights[1], 0x0f0f_0f0f);
        let list: [i8; 16] = std::array::from_fn(|i| w[0][i] as i8);
        let looked = |list| unit.look_bytes(list, four);
        // Corrects for the 128 added to each weight; units that add nothing start at 0.
        let less = x.iter().map(|&x| -128 * i32::from(x as i8)).sum::<i32>();
        let signed = |weights: &[S::Ints], most| {
            let start = unit.word(if S::IS_BIASED { (less * weights.len() as i32) as u32 } else { 0 });
            let weights: Vec<_> = weights.iter().map(|&weights| unit.bias(weights)).collect();
            unit.dot_bytes::<true>(&weights, &[*x; 8][..weights.len()], most, start)
        };
        let small = |most: u8| {
            let weights = [weights, weights].concat();
            let weights: Vec<_> = weights.into_iter().map(|all| unit.and(all, 0x0101_0101 * u32::from(most))).collect();
            unit.dot_bytes::<false>(&weights, &[*x; 8], most, unit.word(77))
        };
        let ints = [
            signed(&weights[..1], 128),
            signed(&weights[3..], 128),
            signed(&[looked(&list)], 128),
            signed(&[looked(&list.map(|x| x.clamp(-12, 12))); 8], 12),
            small(3),
            small(15),
            small(31),
            small(63),
            small(127),
        ];
        let mut out = ints.map(|ints| unit.store(unit.float(ints))).to_vec();
        // Finite numbers in half precision.
        out.push(unit.store(unit.halves(unit.and(weights[2], 0xffff_bbff))));
        out.push(unit.store(unit.halves(unit.and(unit.shift_right(weights[2], 16), 0xbbff))));
        out
    }

    #[test]
    fn every_unit_computes_the_same() {
        for seed in 0..200u32 {
            let mut state = seed.wrapping_mul(0x9E37_79B9) | 1;
            let mut byte = || {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                // Extreme bytes are frequent.
                [(state >> 24) as u8, 0x80, 0x7f, 0][if state >> 16 & 3 == 0 { (state >> 18 & 3) as usize } else { 0 }]
            };
            let mut w: [[u8; 16]; 16] = std::array::from_fn(|_| std::array::from_fn(|_| byte()));
            let mut x: [u8; 4] = std::array::from_fn(|_| byte()).map(|x| if x == 0x80 { 0x81 } else { x });
            // The largest sums.
            if let Some(&most) = [0xff, 0x7f, 0x80].get(seed as usize / 2) {
                (w, x) = ([[most; 16]; 16], [[0x7f, 0x81][seed as usize % 2]; 4]);
            }
            let portable = all(Portable, &w, &x);
            #[cfg(target_arch = "x86_64")]
            {
                use crate::simd::{Avx2, Avx512};
                assert!(Avx2::detect().is_none_or(|unit| all(unit, &w, &x) == portable));
                assert!(Avx512::detect().is_none_or(|unit| all(unit, &w, &x) == portable));
            }
            #[cfg(target_arch = "aarch64")]
            assert_eq!(all(crate::simd::Neon, &w, &x), portable);
            for (lane, w) in w.iter().enumerate() {
                let exact: i32 = (0..4).map(|i| i32::from(w[12 + i] as i8) * i32::from(x[i] as i8)).sum();
                assert_eq!(portable[1][lane], exact as f32);
            }
        }
    }
}
