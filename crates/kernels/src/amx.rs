//! AMX tiles: matrices of 16 rows by 64 bytes in registers, and their products (Intel, *Architecture Instruction Set
//! Extensions Programming Reference*, chapter 3).
//!
//! The instructions are written in assembly, since Rust has no stable intrinsics for them. The compiler does not use
//! tiles itself, so their contents are kept from one instruction to the next.

use std::arch::asm;
use std::arch::x86_64::{__cpuid, __cpuid_count, _xgetbv};
use std::marker::PhantomData;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::simd::Avx512;

/// The number of rows of a tile.
pub(crate) const ROWS: usize = 16;

/// The number of bytes in a row of a tile.
pub(crate) const ROW: usize = 64;

static IS_OFF: AtomicBool = AtomicBool::new(false);

static HAS: LazyLock<bool> = LazyLock::new(|| has_tiles() && is_permitted());

/// A proof that the CPU has AVX-512 and tiles that multiply bytes and bf16, and that the system lets this process use
/// them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Amx(());

impl Amx {
    pub(crate) fn detect() -> Option<Self> {
        (*HAS && !IS_OFF.load(Relaxed)).then_some(Self(()))
    }

    /// Sets whether [`Amx::detect`] may succeed, and returns whether there are tiles.
    pub(crate) fn allow(allowed: bool) -> bool {
        IS_OFF.store(!allowed, Relaxed);
        *HAS
    }

    /// Sets the shape of each tile: rows, and bytes per row. Their contents are lost.
    pub(crate) fn configure(self, shapes: [(usize, usize); 8]) -> Tiles {
        let mut tiles = Tiles { shapes: [(0, 0); 8], of_thread: PhantomData };
        tiles.reshape(shapes);
        tiles
    }
}

/// Whether the CPU has everything that [`Amx`] proves, and the system saves the state of tiles.
pub(crate) fn has_tiles() -> bool {
    if Avx512::detect().is_none() || __cpuid(0).eax < 7 {
        return false;
    }
    let (bf16, tile, int8) = (1 << 22, 1 << 24, 1 << 25);
    let has = __cpuid_count(7, 0).edx & (bf16 | tile | int8) == bf16 | tile | int8;
    // The bits for the configuration and the data of tiles in the state that the system saves per thread.
    let (configuration, data) = (1 << 17, 1 << 18);
    // SAFETY: a CPU on which AVX-512 may be used has `xgetbv`.
    has && unsafe { enabled() } & (configuration | data) == configuration | data
}

/// # Safety
/// The CPU has `xgetbv`.
#[target_feature(enable = "xsave")]
unsafe fn enabled() -> u64 {
    // SAFETY: upheld by the caller.
    unsafe { _xgetbv(0) }
}

/// Requests tiles: Linux grants them to a process only on request, since they enlarge a thread's state by 8 kB
/// (`Documentation/arch/x86/xstate.rst`).
fn is_permitted() -> bool {
    const ARCH_PRCTL: i64 = 158;
    const ARCH_REQ_XCOMP_PERM: i64 = 0x1023;
    const XTILEDATA: i64 = 18;
    let status: i64;
    // SAFETY: the call accesses no memory of this process; the kernel changes only the named registers.
    unsafe {
        asm!("syscall", inlateout("rax") ARCH_PRCTL => status, in("rdi") ARCH_REQ_XCOMP_PERM, in("rsi") XTILEDATA,
            out("rcx") _, out("r11") _, options(nostack));
    }
    status == 0
}

/// The eight configured tiles of this thread; released on drop.
pub(crate) struct Tiles {
    shapes: [(usize, usize); 8],
    /// Prevents sending to another thread.
    of_thread: PhantomData<*const ()>,
}

impl Drop for Tiles {
    fn drop(&mut self) {
        // SAFETY: `self` exists only where there are tiles.
        unsafe { asm!("tilerelease", options(nostack, nomem, preserves_flags)) };
    }
}

impl Tiles {
    /// Changes the shapes of the tiles, if they have others. Then their contents are lost.
    #[inline(always)]
    pub(crate) fn reshape(&mut self, shapes: [(usize, usize); 8]) {
        if self.shapes != shapes {
            self.load_shapes(shapes);
        }
    }

    fn load_shapes(&mut self, shapes: [(usize, usize); 8]) {
        /// The operand of `ldtilecfg`.
        #[repr(C, align(64))]
        struct Configuration {
            palette: u8,
            start_row: u8,
            reserved: [u8; 14],
            bytes: [u16; 16],
            rows: [u8; 16],
        }
        let mut to = Configuration { palette: 1, start_row: 0, reserved: [0; 14], bytes: [0; 16], rows: [0; 16] };
        for (tile, (rows, bytes)) in shapes.into_iter().enumerate() {
            assert!((1..=ROWS).contains(&rows) && (4..=ROW).contains(&bytes) && bytes % 4 == 0, "the shape of a tile");
            (to.rows[tile], to.bytes[tile]) = (rows as u8, bytes as u16);
        }
        // SAFETY: `self` is created only where there are tiles; the configuration is 64 bytes, and valid.
        unsafe {
            asm!("ldtilecfg [{}]", in(reg) &raw const to, options(nostack, preserves_flags),
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _);
        }
        self.shapes = shapes;
    }

    /// The rows and the bytes per row of a tile.
    #[inline(always)]
    pub(crate) fn shape(&self, tile: usize) -> (usize, usize) {
        self.shapes[tile]
    }

    #[inline(always)]
    pub(crate) fn zero<const T: u8>(&self) {
        // SAFETY: `self` exists only while tiles are configured on this thread; also below.
        unsafe { asm!("tilezero tmm{t}", t = const T, options(nostack, nomem, preserves_flags)) };
    }

    /// Loads a tile from rows that are `stride` bytes apart.
    ///
    /// # Safety
    /// All rows can be read.
    #[inline(always)]
    pub(crate) unsafe fn load<const T: u8>(&self, from: *const u8, stride: usize) {
        // SAFETY: upheld by the caller.
        unsafe {
            asm!("tileloadd tmm{t}, [{from} + {stride}]", t = const T, from = in(reg) from, stride = in(reg) stride,
                options(nostack, readonly, preserves_flags));
        }
    }

    /// Stores a tile to rows that are `stride` bytes apart.
    ///
    /// # Safety
    /// All rows can be written.
    #[inline(always)]
    pub(crate) unsafe fn store<const T: u8>(&self, to: *mut u8, stride: usize) {
        // SAFETY: upheld by the caller.
        unsafe {
            asm!("tilestored [{to} + {stride}], tmm{t}", t = const T, to = in(reg) to, stride = in(reg) stride,
                options(nostack, preserves_flags));
        }
    }

    /// `C[i][j] += sum over k of A[i][k] * B[k / 4][4 j + k % 4]`, of signed bytes, in 32-bit integers.
    #[inline(always)]
    pub(crate) fn dot_bytes<const C: u8, const A: u8, const B: u8>(&self) {
        // SAFETY: as above. For shapes that do not match the processor raises a fault.
        unsafe {
            asm!("tdpbssd tmm{c}, tmm{a}, tmm{b}", c = const C, a = const A, b = const B,
                options(nostack, nomem, preserves_flags));
        }
    }

    /// `C[i][j] += sum over k of A[i][k] * B[k / 2][2 j + k % 2]`, of bf16, added in f32 pair by pair, with denormals
    /// treated as zero.
    #[inline(always)]
    pub(crate) fn dot_bf16<const C: u8, const A: u8, const B: u8>(&self) {
        // SAFETY: as above.
        unsafe {
            asm!("tdpbf16ps tmm{c}, tmm{a}, tmm{b}", c = const C, a = const A, b = const B,
                options(nostack, nomem, preserves_flags));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_multiply_bytes() {
        let Some(amx) = Amx::detect() else { return };
        let byte = |i: usize| (i * 37 % 251) as u8;
        let a: Vec<u8> = (0..5 * 32).map(byte).collect();
        let b: Vec<u8> = (0..8 * 64).map(|i| byte(i + 77)).collect();
        let mut c = vec![0i32; 5 * 16];
        let tiles = amx.configure([(5, 64), (5, 32), (8, 64), (1, 64), (1, 64), (1, 64), (1, 64), (1, 64)]);
        tiles.zero::<0>();
        // SAFETY: `a` has 5 rows of 32 bytes, `b` 8 of 64, `c` 5 of 64.
        unsafe {
            tiles.load::<1>(a.as_ptr(), 32);
            tiles.load::<2>(b.as_ptr(), 64);
            tiles.dot_bytes::<0, 1, 2>();
            tiles.store::<0>(c.as_mut_ptr().cast(), 64);
        }
        for i in 0..5 {
            for j in 0..16 {
                let product =
                    |k: usize| i32::from(a[32 * i + k] as i8) * i32::from(b[64 * (k / 4) + 4 * j + k % 4] as i8);
                assert_eq!(c[16 * i + j], (0..32).map(product).sum::<i32>());
            }
        }
    }
}
