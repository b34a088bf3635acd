//! Certificates for tests: an authority and the certificates that it signs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    date_time_ymd,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

/// A certificate authority.
pub(crate) struct Authority {
    certificate: rcgen::Certificate,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key.
pub(crate) struct Identity {
    certificate: rcgen::Certificate,
    key: KeyPair,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("the certificate is signed");
        let issuer = Issuer::new(params, key);
        Self { certificate, issuer }
    }

    /// Signs a server certificate for names and addresses.
    pub(crate) fn server(&self, names: &[&str]) -> Identity {
        self.sign(names, ExtendedKeyUsagePurpose::ServerAuth, 4000)
    }

    /// Signs a server certificate that has expired.
    pub(crate) fn expired(&self, names: &[&str]) -> Identity {
        self.sign(names, ExtendedKeyUsagePurpose::ServerAuth, 2001)
    }

    /// Signs a client certificate.
    pub(crate) fn client(&self) -> Identity {
        self.sign(&["client"], ExtendedKeyUsagePurpose::ClientAuth, 4000)
    }

    fn sign(&self, names: &[&str], purpose: ExtendedKeyUsagePurpose, until: i32) -> Identity {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(names).expect("the names are valid");
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(until, 1, 1);
        params.extended_key_usages = vec![purpose];
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("the certificate is signed");
        Identity { certificate, key }
    }

    /// Writes the authority's certificate.
    pub(crate) fn write(&self, folder: &Path, name: &str) -> PathBuf {
        write(folder, name, &self.certificate.pem())
    }

    fn roots(&self) -> Arc<RootCertStore> {
        let mut roots = RootCertStore::empty();
        let certificate = self.certificate.der().clone();
        roots.add(certificate).expect("the certificate is valid");
        Arc::new(roots)
    }
}

impl Identity {
    /// A self-signed server certificate with CA:TRUE, as some tools create it.
    pub(crate) fn self_signed_authority(names: &[&str], until: i32) -> Self {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(names).expect("the names are valid");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(until, 1, 1);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("the certificate is signed");
        Self { certificate, key }
    }

    /// Writes certificate and key.
    pub(crate) fn write(&self, folder: &Path, name: &str) -> (PathBuf, PathBuf) {
        let certificate = write(folder, &format!("{name}.pem"), &self.certificate.pem());
        let key = self.key.serialize_pem();
        (certificate, write(folder, &format!("{name}-key.pem"), &key))
    }

    /// Returns the configuration of a server. With `clients`, it requires client certificates of
    /// that authority.
    pub(crate) fn config(&self, clients: Option<&Authority>) -> ServerConfig {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .expect("the default versions are supported");
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(authority) => {
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(authority.roots(), provider);
                builder.with_client_cert_verifier(verifier.build().expect("the authority is valid"))
            }
        };
        let chain: Vec<CertificateDer<'static>> = vec![self.certificate.der().clone()];
        let key = PrivatePkcs8KeyDer::from(self.key.serialize_der());
        builder.with_single_cert(chain, PrivateKeyDer::Pkcs8(key)).expect("the key matches")
    }
}

fn write(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, text).expect("the directory is writable");
    path
}
