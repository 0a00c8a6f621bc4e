//! One body of safe code, compiled for each kind of CPU and chosen when the program runs.

/// Defines `$name` as a function that runs `$body` with the widest SIMD unit that the CPU has.
///
/// `$body` is an `#[inline(always)]` function of safe code; only the compiler flags differ between versions.
macro_rules! dispatch {
    ($(#[$doc:meta])* $vis:vis fn $name:ident($($arg:ident: $type:ty),* $(,)?) = $body:path) => {
        $(#[$doc])*
        #[allow(clippy::too_many_arguments)]
        $vis fn $name($($arg: $type),*) {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,fma")]
                #[allow(clippy::too_many_arguments)]
                fn avx512($($arg: $type),*) { $body($($arg),*) }
                #[target_feature(enable = "avx2,fma")]
                #[allow(clippy::too_many_arguments)]
                fn avx2($($arg: $type),*) { $body($($arg),*) }
                if std::arch::is_x86_feature_detected!("avx512f") && std::arch::is_x86_feature_detected!("fma") {
                    // SAFETY: the CPU has avx512f and fma, checked in this condition; the body is safe code.
                    return unsafe { avx512($($arg),*) };
                }
                if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
                    // SAFETY: the CPU has avx2 and fma, checked in this condition; the body is safe code.
                    return unsafe { avx2($($arg),*) };
                }
            }
            $body($($arg),*)
        }
    };
}

pub(crate) use dispatch;
