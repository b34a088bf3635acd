//! When a certificate is valid. The verifier of rustls says whether it is at one time, so it is asked about that time.

use std::time::Duration;

use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, RootCertStore};

use super::provider::provider;
use nomad_csi_ports::Clock;

/// Returns the time since the epoch; zero for one before it.
pub(super) fn since_epoch(clock: &dyn Clock) -> Duration {
    Duration::from_nanos(u64::try_from(clock.now()).unwrap_or_default())
}

/// Checks a certificate at a time since the epoch, with those that follow it: one of the authorities issued it, and both are
/// valid then.
pub(super) fn verify_at(
    chain: &[CertificateDer<'_>],
    authorities: &[CertificateDer<'_>],
    then: Duration,
) -> Result<(), rustls::Error> {
    let mut refused = rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer);
    for authority in authorities {
        let mut roots = RootCertStore::empty();
        roots.add(authority.clone().into_owned())?;
        match verify_with(chain, &roots, then) {
            // The verifier ignores when an authority ends, unless it is asked about that certificate itself.
            Ok(()) => match verify_with(std::slice::from_ref(authority), &roots, then) {
                Err(error) if has_wrong_time(&error) => refused = error,
                Ok(()) | Err(_) => return Ok(()),
            },
            Err(error) if has_wrong_time(&error) => refused = error,
            Err(error) if !has_wrong_time(&refused) => refused = error,
            Err(_) => {}
        }
    }
    Err(refused)
}

fn has_wrong_time(error: &rustls::Error) -> bool {
    matches!(
        error,
        rustls::Error::InvalidCertificate(
            CertificateError::Expired
                | CertificateError::ExpiredContext { .. }
                | CertificateError::NotValidYet
                | CertificateError::NotValidYetContext { .. }
        )
    )
}

fn verify_with(
    chain: &[CertificateDer<'_>],
    roots: &RootCertStore,
    then: Duration,
) -> Result<(), rustls::Error> {
    let (own, between) = chain.split_first().ok_or(rustls::Error::NoCertificatesPresented)?;
    verify_server_cert_signed_by_trust_anchor(
        &ParsedCertificate::try_from(own)?,
        roots,
        between,
        UnixTime::since_unix_epoch(then),
        provider().signature_verification_algorithms.all,
    )
}
