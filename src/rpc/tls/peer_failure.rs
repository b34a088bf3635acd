//! What an error of TLS between a node and a server means, in words for an operator.
//!
//! The texts name the end that refused, and the certificate that it refused.

use std::io;

use rustls::{AlertDescription, CertificateError, Error};

use super::role::Role;

/// Returns the error of TLS in an error of a stream.
pub(crate) fn tls_error(error: &io::Error) -> Option<&Error> {
    error.get_ref()?.downcast_ref()
}

/// Returns why a node has no connection to a server.
pub(crate) fn failure_at_node(error: &io::Error, region: &str) -> String {
    let Some(tls) = tls_error(error) else {
        return match error.kind() {
            // TLS ends with a message, except for a process that is refused or gone.
            io::ErrorKind::UnexpectedEof => {
                "the server closed the connection; its log has the reason".to_owned()
            }
            _ => error.to_string(),
        };
    };
    match tls {
        Error::AlertReceived(alert) => alert_text(*alert, "server", "node"),
        Error::InvalidCertificate(invalid) => {
            certificate_text(invalid, Role::Server, region, "this node trusts")
        }
        Error::InvalidMessage(_) => format!(
            "the address is not that of a server for nodes: what answers there does not speak TLS ({tls})"
        ),
        tls => tls.to_string(),
    }
}

/// Returns why a server does not accept a connection.
pub(crate) fn failure_at_server(error: &io::Error) -> String {
    let Some(tls) = tls_error(error) else { return error.to_string() };
    match tls {
        Error::AlertReceived(alert) => alert_text(*alert, "node", "server"),
        Error::InvalidCertificate(invalid) => {
            certificate_text(invalid, Role::Node, "", "this server trusts")
        }
        Error::NoCertificatesPresented => "it has no certificate".to_owned(),
        Error::InvalidMessage(_) => format!("it does not speak TLS ({tls})"),
        tls => tls.to_string(),
    }
}

fn alert_text(alert: AlertDescription, peer: &str, own: &str) -> String {
    let reason = match alert {
        // All authorities that this program makes have one name, so another one's signature is a bad one.
        AlertDescription::UnknownCA | AlertDescription::DecryptError => {
            format!("none of the authorities that the {peer} trusts issued it")
        }
        AlertDescription::CertificateExpired => {
            format!("it has expired, or is not valid yet at the clock of the {peer}")
        }
        AlertDescription::BadCertificate
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateRevoked
        | AlertDescription::CertificateUnknown
        | AlertDescription::CertificateRequired
        | AlertDescription::AccessDenied => format!("the log of the {peer} has the reason"),
        AlertDescription::NoApplicationProtocol => {
            return format!(
                "the {peer} does not speak the protocol of a cluster (TLS alert {alert:?})"
            );
        }
        alert => return format!("the {peer} refused TLS (TLS alert {alert:?})"),
    };
    format!("the {peer} refused the certificate of this {own} (TLS alert {alert:?}): {reason}")
}

fn certificate_text(invalid: &CertificateError, role: Role, region: &str, trusted: &str) -> String {
    let role_name = role.as_str();
    match invalid {
        // All authorities that this program makes have one name, so another one's signature is a bad one.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => format!(
            "none of the authorities that {trusted} issued the certificate of the {role_name}"
        ),
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            format!("the certificate of the {role_name}, or its authority, has expired")
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            format!("the certificate of the {role_name} is not valid yet; check the clocks")
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            format!(
                "the certificate of the {role_name} has no DNS name `{}`: it is of another role or region",
                role.dns_name(region)
            )
        }
        invalid => format!("the certificate of the {role_name} is refused: {invalid}"),
    }
}
