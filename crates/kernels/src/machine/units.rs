//! The SIMD units that kernels are compiled for, and which of them this processor has.

/// A kind of SIMD unit that kernels are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    /// The instruction sets of the unit, such as `AVX2 (with FMA and F16C)`.
    pub name: &'static str,
    /// Whether kernels run on it.
    pub state: UnitState,
}

/// Whether kernels run on a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitState {
    /// Kernels run on it.
    Used,
    /// The processor has it, but also a wider one, which is used instead.
    Wider,
    /// The processor has it, but the operating system does not let this process use it.
    NotPermitted,
    /// The processor does not have it, or not all of its instruction sets.
    Absent,
}

/// The units that kernels are compiled for on this architecture, narrowest first. If none is used, kernels run portable
/// code.
pub fn units() -> Vec<Unit> {
    #[cfg(target_arch = "x86_64")]
    {
        use crate::simd::{Avx2, Avx512};
        let has_avx512 = Avx512::detect().is_some();
        let avx2 = match (Avx2::detect(), has_avx512) {
            (None, _) => UnitState::Absent,
            (Some(_), true) => UnitState::Wider,
            (Some(_), false) => UnitState::Used,
        };
        vec![
            Unit { name: "AVX2 (with FMA and F16C)", state: avx2 },
            Unit {
                name: "AVX-512 (with BW, VL and VNNI)",
                state: if has_avx512 { UnitState::Used } else { UnitState::Absent },
            },
            Unit { name: "AMX (INT8 and BF16)", state: tiles() },
        ]
    }
    #[cfg(target_arch = "aarch64")]
    {
        vec![Unit { name: "NEON", state: UnitState::Used }]
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        Vec::new()
    }
}

#[cfg(amx)]
fn tiles() -> UnitState {
    match (crate::amx::has_tiles(), crate::amx::Amx::detect()) {
        (_, Some(_)) => UnitState::Used,
        (true, None) => UnitState::NotPermitted,
        (false, None) => UnitState::Absent,
    }
}

/// Kernels have no code for AMX here, so it counts as absent.
#[cfg(all(target_arch = "x86_64", not(amx)))]
fn tiles() -> UnitState {
    UnitState::Absent
}

/// The processor's name, if it reports one.
pub fn processor() -> Option<String> {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::__cpuid;
        // Leaves 0x80000002 to 0x80000004 hold 48 bytes (Intel, *Software Developer's Manual*, CPUID).
        if __cpuid(0x8000_0000).eax < 0x8000_0004 {
            return None;
        }
        let registers =
            (0x8000_0002..=0x8000_0004).map(__cpuid).flat_map(|leaf| [leaf.eax, leaf.ebx, leaf.ecx, leaf.edx]);
        let bytes: Vec<u8> = registers.flat_map(u32::to_le_bytes).take_while(|&byte| byte != 0).collect();
        let name = String::from_utf8_lossy(&bytes).split_whitespace().collect::<Vec<_>>().join(" ");
        (!name.is_empty()).then_some(name)
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The units reported as used are those that `dispatch` chooses.
    #[test]
    #[cfg(target_arch = "x86_64")]
    fn what_is_used_is_what_is_dispatched_to() {
        use crate::simd::{Avx2, Avx512};
        let states: Vec<UnitState> = units().iter().map(|unit| unit.state).collect();
        let expected = match (Avx512::detect(), Avx2::detect()) {
            (Some(_), Some(_)) => [UnitState::Wider, UnitState::Used],
            (Some(_), None) => [UnitState::Absent, UnitState::Used],
            (None, Some(_)) => [UnitState::Used, UnitState::Absent],
            (None, None) => [UnitState::Absent; 2],
        };
        assert_eq!(states[..2], expected);
        #[cfg(amx)]
        assert_eq!(states[2] == UnitState::Used, crate::amx::Amx::detect().is_some());
    }

    #[test]
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    fn the_processor_has_a_name() {
        let name = processor().unwrap();
        assert!(name.len() > 3 && !name.contains('\0') && name.trim() == name, "{name:?}");
    }
}
