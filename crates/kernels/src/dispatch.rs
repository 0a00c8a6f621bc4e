//! One body of safe code, compiled for each kind of CPU and chosen when the program runs.

/// Defines `$name` as a function that runs `$body` with the widest SIMD unit that the CPU has.
///
/// `$body` is an `#[inline(always)]` function whose first argument is the [`Simd`](crate::simd::Simd) unit.
macro_rules! dispatch {
    ($(#[$doc:meta])* $vis:vis fn $name:ident($($arg:ident: $type:ty),* $(,)?) = $body:path) => {
        $(#[$doc])*
        #[allow(clippy::too_many_arguments)]
        $vis fn $name($($arg: $type),*) {
            #[cfg(target_arch = "x86_64")]
            {
                use crate::simd::{Avx2, Avx512};
                #[target_feature(enable = "avx512f,fma")]
                #[allow(clippy::too_many_arguments)]
                fn avx512(unit: Avx512, $($arg: $type),*) { $body(unit, $($arg),*) }
                #[target_feature(enable = "avx2,fma")]
                #[allow(clippy::too_many_arguments)]
                fn avx2(unit: Avx2, $($arg: $type),*) { $body(unit, $($arg),*) }
                if let Some(unit) = Avx512::detect() {
                    // SAFETY: the unit proves that the CPU has avx512f and fma; the body is safe code.
                    return unsafe { avx512(unit, $($arg),*) };
                }
                if let Some(unit) = Avx2::detect() {
                    // SAFETY: the unit proves that the CPU has avx2 and fma; the body is safe code.
                    return unsafe { avx2(unit, $($arg),*) };
                }
            }
            $body(crate::simd::Portable, $($arg),*)
        }
    };
}

pub(crate) use dispatch;
