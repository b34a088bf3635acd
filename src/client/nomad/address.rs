//! Parses the address of a server.
//!
//! Scheme, user, host and port count. The path is dropped, as in Nomad's own client. Messages never
//! show the user or the password.

use std::path::PathBuf;

use percent_encoding::percent_decode_str;
use url::Url;

use super::settings::RedactedString;
use crate::ports::ApiError;
use nomad_csi_model::diagnostic::Code;

/// User and password for HTTP basic authentication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BasicAuth {
    pub(super) user: String,
    pub(super) password: Option<RedactedString>,
}

impl BasicAuth {
    /// Parses `user:password` or `user`; `None` if the text is empty.
    pub(super) fn parse(text: &str) -> Option<Self> {
        if text.is_empty() {
            return None;
        }
        let (user, password) = match text.split_once(':') {
            Some((user, password)) => (user, Some(RedactedString::new(password))),
            None => (text, None),
        };
        Some(Self { user: user.to_owned(), password })
    }
}

/// The address of a server.
#[derive(Clone, Debug)]
pub(super) struct Address {
    /// Scheme, host and port. Requests through a socket use Nomad's default host.
    pub(super) base: Url,
    /// The Unix socket to connect to instead of the host.
    pub(super) socket: Option<PathBuf>,
    /// The user and password in the address.
    pub(super) auth: Option<BasicAuth>,
    /// The address in messages, without user and path.
    pub(super) name: String,
}

impl Address {
    /// Returns whether the connection uses TLS.
    pub(super) fn is_https(&self) -> bool {
        self.base.scheme() == "https"
    }

    /// Parses an address.
    pub(super) fn parse(text: &str) -> Result<Self, ApiError> {
        let text = text.trim();
        if let Some(path) = text.strip_prefix("unix://") {
            return Self::socket(path);
        }
        let Some((scheme, _)) = text.split_once("://") else {
            let example = format!("http://{text}");
            let fits = Url::parse(&example).is_ok_and(|url| url.has_host());
            let help = fits.then(|| format!("use `{}`", without_credentials(&example)));
            return Err(invalid(text, "the scheme is missing", help));
        };
        if !matches!(scheme.to_ascii_lowercase().as_str(), "http" | "https") {
            let why = "the scheme must be `http`, `https` or `unix`";
            return Err(invalid(text, why, None));
        }
        let mut url = Url::parse(text).map_err(|error| invalid(text, &error.to_string(), None))?;
        let auth = (!url.username().is_empty()).then(|| BasicAuth {
            user: percent_decoded(url.username()),
            password: url.password().map(|password| RedactedString::new(percent_decoded(password))),
        });
        let cleared = url.set_username("").and_then(|()| url.set_password(None));
        if cleared.is_err() || !url.has_host() {
            return Err(invalid(text, "the host is missing", None));
        }
        url.set_path("");
        url.set_query(None);
        url.set_fragment(None);
        let name = url.as_str().trim_end_matches('/').to_owned();
        Ok(Self { base: url, socket: None, auth, name })
    }

    fn socket(path: &str) -> Result<Self, ApiError> {
        let text = format!("unix://{path}");
        if path.is_empty() {
            return Err(invalid(&text, "the path of the socket is missing", None));
        }
        // Nomad's own client sends this `Host` through a socket.
        let base = Url::parse("http://127.0.0.1")
            .map_err(|error| invalid(&text, &error.to_string(), None))?;
        Ok(Self { base, socket: Some(PathBuf::from(path)), auth: None, name: text })
    }
}

fn percent_decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// Removes everything before an `@`, which may be a password.
fn without_credentials(text: &str) -> String {
    match (text.find("://"), text.rfind('@')) {
        (Some(scheme), Some(at)) if scheme < at => {
            format!("{}{}", &text[..scheme + 3], &text[at + 1..])
        }
        (None, Some(at)) => text[at + 1..].to_owned(),
        _ => text.to_owned(),
    }
}

fn invalid(text: &str, why: &str, help: Option<String>) -> ApiError {
    let message = format!("invalid address `{}`: {why}", without_credentials(text));
    ApiError { help: help.into_iter().collect(), ..ApiError::new(Code::ApiAddress, message) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_keeps_scheme_user_and_host() {
        for (text, base, user, password) in [
            ("http://127.0.0.1:4646", "http://127.0.0.1:4646", None, None),
            ("HTTPS://Nomad.example", "https://nomad.example", None, None),
            (" http://n:4646/ui/jobs?x#y ", "http://n:4646", None, None),
            ("http://[::1]:4646/v1", "http://[::1]:4646", None, None),
            ("http://me@n:1", "http://n:1", Some("me"), None),
            ("https://me:p%40%3Ass@n:1", "https://n:1", Some("me"), Some("p@:ss")),
        ] {
            let address = Address::parse(text).expect(text);
            assert_eq!(address.name, base, "{text}");
            assert_eq!(address.base.as_str(), format!("{base}/"), "{text}");
            let auth = address.auth.as_ref();
            assert_eq!(auth.map(|auth| auth.user.as_str()), user, "{text}");
            let secret = auth.and_then(|auth| auth.password.as_ref());
            assert_eq!(secret.map(RedactedString::expose), password, "{text}");
        }
    }

    #[test]
    fn a_socket_address_keeps_its_path() {
        let address =
            Address::parse("unix:///run/nomad/api.sock").expect("the socket address is valid");
        assert_eq!(address.socket.as_deref(), Some(std::path::Path::new("/run/nomad/api.sock")));
        assert_eq!(address.base.as_str(), "http://127.0.0.1/");
        assert_eq!(address.name, "unix:///run/nomad/api.sock");
    }

    #[test]
    fn invalid_addresses_are_refused_with_a_correction() {
        for (text, message, help) in [
            (
                "127.0.0.1:4646",
                "`127.0.0.1:4646`: the scheme is missing",
                "use `http://127.0.0.1:4646`",
            ),
            (
                "localhost:4646",
                "`localhost:4646`: the scheme is missing",
                "use `http://localhost:4646`",
            ),
            ("me:secret@n:1", "`n:1`: the scheme is missing", "use `http://n:1`"),
            ("", "``: the scheme is missing", ""),
            ("ftp://n", "`ftp://n`: the scheme must be `http`, `https` or `unix`", ""),
            ("http://", "`http://`: empty host", ""),
            ("http://n:99999", "`http://n:99999`: invalid port number", ""),
            ("http://me:secret@n:x", "`http://n:x`: invalid port number", ""),
            ("unix://", "`unix://`: the path of the socket is missing", ""),
        ] {
            let error = Address::parse(text).expect_err(text);
            assert_eq!(error.message, format!("invalid address {message}"));
            assert_eq!(error.help.join(" "), help, "{text}");
            assert_eq!(error.code, Code::ApiAddress);
        }
    }

    #[test]
    fn basic_auth_splits_at_the_first_colon() {
        for (text, expected) in [
            ("", None),
            ("me", Some(("me", None))),
            ("me:", Some(("me", Some("")))),
            ("me:a:b", Some(("me", Some("a:b")))),
        ] {
            let auth = BasicAuth::parse(text);
            let parts = auth.as_ref().map(|auth| {
                let password = auth.password.as_ref().map(RedactedString::expose);
                (auth.user.as_str(), password)
            });
            assert_eq!(parts, expected, "{text}");
            assert!(!format!("{auth:?}").contains("a:b"));
        }
    }
}
