//! Reads the certificate of a process of a cluster, and says when it ends soon.

use super::blocking::run_blocking;
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics};
use nomad_csi_ports::SystemClock;
use nomad_csi_rpc::{ClusterTls, ClusterTlsFiles, Role, TlsError};

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

/// A file with a certificate or a key as a diagnostic.
pub(super) fn tls_problem(error: &TlsError) -> Diagnostics {
    let TlsError { action, file, reason, help } = error;
    let message = format!("cannot {action} `{}`: {reason}", file.display());
    Diagnostic::error(Code::AgentCertificate, message).help(help).into()
}
