//! Why there was no answer: failed connections, broken ones, and late ones, in words.
//!
//! What matters most is whether the request can have arrived. It cannot have if no connection came
//! about, or if the other side refused the handshake; in all other cases a write's outcome is
//! unknown, is said to be, and is never repeated (`nomad-http-api` 10.1 point 11).

use std::error::Error;
use std::io::ErrorKind;
use std::time::Duration;

use rustls::{AlertDescription, CertificateError};

use super::address::Address;
use super::retrying::{Access, Failed};
use crate::diagnostic::Code;
use crate::ports::ApiError;
use crate::retry::Verdict;

/// A host that has no address.
#[derive(Debug, thiserror::Error)]
#[error("{host}: {source}")]
pub(super) struct UnknownHost {
    pub(super) host: String,
    pub(super) source: std::io::Error,
}

/// What is being done, for messages: "volume db0 was not created".
#[derive(Clone, Copy, Debug)]
pub(super) struct Context<'a> {
    pub(super) what: &'a str,
    pub(super) access: Access,
    pub(super) address: &'a Address,
    /// Whether a client certificate is given.
    pub(super) has_identity: bool,
}

struct Explained {
    code: Code,
    sentence: String,
    help: Option<String>,
    /// Whether the request cannot have arrived.
    not_sent: bool,
}

impl Explained {
    fn not_sent(code: Code, sentence: impl Into<String>) -> Self {
        Self {
            code,
            sentence: sentence.into(),
            help: None,
            not_sent: true,
        }
    }

    fn perhaps_sent(code: Code, sentence: impl Into<String>) -> Self {
        Self {
            not_sent: false,
            ..Self::not_sent(code, sentence)
        }
    }

    #[must_use]
    fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

/// The failure of a request that got no complete answer.
pub(super) fn explain(error: &reqwest::Error, context: Context<'_>) -> Failed {
    let explained = explain_tls(error, context)
        .or_else(|| explain_connecting(error, context))
        .unwrap_or_else(|| explain_broken(error, context));
    failed(explained, context)
}

/// The failure of a request whose answer did not come within a time.
pub(super) fn explain_late(waited: Duration, context: Context<'_>) -> Failed {
    let name = &context.address.name;
    let sentence = format!("{name} did not answer within {} s", waited.as_secs());
    let mut failed = failed(Explained::perhaps_sent(Code::ApiTimeout, sentence), context);
    failed.verdict = Verdict::Permanent;
    failed
}

fn failed(explained: Explained, context: Context<'_>) -> Failed {
    let uncertain = !explained.not_sent && context.access == Access::Write;
    let mut help: Vec<String> = explained.help.into_iter().collect();
    let (code, message) = if uncertain {
        let lost = "It may have been carried out all the same: look before you run it again.";
        help.insert(0, lost.to_owned());
        let what = context.what.replacen(" was not ", " was perhaps not ", 1);
        (
            Code::ApiOutcomeUnknown,
            format!("{what}: {}", explained.sentence),
        )
    } else {
        (
            explained.code,
            format!("{}: {}", context.what, explained.sentence),
        )
    };
    let verdict = if code == Code::ApiConnectionLost {
        Verdict::RetryUnknownOutcome
    } else {
        Verdict::Permanent
    };
    let error = ApiError {
        code,
        status: None,
        message,
        help,
        server_text: None,
    };
    Failed { error, verdict }
}

fn explain_connecting(error: &reqwest::Error, context: Context<'_>) -> Option<Explained> {
    if !error.is_connect() {
        return None;
    }
    let name = &context.address.name;
    if let Some(unknown) = find::<UnknownHost>(error) {
        let sentence = format!(
            "the host `{}` is not known ({})",
            unknown.host, unknown.source
        );
        return Some(Explained::not_sent(Code::ApiUnknownHost, sentence));
    }
    if error.is_timeout() {
        let sentence = format!("{name} did not accept a connection in time");
        return Some(Explained::not_sent(Code::ApiTimeout, sentence));
    }
    let io = deepest_io(error);
    if context.address.socket.is_some() {
        let why = io.map_or_else(|| error.to_string(), ToString::to_string);
        let sentence = format!("{name} cannot be opened: {why}");
        return Some(Explained::not_sent(Code::ApiSocket, sentence));
    }
    Some(match io.map(std::io::Error::kind) {
        Some(ErrorKind::ConnectionRefused) => refused(context),
        Some(ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe) => {
            let sentence = format!("{name} ended the connection while it was being made");
            let explained = Explained::not_sent(Code::ApiConnectionLost, sentence);
            if context.address.is_https() {
                return Some(explained.help("If it does not speak TLS, write `http://`."));
            }
            explained
        }
        Some(_) | None => {
            let why = io.map_or_else(|| root(error), ToString::to_string);
            let sentence = format!("{name} cannot be reached: {why}");
            Explained::not_sent(Code::ApiUnreachable, sentence)
        }
    })
}

fn refused(context: Context<'_>) -> Explained {
    let name = &context.address.name;
    let sentence = format!("{name} refused the connection: nothing listens there");
    let explained = Explained::not_sent(Code::ApiConnectionRefused, sentence);
    if context.address.base.port().is_none() {
        let port = context.address.base.port_or_known_default().unwrap_or(80);
        return explained.help(format!(
            "The address names no port, so {port} was tried; Nomad's is 4646."
        ));
    }
    explained.help(
        "Is Nomad running there? Set NOMAD_ADDR or --address to where it is, or use --embedded \
         for an agent of your own.",
    )
}

fn explain_tls(error: &reqwest::Error, context: Context<'_>) -> Option<Explained> {
    let tls = find::<rustls::Error>(error)?;
    let name = &context.address.name;
    let refuse = |sentence: String| Explained::not_sent(Code::ApiTls, sentence);
    Some(match tls {
        rustls::Error::InvalidCertificate(problem) => certificate(problem, name),
        rustls::Error::InvalidMessage(_) => {
            refuse(format!("{name} does not speak TLS")).help("Write `http://` in the address.")
        }
        rustls::Error::AlertReceived(alert) => refused_by_alert(*alert, context),
        rustls::Error::PeerIncompatible(_) => refuse(format!(
            "{name} and this program share no version of TLS ({tls})"
        )),
        // Not a refusal but a break: what was sent before it may have arrived.
        other => Explained {
            not_sent: error.is_connect(),
            ..refuse(format!("the secure connection to {name} failed: {other}"))
        },
    })
}

fn certificate(problem: &CertificateError, name: &str) -> Explained {
    let refuse = |sentence: String| Explained::not_sent(Code::ApiTls, sentence);
    match problem {
        CertificateError::UnknownIssuer => refuse(format!(
            "the certificate of {name} is signed by an authority that is not trusted here"
        ))
        .help("Name the CA's certificate with --ca-cert or NOMAD_CACERT."),
        CertificateError::NotValidForName => {
            refuse(format!("the certificate of {name} is for another name"))
                .help("Name it with --tls-server-name or NOMAD_TLS_SERVER_NAME.")
        }
        CertificateError::NotValidForNameContext { presented, .. } => refuse(format!(
            "the certificate of {name} is for other names: {}",
            names(presented)
        ))
        .help("Name one of them with --tls-server-name or NOMAD_TLS_SERVER_NAME."),
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            refuse(format!("the certificate of {name} has expired"))
                .help("Renew it, and check the clock of this machine.")
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            refuse(format!("the certificate of {name} is not valid yet"))
                .help("Check the clock of this machine and of the server.")
        }
        CertificateError::BadSignature => refuse(format!(
            "the certificate of {name} is not signed by the authority whose name it bears"
        ))
        .help("The server's CA may have been made anew under the same name: name its present certificate with --ca-cert or NOMAD_CACERT."),
        CertificateError::Revoked => {
            refuse(format!("the certificate of {name} has been revoked")).help("Renew it.")
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            refuse(format!("the certificate of {name} is not one for servers"))
                .help("It needs the extended key usage `serverAuth`.")
        }
        // rustls has no words of its own for these.
        CertificateError::Other(_) => refuse(format!(
            "the certificate of {name} is of a kind that no server should have: an authority's own (CA:TRUE), or one with unknown extensions"
        ))
        .help("Give the server a certificate that the authority has signed; or, if it shall be trusted by itself, name this very certificate with --ca-cert or NOMAD_CACERT."),
        other => refuse(format!(
            "the certificate of {name} is not accepted: {other}"
        )),
    }
}

/// What rustls says is in a certificate: `DnsName("server.global.nomad")`.
fn names(presented: &[String]) -> String {
    let inner = |name: &String| {
        let quoted = name.split('"').nth(1);
        let bracketed = name
            .split_once('(')
            .map(|(_, rest)| rest.trim_end_matches(')'));
        quoted.or(bracketed).unwrap_or(name).to_owned()
    };
    presented.iter().map(inner).collect::<Vec<_>>().join(", ")
}

fn refused_by_alert(alert: AlertDescription, context: Context<'_>) -> Explained {
    let name = &context.address.name;
    let refuse = |sentence: String| Explained::not_sent(Code::ApiTls, sentence);
    let about_identity = matches!(
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
    if about_identity && context.has_identity {
        return refuse(format!(
            "{name} does not accept the client certificate ({alert:?})"
        ))
        .help("Use one that the server's CA has signed for clients.");
    }
    if about_identity {
        return refuse(format!("{name} wants a client certificate ({alert:?})")).help(
            "Name one with --client-cert and --client-key, or NOMAD_CLIENT_CERT and NOMAD_CLIENT_KEY.",
        );
    }
    if alert == AlertDescription::UnrecognisedName {
        return refuse(format!("{name} has no certificate for that name"))
            .help("Check --tls-server-name or NOMAD_TLS_SERVER_NAME.");
    }
    refuse(format!("{name} refused the secure connection ({alert:?})"))
}

fn explain_broken(error: &reqwest::Error, context: Context<'_>) -> Explained {
    let name = &context.address.name;
    let http = find::<hyper::Error>(error);
    if http.is_some_and(hyper::Error::is_parse) {
        let why = http.map_or_else(String::new, ToString::to_string);
        let sentence = format!("what answers at {name} does not speak HTTP ({why})");
        let explained = Explained::perhaps_sent(Code::ApiNotNomad, sentence);
        return if context.address.is_https() {
            explained
        } else {
            explained.help("If it speaks TLS, write `https://` in the address.")
        };
    }
    if error.is_builder() {
        let sentence = format!("the request cannot be made: {}", root(error));
        return Explained::not_sent(Code::Internal, sentence);
    }
    // A body that is cut short is an error of hyper's, one that cannot be unpacked is not.
    if error.is_decode() && http.is_none() {
        let sentence = format!("the answer of {name} is garbled: {}", root(error));
        return Explained::perhaps_sent(Code::ApiNotNomad, sentence);
    }
    let sentence = format!("{name} ended the connection before its answer was complete");
    let explained = Explained::perhaps_sent(Code::ApiConnectionLost, sentence);
    let help = match (context.address.is_https(), context.has_identity) {
        (true, false) => {
            "If it stays so: does the server want a client certificate (--client-cert, --client-key)?"
        }
        (true, true) => {
            "If it stays so: is the address that of Nomad's HTTP port, 4646 unless configured otherwise?"
        }
        (false, _) => {
            "If it stays so: does the server speak TLS? Then write `https://` in the address. Or is it not Nomad's HTTP port, 4646 unless configured otherwise?"
        }
    };
    explained.help(help)
}

/// The deepest words of an error; those above only say that something failed.
fn root(error: &reqwest::Error) -> String {
    let mut deepest: &dyn Error = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    deepest.to_string()
}

/// The system's own error: others of its type may be wrapped around it.
fn deepest_io<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a std::io::Error> {
    let mut found = find::<std::io::Error>(error)?;
    while let Some(inside) = found
        .get_ref()
        .and_then(|inside| find::<std::io::Error>(inside))
    {
        found = inside;
    }
    Some(found)
}

/// The first error of that type among the causes. `io::Error` hides its own content from `source`.
fn find<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    let mut next = Some(error);
    while let Some(current) = next {
        if let Some(found) = current.downcast_ref::<E>() {
            return Some(found);
        }
        let inside = current
            .downcast_ref::<std::io::Error>()
            .and_then(std::io::Error::get_ref);
        if let Some(found) = inside.and_then(|inside| find::<E>(inside)) {
            return Some(found);
        }
        next = current.source();
    }
    None
}
