//! Converts TLS settings to a rustls configuration, for TLS 1.2 and later.
//!
//! The cryptography provider is passed explicitly and never installed for the process. Files are
//! read on a blocking thread. They decide who gets the token and under which name this user appears, so no other user can have
//! changed them. An invalid certificate is refused by default.
//! [`TlsSettings::skip_verify`] accepts every certificate, but still checks that the server has the
//! certificate's key.

use std::io::Read as _;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, RootCertStore,
    SignatureScheme,
};

use super::settings::TlsSettings;
use crate::files::GivenFile;
use crate::ports::ApiError;
use nomad_csi_model::diagnostic::Code;
use nomad_csi_model::private::NotPrivate;

#[cfg(not(any(feature = "tls-ring", feature = "tls-aws-lc")))]
compile_error!("enable a cryptography provider: feature `tls-ring` or `tls-aws-lc`");

fn provider() -> Arc<CryptoProvider> {
    #[cfg(feature = "tls-ring")]
    return Arc::new(rustls::crypto::ring::default_provider());
    #[cfg(all(feature = "tls-aws-lc", not(feature = "tls-ring")))]
    return Arc::new(rustls::crypto::aws_lc_rs::default_provider());
}

/// Returns the configuration for an `https` server. `server_name` replaces the URL's host in the
/// check of the certificate.
pub(super) fn client_config(
    settings: &TlsSettings,
    server_name: Option<&str>,
) -> Result<ClientConfig, ApiError> {
    let provider = provider();
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable("the TLS library", &error.to_string()))?;
    let builder = if settings.skip_verify {
        builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Verifier::accepting_any(provider)))
    } else {
        let trusted = trusted_certificates(settings)?;
        if trusted.authorities.is_empty() {
            // A system without authorities trusts no certificate.
            builder.with_root_certificates(trusted.authorities)
        } else {
            let verifier = Verifier::trusting(trusted, server_name, provider)?;
            builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier))
        }
    };
    match client_identity(settings)? {
        Some((chain, key, file)) => builder
            .with_client_auth_cert(chain, key)
            .map_err(|error| unusable(&quoted(&file), &why_no_identity(&error))),
        None => Ok(builder.with_no_client_auth()),
    }
}

/// Returns why a key cannot be used with the client certificate.
fn why_no_identity(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InconsistentKeys(_) => {
            "it is not the key of the client certificate".to_owned()
        }
        error => error.to_string(),
    }
}

/// Returns the configuration for a server without TLS. It reads no file and trusts no certificate.
pub(super) fn client_config_without_tls() -> Result<ClientConfig, ApiError> {
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable("the TLS library", &error.to_string()))?;
    Ok(builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth())
}

/// The certificates to trust.
struct TrustedCertificates {
    authorities: RootCertStore,
    /// The certificates in the settings' files. Each is also accepted as a server's own
    /// certificate.
    pinned: Vec<CertificateDer<'static>>,
}

fn trusted_certificates(settings: &TlsSettings) -> Result<TrustedCertificates, ApiError> {
    let mut trusted = TrustedCertificates { authorities: RootCertStore::empty(), pinned: vec![] };
    if let Some(file) = non_empty(settings.ca_file.as_ref()) {
        for certificate in certificates(file)? {
            trusted
                .authorities
                .add(certificate.clone())
                .map_err(|error| unusable(&quoted(file), &error.to_string()))?;
            trusted.pinned.push(certificate);
        }
    } else if let Some(directory) = non_empty(settings.ca_directory.as_ref()) {
        add_directory(&mut trusted, directory)?;
    } else {
        // Unreadable certificates are skipped: only the server's issuer is needed.
        let system = rustls_native_certs::load_native_certs();
        trusted.authorities.add_parsable_certificates(system.certs);
    }
    Ok(trusted)
}

/// Adds every certificate of every file below a directory; skips files without a certificate.
fn add_directory(trusted: &mut TrustedCertificates, directory: &Path) -> Result<(), ApiError> {
    let mut folders = vec![directory.to_owned()];
    while let Some(folder) = folders.pop() {
        let cannot_read = |error: std::io::Error| unusable(&quoted(&folder), &error.to_string());
        for entry in std::fs::read_dir(&folder).map_err(cannot_read)? {
            let entry = entry.map_err(cannot_read)?;
            if entry.file_type().map_err(cannot_read)?.is_dir() {
                folders.push(entry.path());
            } else {
                // A file that others can change is refused, not skipped: the reason would be hard to find.
                let pem = read(&entry.path())?;
                let found = CertificateDer::pem_slice_iter(&pem).filter_map(Result::ok);
                let found: Vec<_> = found.collect();
                let authorities = found.iter().cloned();
                trusted.authorities.add_parsable_certificates(authorities);
                trusted.pinned.extend(found);
            }
        }
    }
    if trusted.authorities.is_empty() {
        return Err(unusable(&quoted(directory), "the directory contains no certificate"));
    }
    Ok(())
}

type ClientIdentity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>, PathBuf);

fn client_identity(settings: &TlsSettings) -> Result<Option<ClientIdentity>, ApiError> {
    let certificate = non_empty(settings.client_certificate.as_ref());
    let key = non_empty(settings.client_key.as_ref());
    match (certificate, key) {
        (None, None) => Ok(None),
        (Some(certificate), Some(key)) => {
            Ok(Some((certificates(certificate)?, private_key(key)?, key.to_owned())))
        }
        (Some(certificate), None) => {
            let why = "the key is missing; set --client-key or NOMAD_CLIENT_KEY";
            Err(unusable(&quoted(certificate), why))
        }
        (None, Some(key)) => {
            let why = "the certificate is missing; set --client-cert or NOMAD_CLIENT_CERT";
            Err(unusable(&quoted(key), why))
        }
    }
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, ApiError> {
    let pem = read(file)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let found = found.map_err(|error| unusable(&quoted(file), &error.to_string()))?;
    if found.is_empty() {
        return Err(unusable(&quoted(file), "the file contains no PEM certificate"));
    }
    Ok(found)
}

fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, ApiError> {
    let pem = zeroize::Zeroizing::new(read(file)?);
    PrivateKeyDer::from_pem_slice(&pem).map_err(|_| {
        let encrypted = pem.windows(9).any(|window| window == b"ENCRYPTED");
        let why =
            if encrypted { "the key is encrypted" } else { "the file contains no PEM private key" };
        unusable(&quoted(file), why)
    })
}

/// More than any bundle of authorities has.
const MAX_BYTES: u64 = 16 << 20;

/// Reads a file that no other user can have changed.
fn read(file: &Path) -> Result<Vec<u8>, ApiError> {
    let mut pem = vec![];
    let opened = GivenFile::open_trusted(file);
    let read = opened.and_then(|opened| opened.take(MAX_BYTES + 1).read_to_end(&mut pem));
    read.map_err(|error| unusable(&quoted(file), &NotPrivate::explain(&error)))?;
    if pem.len() as u64 > MAX_BYTES {
        let why = format!("the file is larger than {MAX_BYTES} bytes");
        return Err(unusable(&quoted(file), &why));
    }
    Ok(pem)
}

fn non_empty(path: Option<&PathBuf>) -> Option<&Path> {
    path.map(PathBuf::as_path).filter(|path| !path.as_os_str().is_empty())
}

fn quoted(path: &Path) -> String {
    format!("`{}`", path.display())
}

/// The error of an invalid server name.
pub(super) fn unusable_name(name: &str, why: &str) -> ApiError {
    unusable(&format!("the server name `{name}`"), why)
}

fn unusable(what: &str, why: &str) -> ApiError {
    ApiError::new(Code::ApiTlsFiles, format!("cannot use {what} for TLS: {why}"))
}

/// Verifies certificates by the settings. It always checks that the server has the certificate's
/// key.
#[derive(Debug)]
struct Verifier {
    policy: VerifyPolicy,
    provider: Arc<CryptoProvider>,
}

/// Which certificates to accept.
#[derive(Debug)]
enum VerifyPolicy {
    /// Certificates of the authorities, and pinned certificates.
    Trusted {
        authorities: Arc<WebPkiServerVerifier>,
        pinned: Vec<CertificateDer<'static>>,
        /// The name to check instead of the URL's host.
        server_name: Option<ServerName<'static>>,
    },
    /// Any certificate.
    AcceptAny,
}

impl Verifier {
    fn trusting(
        trusted: TrustedCertificates,
        server_name: Option<&str>,
        provider: Arc<CryptoProvider>,
    ) -> Result<Self, ApiError> {
        let roots = Arc::new(trusted.authorities);
        let authorities = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider))
            .build()
            .map_err(|error| unusable("the certificate authorities", &error.to_string()))?;
        let parse = |name: &str| {
            ServerName::try_from(name.to_owned())
                .map_err(|error| unusable_name(name, &error.to_string()))
        };
        Ok(Self {
            policy: VerifyPolicy::Trusted {
                authorities,
                pinned: trusted.pinned,
                server_name: server_name.map(parse).transpose()?,
            },
            provider,
        })
    }

    fn accepting_any(provider: Arc<CryptoProvider>) -> Self {
        Self { policy: VerifyPolicy::AcceptAny, provider }
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        host: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match &self.policy {
            VerifyPolicy::Trusted { authorities, pinned, server_name } => {
                let name = server_name.as_ref().unwrap_or(host);
                let checked = authorities.verify_server_cert(
                    end_entity,
                    intermediates,
                    name,
                    ocsp_response,
                    now,
                );
                match checked {
                    Err(error) if is_wrong_kind(&error) && pinned.contains(end_entity) => {
                        verify_server_name(&ParsedCertificate::try_from(end_entity)?, name)?;
                        Ok(ServerCertVerified::assertion())
                    }
                    checked => checked,
                }
            }
            VerifyPolicy::AcceptAny => Ok(ServerCertVerified::assertion()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }

    fn root_hint_subjects(&self) -> Option<&[DistinguishedName]> {
        match &self.policy {
            VerifyPolicy::Trusted { authorities, .. } => authorities.root_hint_subjects(),
            VerifyPolicy::AcceptAny => None,
        }
    }
}

/// Returns whether a certificate was refused for its kind, such as an authority's certificate.
/// rustls checks the validity period first. A pinned certificate of the wrong kind is accepted, as
/// Go's TLS does, so a self-signed server certificate can be trusted by naming its file.
fn is_wrong_kind(error: &rustls::Error) -> bool {
    matches!(error, rustls::Error::InvalidCertificate(CertificateError::Other(_)))
}

/// Returns whether a server name is an IP address, which TLS never sends to the server (RFC 6066).
pub(super) fn is_ip(name: &str) -> bool {
    name.parse::<IpAddr>().is_ok()
}
