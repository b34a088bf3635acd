//! Errors of requests that got no complete response: failed, broken and late connections.
//!
//! The main question is whether the server can have received the request. It cannot if the
//! connection failed, or if the server refused the TLS handshake. In every other case the outcome
//! of a write is unknown, and the request is not repeated.

use std::error::Error;
use std::io::ErrorKind;
use std::time::Duration;

use rustls::{AlertDescription, CertificateError};

use super::request::RequestContext;
use super::retrying::AttemptError;
use crate::ports::ApiError;
use nomad_csi_model::diagnostic::Code;
use nomad_csi_model::retry::Verdict;

/// A host name that does not resolve.
#[derive(Debug, thiserror::Error)]
#[error("{host}: {source}")]
pub(super) struct UnknownHost {
    pub(super) host: String,
    pub(super) source: std::io::Error,
}

/// Why a request got no complete response.
struct ConnectionFailure {
    code: Code,
    reason: String,
    help: Option<String>,
    /// True if the server cannot have received the request.
    not_sent: bool,
}

impl ConnectionFailure {
    fn not_sent(code: Code, reason: impl Into<String>) -> Self {
        Self { code, reason: reason.into(), help: None, not_sent: true }
    }

    fn maybe_sent(code: Code, reason: impl Into<String>) -> Self {
        Self { not_sent: false, ..Self::not_sent(code, reason) }
    }

    #[must_use]
    fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

/// The error of a request that got no complete response.
pub(super) fn connection_error(
    error: &reqwest::Error,
    context: RequestContext<'_>,
) -> AttemptError {
    let failure = tls_failure(error, context)
        .or_else(|| connect_failure(error, context))
        .unwrap_or_else(|| broken_connection(error, context));
    attempt_error(failure, context)
}

/// The error of a request whose response is late.
pub(super) fn timeout_error(limit: Duration, context: RequestContext<'_>) -> AttemptError {
    let reason = format!("`{}` did not respond within {}s", context.server(), limit.as_secs());
    let failure = ConnectionFailure::maybe_sent(Code::ApiTimeout, reason);
    let mut failed = attempt_error(failure, context);
    failed.verdict = Verdict::Permanent;
    failed
}

fn attempt_error(failure: ConnectionFailure, context: RequestContext<'_>) -> AttemptError {
    let mut error = if failure.not_sent {
        ApiError::new(failure.code, context.failed(&failure.reason))
    } else {
        context.no_clear_response(failure.code, &failure.reason)
    };
    error.help.extend(failure.help);
    let verdict = match error.code {
        Code::ApiConnectionLost => Verdict::RetryUnknownOutcome,
        Code::ApiConnectionRefused | Code::ApiUnreachable | Code::ApiSocket | Code::ApiTimeout
            if failure.not_sent =>
        {
            Verdict::RetryLater
        }
        _ => Verdict::Permanent,
    };
    AttemptError { error, verdict }
}

fn connect_failure(
    error: &reqwest::Error,
    context: RequestContext<'_>,
) -> Option<ConnectionFailure> {
    if !error.is_connect() {
        return None;
    }
    let name = context.server();
    if let Some(unknown) = find::<UnknownHost>(error) {
        let reason = format!("unknown host `{}` ({})", unknown.host, unknown.source);
        return Some(ConnectionFailure::not_sent(Code::ApiUnknownHost, reason));
    }
    if error.is_timeout() {
        let reason = format!("connecting to `{name}` timed out");
        return Some(ConnectionFailure::not_sent(Code::ApiTimeout, reason));
    }
    let io = deepest_io(error);
    if context.address.socket.is_some() {
        let why = io.map_or_else(|| error.to_string(), ToString::to_string);
        let reason = format!("cannot connect to `{name}`: {why}");
        return Some(ConnectionFailure::not_sent(Code::ApiSocket, reason));
    }
    Some(match io.map(std::io::Error::kind) {
        Some(ErrorKind::ConnectionRefused) => refused(context),
        Some(ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe) => {
            let reason = format!("`{name}` closed the connection during the handshake");
            let failure = ConnectionFailure::not_sent(Code::ApiConnectionLost, reason);
            if context.address.is_https() {
                return Some(failure.help("use `http://` if the server does not use TLS"));
            }
            failure
        }
        Some(_) | None => {
            let why = io.map_or_else(|| root_cause(error), ToString::to_string);
            let reason = format!("cannot reach `{name}`: {why}");
            ConnectionFailure::not_sent(Code::ApiUnreachable, reason)
        }
    })
}

fn refused(context: RequestContext<'_>) -> ConnectionFailure {
    let reason = format!("`{}` refused the connection", context.server());
    let failure = ConnectionFailure::not_sent(Code::ApiConnectionRefused, reason);
    let base = &context.address.base;
    if base.port().is_none() {
        let port = base.port_or_known_default().unwrap_or(80);
        return failure.help(format!(
            "add the port to the address: Nomad's default is 4646, but without a port {port} is used"
        ));
    }
    failure.help(
        "check that Nomad runs there, set NOMAD_ADDR or --address to its address, or use \
         --embedded to start the embedded agent",
    )
}

fn tls_failure(error: &reqwest::Error, context: RequestContext<'_>) -> Option<ConnectionFailure> {
    let tls = find::<rustls::Error>(error)?;
    let name = context.server();
    let refuse = |reason: String| ConnectionFailure::not_sent(Code::ApiTls, reason);
    Some(match tls {
        rustls::Error::InvalidCertificate(problem) => certificate_failure(problem, name),
        rustls::Error::InvalidMessage(_) => {
            refuse(format!("`{name}` does not use TLS")).help("use `http://` in the address")
        }
        rustls::Error::AlertReceived(alert) => alert_failure(*alert, context),
        rustls::Error::PeerIncompatible(_) => {
            refuse(format!("`{name}` supports no TLS version of this program ({tls})"))
        }
        // The connection broke: the server may have received what was sent before.
        other => ConnectionFailure {
            not_sent: error.is_connect(),
            ..refuse(format!("the TLS connection to `{name}` failed: {other}"))
        },
    })
}

fn certificate_failure(problem: &CertificateError, name: &str) -> ConnectionFailure {
    let refuse = |reason: String| ConnectionFailure::not_sent(Code::ApiTls, reason);
    match problem {
        CertificateError::UnknownIssuer => refuse(format!(
            "the certificate of `{name}` is signed by an unknown authority"
        ))
        .help("set --ca-cert or NOMAD_CACERT to the authority's certificate"),
        CertificateError::NotValidForName => {
            refuse(format!("the certificate of `{name}` is valid for another name"))
                .help("set --tls-server-name or NOMAD_TLS_SERVER_NAME to that name")
        }
        CertificateError::NotValidForNameContext { presented, .. } => refuse(format!(
            "the certificate of `{name}` is valid only for {}",
            names(presented)
        ))
        .help("set --tls-server-name or NOMAD_TLS_SERVER_NAME to one of these names"),
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            refuse(format!("the certificate of `{name}` has expired"))
                .help("renew the certificate, and check this machine's clock")
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            refuse(format!("the certificate of `{name}` is not valid yet"))
                .help("check the clocks of this machine and of the server")
        }
        CertificateError::BadSignature => refuse(format!(
            "the signature of the certificate of `{name}` does not match its authority"
        ))
        .help("set --ca-cert or NOMAD_CACERT to the current certificate of the server's CA: a new CA may have the old name"),
        CertificateError::Revoked => refuse(format!("the certificate of `{name}` is revoked"))
            .help("renew the certificate"),
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            refuse(format!("the certificate of `{name}` is not a server certificate"))
                .help("use a certificate with the extended key usage `serverAuth`")
        }
        // rustls describes none of these.
        CertificateError::Other(_) => refuse(format!(
            "the certificate of `{name}` is not a server certificate: it belongs to an authority (CA:TRUE), or has unknown extensions"
        ))
        .help("sign a server certificate with the authority, or trust this certificate with --ca-cert or NOMAD_CACERT"),
        other => refuse(format!("the certificate of `{name}` is invalid: {other}")),
    }
}

/// Returns the names in rustls's list of a certificate's names: `DnsName("server.global.nomad")`.
fn names(presented: &[String]) -> String {
    let inner = |name: &String| {
        let quoted = name.split('"').nth(1);
        let bracketed = name.split_once('(').map(|(_, rest)| rest.trim_end_matches(')'));
        format!("`{}`", quoted.or(bracketed).unwrap_or(name))
    };
    presented.iter().map(inner).collect::<Vec<_>>().join(", ")
}

fn alert_failure(alert: AlertDescription, context: RequestContext<'_>) -> ConnectionFailure {
    let name = context.server();
    let refuse = |reason: String| ConnectionFailure::not_sent(Code::ApiTls, reason);
    let is_about_client = matches!(
        alert,
        AlertDescription::CertificateRequired
            | AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            | AlertDescription::AccessDenied
            | AlertDescription::HandshakeFailure
    );
    if is_about_client && context.has_identity {
        return refuse(format!("`{name}` rejected the client certificate ({alert:?})"))
            .help("use a client certificate that the server's CA signed");
    }
    if is_about_client {
        return refuse(format!("`{name}` requires a client certificate ({alert:?})"))
            .help("set --client-cert and --client-key, or NOMAD_CLIENT_CERT and NOMAD_CLIENT_KEY");
    }
    if alert == AlertDescription::UnrecognisedName {
        return refuse(format!("`{name}` has no certificate for the server name"))
            .help("check --tls-server-name or NOMAD_TLS_SERVER_NAME");
    }
    refuse(format!("`{name}` refused the TLS connection ({alert:?})"))
}

fn broken_connection(error: &reqwest::Error, context: RequestContext<'_>) -> ConnectionFailure {
    let name = context.server();
    let http = find::<hyper::Error>(error);
    if http.is_some_and(hyper::Error::is_parse) {
        let why = http.map_or_else(String::new, ToString::to_string);
        let reason = format!("`{name}` is not an HTTP server ({why})");
        let failure = ConnectionFailure::maybe_sent(Code::ApiNotNomad, reason);
        return if context.address.is_https() {
            failure
        } else {
            failure.help("use `https://` in the address if the server uses TLS")
        };
    }
    if error.is_builder() {
        let reason = format!("the request is invalid: {}", root_cause(error));
        return ConnectionFailure::not_sent(Code::Internal, reason);
    }
    // A truncated body is a hyper error. A body that does not decompress is not.
    if error.is_decode() && http.is_none() {
        let reason = format!("the response of `{name}` is corrupt: {}", root_cause(error));
        return ConnectionFailure::maybe_sent(Code::ApiNotNomad, reason);
    }
    let reason = format!("`{name}` closed the connection before the response was complete");
    let failure = ConnectionFailure::maybe_sent(Code::ApiConnectionLost, reason);
    let help = match (context.address.is_https(), context.has_identity) {
        (true, false) => {
            "if this persists, set --client-cert and --client-key: the server may require a client certificate"
        }
        (true, true) => "if this persists, check the port: Nomad's HTTP port is 4646 by default",
        (false, _) => {
            "if this persists, use `https://` if the server uses TLS, and check the port: Nomad's HTTP port is 4646 by default"
        }
    };
    failure.help(help)
}

/// Returns the message of the innermost error. The outer ones only report that something failed.
fn root_cause(error: &reqwest::Error) -> String {
    let mut deepest: &dyn Error = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    deepest.to_string()
}

/// Returns the operating system's error, which other I/O errors may wrap.
fn deepest_io<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a std::io::Error> {
    let mut found = find::<std::io::Error>(error)?;
    while let Some(inside) = found.get_ref().and_then(|inside| find::<std::io::Error>(inside)) {
        found = inside;
    }
    Some(found)
}

/// Returns the first error of a type among the causes. `io::Error` does not list its content as a
/// source.
fn find<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    let mut next = Some(error);
    while let Some(current) = next {
        if let Some(found) = current.downcast_ref::<E>() {
            return Some(found);
        }
        let inside = current.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        if let Some(found) = inside.and_then(|inside| find::<E>(inside)) {
            return Some(found);
        }
        next = current.source();
    }
    None
}
