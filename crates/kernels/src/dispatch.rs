//! Code compiled once for each kind of CPU and chosen at run time.

/// Defines `$name` as a function that runs `$body` with the widest SIMD unit that the CPU has.
///
/// `$body` is an `#[inline(always)]` function whose first argument is the [`Bytewise`](crate::bytewise::Bytewise) unit.
/// If `$body` is `unsafe`, so is `$name`, with the same contract.
macro_rules! dispatch {
    ($(#[$doc:meta])* $vis:vis fn $name:ident($($arg:ident: $type:ty),* $(,)?) $(-> $result:ty)? = $body:path) => {
        $(#[$doc])*
        #[allow(clippy::too_many_arguments)]
        $vis fn $name($($arg: $type),*) $(-> $result)? {
            #[allow(clippy::too_many_arguments)]
            #[inline(always)]
            unsafe fn body<S: crate::bytewise::Bytewise>(unit: S, $($arg: $type),*) $(-> $result)? {
                $body(unit, $($arg),*)
            }
            crate::dispatch::dispatch!(@ body; $($arg: $type),*; $($result)?)
        }
    };
    ($(#[$doc:meta])* $vis:vis unsafe fn $name:ident($($arg:ident: $type:ty),* $(,)?) = $body:path) => {
        $(#[$doc])*
        #[allow(clippy::too_many_arguments)]
        $vis unsafe fn $name($($arg: $type),*) {
            #[allow(clippy::too_many_arguments)]
            #[inline(always)]
            unsafe fn body<S: crate::bytewise::Bytewise>(unit: S, $($arg: $type),*) {
                // SAFETY: upheld by the caller.
                unsafe { $body(unit, $($arg),*) }
            }
            crate::dispatch::dispatch!(@ body; $($arg: $type),*;)
        }
    };
    (@ $body:ident; $($arg:ident: $type:ty),*; $($result:ty)?) => {{
        #[cfg(target_arch = "x86_64")]
        {
            use crate::simd::{Avx2, Avx512};
            #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,fma,f16c")]
            #[allow(clippy::too_many_arguments)]
            unsafe fn avx512(unit: Avx512, $($arg: $type),*) $(-> $result)? {
                // SAFETY: upheld by the caller.
                unsafe { $body(unit, $($arg),*) }
            }
            #[target_feature(enable = "avx2,fma,f16c")]
            #[allow(clippy::too_many_arguments)]
            unsafe fn avx2(unit: Avx2, $($arg: $type),*) $(-> $result)? {
                // SAFETY: upheld by the caller.
                unsafe { $body(unit, $($arg),*) }
            }
            if let Some(unit) = Avx512::detect() {
                // SAFETY: the unit proves that the CPU has all of these; the body is safe, or its contract upheld by
                // the caller.
                return unsafe { avx512(unit, $($arg),*) };
            }
            if let Some(unit) = Avx2::detect() {
                // SAFETY: the unit proves that the CPU has avx2, fma and f16c; the body is safe, or its contract upheld
                // by the caller.
                return unsafe { avx2(unit, $($arg),*) };
            }
        }
        #[cfg(target_arch = "aarch64")]
        // SAFETY: the body is safe, or its contract upheld by the caller.
        unsafe {
            $body(crate::simd::Neon, $($arg),*)
        }
        #[cfg(not(target_arch = "aarch64"))]
        // SAFETY: the body is safe, or its contract upheld by the caller.
        unsafe {
            $body(crate::simd::Portable, $($arg),*)
        }
    }};
}

pub(crate) use dispatch;
