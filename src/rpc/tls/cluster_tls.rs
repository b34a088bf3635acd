//! [`ClusterTls`]: the certificate of this process, and the authorities that it trusts.
//!
//! Both ends of a connection have a certificate, and TLS 1.3 is required. A file that another user could have changed is
//! refused, and so is a key that another user can read. The process's own certificate is checked like that of a stranger, so a mistake is an error of the
//! start and not of every connection. Connections do not ask whether an authority of a peer has ended, as no verifier of
//! rustls does; the start does.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::client::Resumption;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{CertificateError, ClientConfig, RootCertStore, ServerConfig};

use super::provider::provider;
use super::role::Role;
use super::tls_error::TlsError;
use super::validity::{since_epoch, verify_at};
use nomad_csi_model::{private, shell_quoted};
use nomad_csi_ports::Clock;

/// The longest file that is read.
const MAX_BYTES: u64 = 1 << 20;
/// The longest validity that is distinguished: ten years and some.
const MAX_DAYS: u64 = 4_096;
const DAY: Duration = Duration::from_secs(86_400);

/// The files of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterTlsFiles {
    /// The certificates of the authorities. Two are allowed, which is how one replaces another.
    pub authorities: PathBuf,
    /// The certificate of this process, and those between it and an authority.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

/// The certificate of this process, and the authorities that it trusts. Clones are cheap.
#[derive(Clone)]
pub struct ClusterTls {
    region: Arc<str>,
    authorities: Arc<[CertificateDer<'static>]>,
    chain: Arc<[CertificateDer<'static>]>,
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
}

impl std::fmt::Debug for ClusterTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClusterTls").field("region", &self.region).finish_non_exhaustive()
    }
}

impl ClusterTls {
    /// Reads the files of a process with this role. Blocks.
    ///
    /// # Errors
    /// If a file cannot be read or is not private, the certificate is of another role, region or authority or has ended, or the
    /// key is not its key.
    pub fn load(
        files: &ClusterTlsFiles,
        role: Role,
        region: &str,
        clock: &dyn Clock,
    ) -> Result<Self, TlsError> {
        let authorities = read_certificates(&files.authorities)?;
        let roots = Arc::new(trusted_roots(&files.authorities, &authorities)?);
        let chain = read_certificates(&files.certificate)?;
        check_own(files, &chain, &authorities, role, region, since_epoch(clock))?;
        let key = read_key(&files.key)?;
        let client = client_config(&roots, &chain, key.clone_key());
        let client =
            client.map_err(|error| unusable_key(&files.certificate, &files.key, &error))?;
        let server = server_config(&roots, &chain, key);
        let server =
            server.map_err(|error| unusable_key(&files.certificate, &files.key, &error))?;
        let (region, chain, authorities) = (region.into(), chain.into(), authorities.into());
        Ok(Self { region, authorities, chain, client: Arc::new(client), server: Arc::new(server) })
    }

    /// Returns the region of the cluster.
    pub fn region(&self) -> &str {
        &self.region
    }

    /// Returns for how many whole days the certificate of this process stays valid, together with one authority; at most
    /// 4,096. The authority may be the first to end.
    pub fn days_left(&self, clock: &dyn Clock) -> u64 {
        let now = since_epoch(clock);
        let is_valid_after = |days: u64| {
            let then = now + DAY * u32::try_from(days).unwrap_or(u32::MAX);
            verify_at(&self.chain, &self.authorities, then).is_ok()
        };
        // The verifier says whether a certificate is valid at a time, and not until when.
        let (mut valid, mut invalid) = (0, MAX_DAYS + 1);
        while invalid - valid > 1 {
            let middle = valid.midpoint(invalid);
            if is_valid_after(middle) { valid = middle } else { invalid = middle }
        }
        valid
    }

    /// Returns the certificate of this process.
    #[cfg(test)]
    pub(crate) fn own_certificate(&self) -> &CertificateDer<'static> {
        &self.chain[0]
    }

    /// Returns the configuration of a connection that this process opens, for one protocol.
    pub(crate) fn client(&self, protocol: &[u8]) -> Arc<ClientConfig> {
        let mut config = ClientConfig::clone(&self.client);
        config.alpn_protocols = vec![protocol.to_vec()];
        Arc::new(config)
    }

    /// Returns the configuration of connections that this process accepts, for these protocols.
    pub(crate) fn server(&self, protocols: &[&[u8]]) -> Arc<ServerConfig> {
        let mut config = ServerConfig::clone(&self.server);
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        Arc::new(config)
    }
}

/// Reads the files of a client of another program's servers, which believes these authorities only. Blocks.
///
/// # Errors
/// If a file cannot be read or is not private, or the key is not that of the certificate.
pub fn certified_client(files: &ClusterTlsFiles) -> Result<Arc<ClientConfig>, TlsError> {
    let authorities = read_certificates(&files.authorities)?;
    let roots = Arc::new(trusted_roots(&files.authorities, &authorities)?);
    let chain = read_certificates(&files.certificate)?;
    let client = client_config(&roots, &chain, read_key(&files.key)?);
    let mut client =
        client.map_err(|error| unusable_key(&files.certificate, &files.key, &error))?;
    client.alpn_protocols = vec![b"h2".to_vec()];
    Ok(Arc::new(client))
}

fn client_config(
    roots: &Arc<RootCertStore>,
    chain: &[CertificateDer<'static>],
    key: PrivateKeyDer<'static>,
) -> Result<ClientConfig, rustls::Error> {
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots.clone())
        .with_client_auth_cert(chain.to_vec(), key)?;
    config.resumption = Resumption::disabled();
    Ok(config)
}

fn server_config(
    roots: &Arc<RootCertStore>,
    chain: &[CertificateDer<'static>],
    key: PrivateKeyDer<'static>,
) -> Result<ServerConfig, rustls::Error> {
    let verifier = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider()).build();
    let verifier = verifier.map_err(|error| rustls::Error::General(error.to_string()))?;
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain.to_vec(), key)?;
    // A session that is resumed is not checked again: its certificate may have ended.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}

fn check_own(
    files: &ClusterTlsFiles,
    chain: &[CertificateDer<'static>],
    authorities: &[CertificateDer<'static>],
    role: Role,
    region: &str,
    now: Duration,
) -> Result<(), TlsError> {
    let file = &files.certificate;
    let command = match role {
        Role::Server => {
            let region = shell_quoted(region);
            format!("issue one with `nomad-csi agent tls server NAME --cluster-region {region}`")
        }
        Role::Node => {
            let region = shell_quoted(region);
            format!("issue one with `nomad-csi agent tls node NAME --cluster-region {region}`")
        }
        Role::Client => "issue one with the authority of the cluster".to_owned(),
    };
    verify_at(chain, authorities, now).map_err(|error| {
        let authorities = files.authorities.display();
        let reason = match error {
            // All authorities that this program makes have one name, so another one's signature is a bad one.
            rustls::Error::InvalidCertificate(
                CertificateError::UnknownIssuer | CertificateError::BadSignature,
            ) => format!("none of the authorities in `{authorities}` issued it"),
            rustls::Error::InvalidCertificate(
                CertificateError::Expired | CertificateError::ExpiredContext { .. },
            ) => format!("it or its authority in `{authorities}` has expired"),
            error => error.to_string(),
        };
        TlsError::new("use", file, reason, command.as_str())
    })?;
    if chain.first().is_some_and(|own| role.is_in(region, own)) {
        return Ok(());
    }
    let reason = format!("it has no DNS name `{}`", role.dns_name(region));
    Err(TlsError::new("use", file, reason, command))
}

/// Returns what to trust.
fn trusted_roots(
    file: &Path,
    certificates: &[CertificateDer<'static>],
) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        roots.add(certificate.clone()).map_err(|error| {
            TlsError::new(
                "use",
                file,
                error.to_string(),
                "write certificates of authorities into it, in PEM",
            )
        })?;
    }
    Ok(roots)
}

/// Returns the certificates of a file; at least one.
pub(super) fn read_certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let pem = read(file)?;
    let help = "write one certificate after the other into it, in PEM";
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let found = found.map_err(|error| TlsError::new("read", file, error.to_string(), help))?;
    if found.is_empty() {
        return Err(TlsError::new("read", file, "it contains no certificate in PEM", help));
    }
    Ok(found)
}

pub(super) fn read_key(file: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let opened = open(file)?;
    check_mode(&opened, file)?;
    let pem = read_opened(opened, file)?;
    PrivateKeyDer::from_pem_slice(&pem).map_err(|_| {
        TlsError::new(
            "read",
            file,
            "it contains no key in PEM",
            "write the key of the certificate into it",
        )
    })
}

/// Refuses an open key that other users can read. Its path may name another file by now.
#[cfg_attr(not(unix), expect(unused_variables, reason = "there are no modes"))]
fn check_mode(opened: &File, file: &Path) -> Result<(), TlsError> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let found = opened.metadata();
        let found = found.map_err(|error| TlsError::new("read", file, error.to_string(), CHECK))?;
        let mode = found.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            let reason = format!("other users can read it (mode {mode:04o})");
            let help = format!(
                "run `chmod 600 {}`, and replace it if someone has read it",
                shell_quoted(file.display())
            );
            return Err(TlsError::new("use", file, reason, help));
        }
    }
    Ok(())
}

/// What to do about a file that cannot be read.
const CHECK: &str = "check the path, its owner and its mode";

fn read(file: &Path) -> Result<Vec<u8>, TlsError> {
    read_opened(open(file)?, file)
}

fn open(file: &Path) -> Result<File, TlsError> {
    private::open_given(file).map_err(|error| TlsError::new("read", file, error.to_string(), CHECK))
}

fn read_opened(opened: File, file: &Path) -> Result<Vec<u8>, TlsError> {
    let mut content = vec![];
    let read = opened.take(MAX_BYTES + 1).read_to_end(&mut content);
    read.map_err(|error| TlsError::new("read", file, error.to_string(), CHECK))?;
    if content.len() as u64 > MAX_BYTES {
        return Err(TlsError::new("read", file, "it is larger than 1 MiB", CHECK));
    }
    Ok(content)
}

pub(super) fn unusable_key(certificate: &Path, key: &Path, error: &rustls::Error) -> TlsError {
    let reason = match error {
        rustls::Error::InconsistentKeys(_) => {
            format!("it is not the key of `{}`", certificate.display())
        }
        error => error.to_string(),
    };
    TlsError::new("use", key, reason, "use the key that was issued with the certificate")
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// The path is given another file while the key is read.
    #[test]
    fn the_mode_of_the_file_that_is_read_counts() {
        let directory = tempfile::tempdir().unwrap();
        let (key, other) = (directory.path().join("key's.pem"), directory.path().join("other"));
        for (read, later, is_refused) in [(0o644, 0o600, true), (0o600, 0o644, false)] {
            for (path, mode) in [(&key, read), (&other, later)] {
                std::fs::write(path, "").unwrap();
                std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
            }
            let opened = open(&key).unwrap();
            std::fs::rename(&other, &key).unwrap();
            let checked = check_mode(&opened, &key).map_err(|error| error.to_string());
            assert_eq!(checked.is_err(), is_refused, "{read:o}: {checked:?}");
            if let Err(error) = checked {
                let command = format!("`chmod 600 {}`", shell_quoted(key.display()));
                assert!(error.contains(&command), "{error}");
            }
        }
    }
}
