//! The certificates of a cluster: makes them, and reads that of this process.

use std::path::PathBuf;

use super::blocking::run_blocking;
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics};
use nomad_csi_ports::SystemClock;
use nomad_csi_rpc::{
    Authority, ClusterTls, ClusterTlsFiles, HttpsAcceptor, HttpsFiles, Role, TlsError,
};

/// A certificate with fewer days left is worth a warning.
const FEW_DAYS: u64 = 30;

/// Reads the files of a process with this role.
///
/// # Errors
/// If one cannot be used.
pub(super) async fn load_tls(
    files: &ClusterTlsFiles,
    role: Role,
    region: &str,
) -> Result<ClusterTls, Diagnostics> {
    let (files, region) = (files.clone(), region.to_owned());
    let load = move || {
        let tls = ClusterTls::load(&files, role, &region, &SystemClock)?;
        let days = tls.days_left(&SystemClock);
        if days < FEW_DAYS {
            let file = files.certificate.display();
            tracing::warn!(certificate = %file, days, "the certificate, or its authority, ends soon; issue another one");
        }
        Ok(tls)
    };
    run_blocking(load).await?.map_err(|error| tls_problem(&error))
}

/// Reads the certificate of the HTTP API.
///
/// # Errors
/// If a file cannot be used.
pub(super) async fn load_https(files: &HttpsFiles) -> Result<HttpsAcceptor, Diagnostics> {
    let files = files.clone();
    let loaded = run_blocking(move || HttpsAcceptor::load(&files)).await?;
    loaded.map_err(|error| tls_problem(&error))
}

/// The certificates that this program makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateRole {
    /// That of a server.
    Server,
    /// That of a node.
    Node,
}

/// Makes an authority in a directory, and returns the file with its certificate.
///
/// # Errors
/// If the directory has one, or a file cannot be written.
pub async fn create_authority(directory: PathBuf) -> Result<Vec<PathBuf>, Diagnostics> {
    let create = move || Authority::create(&directory, &SystemClock);
    let authority = run_blocking(create).await?.map_err(|error| tls_problem(&error))?;
    Ok(vec![authority.certificate_file(), authority.key_file()])
}

/// Issues a certificate of the authority in a directory, and returns its files.
///
/// # Errors
/// If the authority cannot be read, or a file cannot be written.
pub async fn issue_certificate(
    directory: PathBuf,
    role: CertificateRole,
    name: String,
    region: String,
    addresses: Vec<String>,
) -> Result<Vec<PathBuf>, Diagnostics> {
    let role = match role {
        CertificateRole::Server => Role::Server,
        CertificateRole::Node => Role::Node,
    };
    let issue = move || {
        let authority = Authority::open(&directory);
        authority.issue_with_addresses(role, &name, &region, &addresses, &SystemClock)
    };
    let issued = run_blocking(issue).await?.map_err(|error| tls_problem(&error))?;
    Ok(vec![issued.certificate, issued.key])
}

/// A file with a certificate or a key as a diagnostic.
pub(super) fn tls_problem(error: &TlsError) -> Diagnostics {
    let TlsError { action, file, reason, help } = error;
    let message = format!("cannot {action} `{}`: {reason}", file.display());
    Diagnostic::error(Code::AgentCertificate, message).help(help).into()
}
