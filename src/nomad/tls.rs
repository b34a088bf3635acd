//! Whom to trust and who to be: settings to a rustls configuration (`nomad-http-api` 2.1, 2.2).
//!
//! TLS 1.2 and later. The cryptography provider is handed over explicitly, never installed for the
//! process, so that nothing depends on who came first. Files are read here, on a blocking thread.
//! A certificate that is wrong in any way is refused by default; [`TlsSettings::skip_verify`] gives
//! up exactly that and still checks that the other side holds the certificate's key.

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
use crate::diagnostic::Code;
use crate::ports::ApiError;

#[cfg(not(any(feature = "tls-ring", feature = "tls-aws-lc")))]
compile_error!("choose a cryptography provider: feature `tls-ring` or `tls-aws-lc`");

fn provider() -> Arc<CryptoProvider> {
    #[cfg(feature = "tls-ring")]
    return Arc::new(rustls::crypto::ring::default_provider());
    #[cfg(all(feature = "tls-aws-lc", not(feature = "tls-ring")))]
    return Arc::new(rustls::crypto::aws_lc_rs::default_provider());
}

/// How the certificate's name is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameCheck<'a> {
    /// Against the host of the URL.
    Host,
    /// Against this one, whatever the URL says.
    Other(&'a str),
}

/// The configuration for an `https` server.
pub(super) fn secure(
    settings: &TlsSettings,
    name: NameCheck<'_>,
) -> Result<ClientConfig, ApiError> {
    let provider = provider();
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable("the TLS library", &error.to_string()))?;
    let builder = if settings.skip_verify {
        builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Verifier::of_anyone(provider)))
    } else {
        let trust = trust(settings)?;
        if trust.authorities.is_empty() {
            // A system without authorities: nobody is believed.
            builder.with_root_certificates(trust.authorities)
        } else {
            let verifier = Verifier::of(name, trust, provider)?;
            builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(verifier))
        }
    };
    match client_identity(settings)? {
        Some((chain, key, file)) => builder
            .with_client_auth_cert(chain, key)
            .map_err(|error| unusable(&shown(&file), &error.to_string())),
        None => Ok(builder.with_no_client_auth()),
    }
}

/// The configuration for a server without TLS: no file is read and nothing would be trusted.
pub(super) fn plain() -> Result<ClientConfig, ApiError> {
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable("the TLS library", &error.to_string()))?;
    Ok(builder
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth())
}

/// Whom a person trusts.
struct Trust {
    authorities: RootCertStore,
    /// The certificates that the settings name, as they are: each is believed also by itself.
    named: Vec<CertificateDer<'static>>,
}

fn trust(settings: &TlsSettings) -> Result<Trust, ApiError> {
    let mut trust = Trust {
        authorities: RootCertStore::empty(),
        named: vec![],
    };
    if let Some(file) = given(settings.ca_file.as_ref()) {
        for certificate in certificates(file)? {
            trust
                .authorities
                .add(certificate.clone())
                .map_err(|error| unusable(&shown(file), &error.to_string()))?;
            trust.named.push(certificate);
        }
    } else if let Some(directory) = given(settings.ca_directory.as_ref()) {
        add_directory(&mut trust, directory)?;
    } else {
        // Unreadable ones are passed over: what matters is whether the server's issuer is there.
        let system = rustls_native_certs::load_native_certs();
        trust.authorities.add_parsable_certificates(system.certs);
    }
    Ok(trust)
}

/// Every certificate of every file below a directory; files that hold none are passed over.
fn add_directory(trust: &mut Trust, directory: &Path) -> Result<(), ApiError> {
    let mut folders = vec![directory.to_owned()];
    while let Some(folder) = folders.pop() {
        let cannot_read = |error: std::io::Error| unusable(&shown(&folder), &error.to_string());
        for entry in std::fs::read_dir(&folder).map_err(cannot_read)? {
            let entry = entry.map_err(cannot_read)?;
            if entry.file_type().map_err(cannot_read)?.is_dir() {
                folders.push(entry.path());
            } else if let Ok(found) = certificates(&entry.path()) {
                let believed = found.iter().cloned();
                trust.authorities.add_parsable_certificates(believed);
                trust.named.extend(found);
            }
        }
    }
    if trust.authorities.is_empty() {
        return Err(unusable(
            &shown(directory),
            "no file in it holds a certificate",
        ));
    }
    Ok(())
}

type Identity = (
    Vec<CertificateDer<'static>>,
    PrivateKeyDer<'static>,
    PathBuf,
);

fn client_identity(settings: &TlsSettings) -> Result<Option<Identity>, ApiError> {
    let certificate = given(settings.client_certificate.as_ref());
    let key = given(settings.client_key.as_ref());
    match (certificate, key) {
        (None, None) => Ok(None),
        (Some(certificate), Some(key)) => Ok(Some((
            certificates(certificate)?,
            private_key(key)?,
            key.to_owned(),
        ))),
        (Some(certificate), None) => {
            let why = "its key is not given; both are needed or neither";
            Err(unusable(&shown(certificate), why))
        }
        (None, Some(key)) => {
            let why = "its certificate is not given; both are needed or neither";
            Err(unusable(&shown(key), why))
        }
    }
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, ApiError> {
    let pem = read(file)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let found = found.map_err(|error| unusable(&shown(file), &error.to_string()))?;
    if found.is_empty() {
        return Err(unusable(&shown(file), "it holds no PEM certificate"));
    }
    Ok(found)
}

fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, ApiError> {
    let pem = zeroize::Zeroizing::new(read(file)?);
    PrivateKeyDer::from_pem_slice(&pem).map_err(|_| {
        let encrypted = pem.windows(9).any(|window| window == b"ENCRYPTED");
        let why = if encrypted {
            "the key in it is encrypted"
        } else {
            "it holds no PEM private key"
        };
        unusable(&shown(file), why)
    })
}

fn read(file: &Path) -> Result<Vec<u8>, ApiError> {
    std::fs::read(file).map_err(|error| unusable(&shown(file), &error.to_string()))
}

fn given(path: Option<&PathBuf>) -> Option<&Path> {
    path.map(PathBuf::as_path)
        .filter(|path| !path.as_os_str().is_empty())
}

fn shown(path: &Path) -> String {
    format!("`{}`", path.display())
}

/// A server name that is none.
pub(super) fn unusable_name(name: &str, why: &str) -> ApiError {
    unusable(&format!("the server name `{name}`"), why)
}

fn unusable(what: &str, why: &str) -> ApiError {
    ApiError {
        code: Code::ApiTlsFiles,
        status: None,
        message: format!("{what} cannot be used for TLS: {why}"),
        help: vec![],
        server_text: None,
    }
}

/// Checks certificates in another way than rustls does by itself. That the other side holds the
/// certificate's key is checked in any case.
#[derive(Debug)]
struct Verifier {
    belief: Belief,
    provider: Arc<CryptoProvider>,
}

/// Which certificates are believed.
#[derive(Debug)]
enum Belief {
    /// Those of the authorities, and those that were named themselves.
    Trusted {
        authorities: Arc<WebPkiServerVerifier>,
        named: Vec<CertificateDer<'static>>,
        /// For this name, whatever the URL says.
        name: Option<ServerName<'static>>,
    },
    /// Any.
    Anyone,
}

impl Verifier {
    fn of(
        name: NameCheck<'_>,
        trust: Trust,
        provider: Arc<CryptoProvider>,
    ) -> Result<Self, ApiError> {
        let roots = Arc::new(trust.authorities);
        let authorities = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider))
            .build()
            .map_err(|error| unusable("the certificate authorities", &error.to_string()))?;
        let name = match name {
            NameCheck::Host => None,
            NameCheck::Other(name) => Some(
                ServerName::try_from(name.to_owned())
                    .map_err(|error| unusable_name(name, &error.to_string()))?,
            ),
        };
        Ok(Self {
            belief: Belief::Trusted {
                authorities,
                named: trust.named,
                name,
            },
            provider,
        })
    }

    fn of_anyone(provider: Arc<CryptoProvider>) -> Self {
        Self {
            belief: Belief::Anyone,
            provider,
        }
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
        match &self.belief {
            Belief::Trusted {
                authorities,
                named,
                name,
            } => {
                let name = name.as_ref().unwrap_or(host);
                let checked = authorities.verify_server_cert(
                    end_entity,
                    intermediates,
                    name,
                    ocsp_response,
                    now,
                );
                match checked {
                    Err(error) if is_about_its_kind(&error) && named.contains(end_entity) => {
                        verify_server_name(&ParsedCertificate::try_from(end_entity)?, name)?;
                        Ok(ServerCertVerified::assertion())
                    }
                    checked => checked,
                }
            }
            Belief::Anyone => Ok(ServerCertVerified::assertion()),
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
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }

    fn root_hint_subjects(&self) -> Option<&[DistinguishedName]> {
        match &self.belief {
            Belief::Trusted { authorities, .. } => authorities.root_hint_subjects(),
            Belief::Anyone => None,
        }
    }
}

/// Whether a certificate was refused for what kind of certificate it is, such as an authority's. Then
/// its time was found to be right: that is looked at before. A certificate of that kind is believed if
/// it is byte for byte one that was named, as by Go's TLS, so that a server whose own certificate signs
/// itself can be trusted by naming it.
fn is_about_its_kind(error: &rustls::Error) -> bool {
    matches!(
        error,
        rustls::Error::InvalidCertificate(CertificateError::Other(_))
    )
}

/// Whether a server name is an IP address: such a name is never sent to the server (RFC 6066).
pub(super) fn is_ip(name: &str) -> bool {
    name.parse::<IpAddr>().is_ok()
}
