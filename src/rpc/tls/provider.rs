//! The cryptography provider, which is passed explicitly and never installed for the process.

use std::sync::Arc;

use rustls::crypto::CryptoProvider;

#[cfg(not(any(feature = "tls-ring", feature = "tls-aws-lc")))]
compile_error!("enable a cryptography provider: feature `tls-ring` or `tls-aws-lc`");

pub(crate) fn provider() -> Arc<CryptoProvider> {
    #[cfg(feature = "tls-ring")]
    return Arc::new(rustls::crypto::ring::default_provider());
    #[cfg(all(feature = "tls-aws-lc", not(feature = "tls-ring")))]
    return Arc::new(rustls::crypto::aws_lc_rs::default_provider());
}
