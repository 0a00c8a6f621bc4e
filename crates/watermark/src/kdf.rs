//! Sub-keys derived from one secret: KMAC256 over purpose, key id and tenant.
//!
//! KMAC and its encodings are those of NIST SP 800-185, sections 2.3 and 4. Every field of the message is
//! length-prefixed, so no two triples give the same message.

use cshake::CShake256;
use cshake::digest::{ExtendableOutput, Update, XofReader};
use zeroize::Zeroizing;

const RATE: usize = 136;

/// The purpose of a sub-key; part of the derivation, so keys for different purposes are unrelated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Seeds from contexts.
    Context,
    /// The keystream that decides green and red.
    List,
    /// Seeds from contexts, for noise.
    NoiseContext,
    /// The noise itself.
    Noise,
    /// The first half of a tenant's secret.
    TenantLow,
    /// The second half of a tenant's secret.
    TenantHigh,
    /// The first half of the secret of a key's variant.
    VariantLow,
    /// The second half of the secret of a key's variant.
    VariantHigh,
    /// The first half of the secret of a key's public part.
    PublicLow,
    /// The second half of the secret of a key's public part.
    PublicHigh,
}

impl Purpose {
    fn label(self) -> &'static [u8] {
        match self {
            Self::Context => b"context",
            Self::List => b"list",
            Self::NoiseContext => b"noise context",
            Self::Noise => b"noise",
            Self::TenantLow => b"tenant, first half",
            Self::TenantHigh => b"tenant, second half",
            Self::VariantLow => b"variant, first half",
            Self::VariantHigh => b"variant, second half",
            Self::PublicLow => b"public, first half",
            Self::PublicHigh => b"public, second half",
        }
    }
}

/// Derives a sub-key of 16 bytes. Another id, tenant or purpose gives an unrelated one.
pub fn derive(secret: &[u8], purpose: Purpose, id: &str, tenant: &str) -> Zeroizing<[u8; 16]> {
    let mut message = Vec::new();
    for field in [purpose.label(), id.as_bytes(), tenant.as_bytes()] {
        left_encode(8 * field.len() as u64, &mut message);
        message.extend_from_slice(field);
    }
    let mut key = Zeroizing::new([0; 16]);
    kmac256(secret, &message, b"verdigris watermark 1", &mut *key);
    key
}

fn kmac256(key: &[u8], message: &[u8], customization: &[u8], out: &mut [u8]) {
    let mut prefix = Vec::new();
    left_encode(RATE as u64, &mut prefix);
    left_encode(8 * key.len() as u64, &mut prefix);
    let mut hash = CShake256::new_with_function_name(b"KMAC", customization);
    hash.update(&prefix);
    hash.update(key);
    hash.update(&[0; RATE][..(RATE - (prefix.len() + key.len()) % RATE) % RATE]);
    hash.update(message);
    let mut length = Vec::new();
    right_encode(8 * out.len() as u64, &mut length);
    hash.update(&length);
    hash.finalize_xof().read(out);
}

fn significant(value: &[u8; 8]) -> &[u8] {
    &value[value.iter().take(7).take_while(|&&byte| byte == 0).count()..]
}

fn left_encode(value: u64, out: &mut Vec<u8>) {
    let bytes = value.to_be_bytes();
    let bytes = significant(&bytes);
    out.push(bytes.len() as u8);
    out.extend_from_slice(bytes);
}

fn right_encode(value: u64, out: &mut Vec<u8>) {
    let bytes = value.to_be_bytes();
    let bytes = significant(&bytes);
    out.extend_from_slice(bytes);
    out.push(bytes.len() as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use data_encoding::HEXLOWER;

    /// KMAC samples 4 and 5 of NIST's "SP 800-185 example values".
    #[test]
    fn kmac256_matches_nist() {
        let key: Vec<u8> = (0x40..=0x5f).collect();
        let mut out = [0; 64];
        kmac256(&key, &[0, 1, 2, 3], b"My Tagged Application", &mut out);
        assert_eq!(
            HEXLOWER.encode(&out),
            "20c570c31346f703c9ac36c61c03cb64c3970d0cfc787e9b79599d273a68d2f7\
             f69d4cc3de9d104a351689f27cf6f5951f0103f33f4f24871024d9c27773a8dd"
        );
        let message: Vec<u8> = (0..200).collect();
        kmac256(&key, &message, b"", &mut out);
        assert_eq!(
            HEXLOWER.encode(&out),
            "75358cf39e41494e949707927cee0af20a3ff553904c86b08f21cc414bcfd691\
             589d27cf5e15369cbbff8b9a4c2eb17800855d0235ff635da82533ec6b759b69"
        );
    }

    #[test]
    fn every_field_separates_keys_and_fields_do_not_run_together() {
        let base = derive(&[7; 32], Purpose::Context, "ab", "c");
        for other in [
            derive(&[8; 32], Purpose::Context, "ab", "c"),
            derive(&[7; 32], Purpose::List, "ab", "c"),
            derive(&[7; 32], Purpose::Context, "a", "bc"),
            derive(&[7; 32], Purpose::Context, "ab", ""),
        ] {
            assert_ne!(*base, *other);
        }
        assert_eq!(*base, *derive(&[7; 32], Purpose::Context, "ab", "c"));
    }
}
