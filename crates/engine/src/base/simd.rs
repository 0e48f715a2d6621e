// SPDX-License-Identifier: BSD-3-Clause
//! Detects the vector extensions of the processor, once at start.

/// The best level of vector extensions that the processor supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SimdLevel {
    None,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// AVX2, AVX-512F and AVX-512BW.
    #[cfg(all(target_arch = "x86_64", avx512))]
    Avx512,
}

impl SimdLevel {
    pub(crate) fn detect() -> Self {
        #[cfg(all(target_arch = "x86_64", avx512, not(miri)))]
        if std::is_x86_feature_detected!("avx512f")
            && std::is_x86_feature_detected!("avx512bw")
            && std::is_x86_feature_detected!("avx2")
        {
            return SimdLevel::Avx512;
        }
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if std::is_x86_feature_detected!("avx2") {
            return SimdLevel::Avx2;
        }
        SimdLevel::None
    }
}
